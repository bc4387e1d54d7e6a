import type { Usage } from '../../core/dialects/usage.ts';
import { type HeaderList, isSameList } from '../../core/ports/header-list.ts';
import type { Cache, CachedValue } from '../../core/ports/cache.ts';
import { type CacheArea, invalidationKey } from '../../core/base/cache-namespace.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { RecentMap } from '../../core/base/recent-map.ts';

/** An answer as the store holds it. */
export const storedForm = { headers: headersToKeep, encode: encodeAnswer, decode: decodeAnswer };

type MaybePromise<T> = T | Promise<T>;

/** Areas whose keys are cached; making one costs as much as the rest of a hit's look-up. */
const maxRememberedAreas = 1000;

/** Answers in the byte store that have neither expired nor been invalidated. */
export class AnswerStore {
  private readonly cache: Cache;
  private readonly clock: Clock;
  private readonly markKeys = new RecentMap<MarkKeys>(maxRememberedAreas);
  private last: MarkKeys | undefined;

  constructor(cache: Cache, clock: Clock) {
    this.cache = cache;
    this.clock = clock;
  }

  /**
   * The answer, unless it is as old as `maxAgeMs`, or was requested before its area was invalidated. The marks are read
   * only after a value was found: over a network that is a second round trip for a hit and none for a miss.
   */
  read(key: string, area: CacheArea, maxAgeMs: number): MaybePromise<StoredAnswer | undefined> {
    const found = this.cache.get(key);
    if (!isLater(found)) return this.marked(key, found, area, maxAgeMs);
    return found.then((value) => this.marked(key, value, area, maxAgeMs));
  }

  /** Does not wait: with an unreachable or slow store the answer is simply not cached. */
  write(key: string, answer: StoredAnswer, ttlMs: number): void {
    void this.cache.set(key, encodeAnswer(answer), ttlMs);
  }

  private marked(
    key: string,
    value: CachedValue | undefined,
    area: CacheArea,
    maxAgeMs: number,
  ): MaybePromise<StoredAnswer | undefined> {
    if (value === undefined) return undefined;
    const { ofWorkspace, ofNamespace } = this.marksOf(area);
    const ofAll = this.cache.get(ofWorkspace);
    const ofOne = ofNamespace === undefined ? undefined : this.cache.get(ofNamespace);
    if (!isLater(ofAll) && !isLater(ofOne)) return this.judged(key, value, maxAgeMs, [ofAll, ofOne]);
    return Promise.all([ofAll, ofOne]).then((marks) => this.judged(key, value, maxAgeMs, marks));
  }

  private marksOf(area: CacheArea): MarkKeys {
    const { organisationId, workspaceId, namespace } = area;
    const { last } = this;
    // A comparison is cheaper than a look-up by a concatenated name.
    if (
      last?.organisationId === organisationId &&
      last.workspaceId === workspaceId &&
      last.namespace === namespace
    )
      return last;
    const name = `${organisationId}\n${workspaceId}\n${namespace ?? ''}`;
    let keys = this.markKeys.get(name);
    if (keys === undefined) {
      keys = {
        ofWorkspace: invalidationKey({ organisationId, workspaceId, namespace: undefined }),
        ofNamespace: namespace === undefined ? undefined : invalidationKey(area),
        ...area,
      };
      this.markKeys.set(name, keys);
    }
    return (this.last = keys);
  }

  private judged(
    key: string,
    value: CachedValue,
    maxAgeMs: number,
    marks: readonly (CachedValue | undefined)[],
  ): StoredAnswer | undefined {
    const stored = decodeAnswer(value.bytes, value.storedAt);
    if (stored === undefined || this.clock.now() - stored.storedAt >= maxAgeMs) return undefined;
    for (const mark of marks) {
      if (mark === undefined || stored.askedAt > mark.storedAt) continue;
      // Deleted, so that it stays invalid even when the mark expires.
      void this.cache.delete(key);
      return undefined;
    }
    return stored;
  }
}

/** Keys of the invalidation marks of an area. */
interface MarkKeys extends CacheArea {
  readonly ofWorkspace: string;
  readonly ofNamespace: string | undefined;
}

function isLater(value: MaybePromise<CachedValue | undefined>): value is Promise<CachedValue | undefined> {
  return value !== undefined && 'then' in value;
}

/** A cached answer. */
export interface StoredAnswer {
  /** Form of `body`: one JSON document, or the frames of a stream. */
  readonly form: 'json' | 'stream';
  /** Flat, without the ones that belong to one delivery. */
  readonly headers: HeaderList;
  readonly body: Buffer;
  readonly model: string;
  readonly finishReason: string;
  /** Usage of the original call; some streams do not carry it. */
  readonly usage: Usage | undefined;
  /** The body contains the usage. */
  readonly tellsUsage: boolean;
  /** Time of the original request, in milliseconds since the epoch. */
  readonly askedAt: number;
  /** Time of storage, in milliseconds since the epoch. */
  readonly storedAt: number;
}

