import type { MaybePromise } from '../pipeline/context.ts';
import type { Clock } from '../ports/clock.ts';
import { createHash } from 'node:crypto';

/** Something that was created for sharing, and how to end it. */
interface Shareable<T> {
  readonly value: T;
  destroy(): MaybePromise<void>;
}

/** One holder's claim. */
interface Lease<T> {
  readonly value: T;
  /** Gives the claim back; the last one out ends the value. May be called again. */
  release(): void;
}

/** What a `SharedPool` needs to know. */
interface SharedPoolOptions {
  readonly clock: Clock;
  /**
   * How long a value outlives its last holder, in milliseconds, so that a reload that releases before it acquires
   * keeps its sockets. Default 0: it ends at once.
   */
  readonly lingerMs?: number;
  /** Told of what `destroy` throws or rejects with. Must not throw. */
  readonly onError: (error: unknown) => void;
}

interface Entry<T> {
  readonly created: Promise<Shareable<T>>;
  holders: number;
  cancelLinger: (() => void) | undefined;
}

/**
 * Clients that several generations share: one per distinct options, kept while somebody holds it. A client with
 * the same options is never created while its predecessor is still being destroyed (it may own a lock).
 */
export class SharedPool<T> {
  readonly #options: SharedPoolOptions;
  readonly #entries = new Map<string, Entry<T>>();
  readonly #endings = new Map<string, Promise<void>>();

  constructor(options: SharedPoolOptions) {
    this.#options = options;
  }

  /**
   * The value for these options (plain data), created on first use; callers that come meanwhile wait for the same
   * creation. Rejects as `create` does, and the next caller tries again.
   */
  async acquire(options: unknown, create: () => MaybePromise<Shareable<T>>): Promise<Lease<T>> {
    const key = stableHash(options);
    const entry = this.#entries.get(key) ?? this.#add(key, create);
    entry.cancelLinger?.();
    entry.cancelLinger = undefined;
    entry.holders += 1;
    const { value } = await entry.created;
    let held = true;
    return {
      value,
      release: () => {
        if (held) this.#release(key, entry);
        held = false;
      },
    };
  }

  /** Holders by the hash of their options; 0 for a value that lingers. */
  snapshot(): ReadonlyMap<string, number> {
    return new Map([...this.#entries].map(([key, entry]) => [key, entry.holders]));
  }

  /** Ends what lingers now and waits for every ending under way. Values that are held stay. */
  async close(): Promise<void> {
    for (const [key, entry] of this.#entries) {
      if (entry.holders > 0) continue;
      entry.cancelLinger?.();
      this.#end(key, entry);
    }
    await Promise.all(this.#endings.values());
  }

  #add(key: string, create: () => MaybePromise<Shareable<T>>): Entry<T> {
    const start = async (): Promise<Shareable<T>> => {
      await this.#endings.get(key);
      return create();
    };
    const entry: Entry<T> = { created: start(), holders: 0, cancelLinger: undefined };
    this.#entries.set(key, entry);
    entry.created.catch(() => this.#entries.delete(key));
    return entry;
  }

  #release(key: string, entry: Entry<T>): void {
    entry.holders -= 1;
    if (entry.holders > 0) return;
    const { clock, lingerMs = 0 } = this.#options;
    if (lingerMs === 0) this.#end(key, entry);
    else entry.cancelLinger = clock.after(lingerMs, () => this.#end(key, entry));
  }

  #end(key: string, entry: Entry<T>): void {
    this.#entries.delete(key);
    const ending = entry.created
      .then(async (shareable) => shareable.destroy())
      .catch(this.#options.onError)
      .finally(() => this.#endings.delete(key));
    this.#endings.set(key, ending);
  }
}

/**
 * A hash of plain data that does not depend on the order of keys; members that are undefined count as absent.
 * Use it to recognise equal options. Throws a TypeError on what is not plain data (functions, class instances).
 */
function stableHash(value: unknown): string {
  return createHash('sha256').update(canonical(value)).digest('hex');
}

function canonical(value: unknown): string {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return JSON.stringify(value);
  if (typeof value === 'number' || typeof value === 'undefined') return String(value);
  if (typeof value === 'bigint') return `${value}n`;
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || !isPlain(value)) {
    throw new TypeError(`only plain data can be hashed, not ${Object.prototype.toString.call(value)}`);
  }
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`);
  return `{${members.join(',')}}`;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}
