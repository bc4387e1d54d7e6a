import { randomBytes } from 'node:crypto';
import { type Static, type TSchema, Type } from 'typebox';
import { Value } from 'typebox/value';
import type { Scope } from './plugin.ts';

/** What a sealed text is for: one for another purpose does not open. */
type Purpose = 'ticket' | 'browser' | 'state' | 'client' | 'consent' | 'code' | 'refresh';

/** Longest sealed text that is opened. */
const longestSealed = 24_576;
const idBytes = 16;
const longestLifeMs = 900_000;

const Envelope = Type.Object({
  id: Type.String({ maxLength: 64 }),
  /** Milliseconds since the epoch; absent for never. */
  until: Type.Optional(Type.Number()),
  value: Type.Unknown(),
});

/** A value that came back. */
interface Opened<T> {
  readonly id: string;
  readonly value: T;
}

/** A new random name. */
export function randomName(): string {
  return randomBytes(idBytes).toString('base64url');
}

/**
 * Keeps nothing: what has to be remembered between two requests leaves the gateway, sealed, and comes back with the next
 * one. Any gateway with the same secret key goes on with it.
 */
export class Seals {
  readonly #secrets: Scope['secrets'];
  readonly #clock: Scope['clock'];
  readonly #counters: Scope['counters'];
  readonly #owner: string;

  /** `owner`: texts of another one do not open. */
  constructor({ secrets, clock, counters }: Pick<Scope, 'secrets' | 'clock' | 'counters'>, owner: string) {
    this.#secrets = secrets;
    this.#clock = clock;
    this.#counters = counters;
    this.#owner = owner;
  }

  /**
   * Characters that need no escaping in URLs and cookies. `lifetimeMs`: 15 minutes at the most; without one the text opens
   * as long as the secret key is known, and cannot be spent.
   */
  seal(purpose: Purpose, value: object, lifetimeMs?: number): string {
    const until =
      lifetimeMs === undefined ? undefined : this.#clock.now() + Math.min(lifetimeMs, longestLifeMs);
    return this.#secrets.seal(JSON.stringify({ id: randomName(), until, value }), this.#context(purpose));
  }

  /** The value; undefined for a text that was not sealed here for this purpose, or whose time is over. */
  open<T extends TSchema>(
    purpose: Purpose,
    text: string | undefined,
    schema: T,
  ): Opened<Static<T>> | undefined {
    if (text === undefined || text === '' || text.length > longestSealed) return undefined;
    let envelope: unknown;
    try {
      envelope = JSON.parse(this.#secrets.open(text, this.#context(purpose)));
    } catch {
      return undefined;
    }
    if (!Value.Check(Envelope, envelope) || !Value.Check(schema, envelope.value)) return undefined;
    const { id, value, until = Infinity } = envelope;
    return this.#clock.now() < until ? { id, value } : undefined;
  }

  /**
   * True the first time for this id: for all gateways that share `storage.counters`, and for this process where there
   * is no shared store, or it does not answer.
   */
  async spend(id: string): Promise<boolean> {
    // The same length every time: a window of another length counts for itself.
    const window = { key: `mcp-seal:${id}`, group: 'mcp-seal', limit: 1, windowMs: longestLifeMs };
    return (await this.#counters.take([window], 1, 'local')).allowed;
  }

  #context(purpose: Purpose): string {
    return `mcp-seal/${purpose}/${this.#owner}`;
  }
}