/**
 * Headers that describe the answer itself. All others belong to one delivery (ids, limits, timings, cookies, the
 * connection) and would be wrong in another.
 */
const keptHeaders: ReadonlySet<string> = new Set(['content-type', 'content-language', 'openai-version']);

const keptLengths: ReadonlySet<number> = new Set([...keptHeaders].map((name) => name.length));

/** The headers of a provider's answer that are stored with it. */
function headersToKeep(headers: HeaderList): HeaderList {
  const kept: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    const header = headers[i] as string;
    // The length is compared first: it rejects nearly every header without lower-casing it.
    if (!keptLengths.has(header.length)) continue;
    const name = header.toLowerCase();
    if (keptHeaders.has(name)) kept.push(name, headers[i + 1] as string);
  }
  return kept;
}

/** Buffer for encoding answers that fit into it: a store keeps a copy anyway. */
const scratch = Buffer.allocUnsafeSlow(65_536);

/** A line of JSON that describes the body, and the body. The bytes are valid until the next call. */
function encodeAnswer(answer: StoredAnswer): Uint8Array {
  const { usage, askedAt, body } = answer;
  // An undefined member is left out, as `JSON.stringify` does.
  const used = usage === undefined ? '' : `,"usage":${usageText(usage)}`;
  const line = `${beginningOf(answer)}${used},"askedAt":${askedAt}}\n`;
  // UTF-8 takes at most three bytes for each UTF-16 unit.
  const most = 3 * line.length + body.length;
  const encoded = most <= scratch.length ? scratch : Buffer.allocUnsafe(most);
  const start = encoded.write(line, 0, 'utf8');
  encoded.set(body, start);
  return encoded.subarray(0, start + body.length);
}

/** The usage as JSON; all its members are numbers. */
function usageText(usage: Usage): string {
  let text = '';
  for (const name in usage) text += `${text && ','}"${name}":${usage[name as keyof Usage]}`;
  return `{${text}}`;
}

/** Facts that an answer shares with many others, and the start of its descriptive line made from them. */
interface Beginning extends Pick<StoredAnswer, 'form' | 'headers' | 'model' | 'finishReason' | 'tellsUsage'> {
  readonly text: string;
}

let last: Beginning | undefined;

/** Consecutive answers mostly share their facts: a comparison is cheaper than making JSON. */
function beginningOf({ form, headers, model, finishReason, tellsUsage }: StoredAnswer): string {
  if (
    last?.form === form &&
    last.model === model &&
    last.finishReason === finishReason &&
    last.tellsUsage === tellsUsage &&
    isSameList(last.headers, headers)
  )
    return last.text;
  const text = JSON.stringify({ form, headers, model, finishReason, tellsUsage }).slice(0, -1);
  last = { form, headers, model, finishReason, tellsUsage, text };
  return text;
}

/** Decoded answers by their bytes: a memory store returns the same bytes at every hit. */
const decoded = new WeakMap<Uint8Array, StoredAnswer>();

/** Inverse of `encodeAnswer`. Undefined for bytes that it did not write. */
function decodeAnswer(bytes: Uint8Array, storedAt: number): StoredAnswer | undefined {
  const known = decoded.get(bytes);
  if (known !== undefined) return known;
  const answer = decode(bytes, storedAt);
  if (answer !== undefined) decoded.set(bytes, answer);
  return answer;
}

function decode(bytes: Uint8Array, storedAt: number): StoredAnswer | undefined {
  const stored = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = stored.indexOf(0x0a);
  if (end === -1) return undefined;
  let head: unknown;
  try {
    head = JSON.parse(stored.toString('utf8', 0, end));
  } catch {
    return undefined;
  }
  if (!isHead(head)) return undefined;
  const { form, headers, model, finishReason, usage, tellsUsage, askedAt } = head;
  const body = stored.subarray(end + 1);
  return { form, headers, model, finishReason, usage, tellsUsage, askedAt, body, storedAt };
}

type Head = Omit<StoredAnswer, 'body' | 'storedAt'>;

function isHead(value: unknown): value is Head {
  if (typeof value !== 'object' || value === null) return false;
  const { form, headers, model, finishReason, usage, tellsUsage, askedAt } = value as Partial<
    Record<keyof Head, unknown>
  >;
  return (
    (form === 'json' || form === 'stream') &&
    Array.isArray(headers) &&
    headers.every((item) => typeof item === 'string') &&
    typeof model === 'string' &&
    typeof finishReason === 'string' &&
    typeof tellsUsage === 'boolean' &&
    typeof askedAt === 'number' &&
    (usage === undefined || isUsage(usage))
  );
}

function isUsage(value: unknown): value is Usage {
  return (
    typeof value === 'object' &&
    value !== null &&
    Object.values(value).every((count) => typeof count === 'number')
  );
}
