import type { Cache, CachedValue } from '../../core/ports/cache.ts';
import { invalidationKey, type CacheArea } from '../../core/base/cache-namespace.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { RecentMap } from '../../core/base/recent-map.ts';
import { decodeAnswer, encodeAnswer, type StoredAnswer } from './stored-answer.ts';

type MaybePromise<T> = T | Promise<T>;

/** Areas whose keys are remembered; making one costs as much as the rest of a hit's look-up. */
const maxRememberedAreas = 1000;

/** Answers in the store of bytes, as far as they still hold. */
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
   * The answer, unless it is as old as `maxAgeMs`, or was asked for before its area was invalidated. The marks are read
   * only when a value was found: across a network that is a second way, which a hit can afford, and nothing for a miss.
   */
  read(key: string, area: CacheArea, maxAgeMs: number): MaybePromise<StoredAnswer | undefined> {
    const found = this.cache.get(key);
    if (!isLater(found)) return this.marked(key, found, area, maxAgeMs);
    return found.then((value) => this.marked(key, value, area, maxAgeMs));
  }

  /** Not waited for: a store that is away or slow has forgotten, which is all. */
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
    // Compared, which costs less than looking it up by a name put together for it.
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
      // Gone for good, even should the mark be forgotten.
      void this.cache.delete(key);
      return undefined;
    }
    return stored;
  }
}

/** Under which keys invalidations of an area are marked. */
interface MarkKeys extends CacheArea {
  readonly ofWorkspace: string;
  readonly ofNamespace: string | undefined;
}

function isLater(value: MaybePromise<CachedValue | undefined>): value is Promise<CachedValue | undefined> {
  return value !== undefined && 'then' in value;
}
