/** A cached value with its times. */
export interface CachedValue {
  readonly bytes: Uint8Array;
  /** Milliseconds since the epoch. */
  readonly storedAt: number;
  readonly expiresAt: number;
}

/**
 * Bytes by key, each for a bounded time. Losing a value is always allowed, so no method rejects: a store that is
 * unreachable or slow (more than 50 ms) answers with a miss. The memory implementation answers at once.
 */
export interface Cache {
  /** The value; undefined after its expiry or loss. */
  get(key: string): CachedValue | undefined | Promise<CachedValue | undefined>;
  /** Stores a copy of the bytes, made before it returns, for `ttlMs`; drops a value above the store's size bound. */
  set(key: string, bytes: Uint8Array, ttlMs: number): void | Promise<void>;
  delete(key: string): void | Promise<void>;
}

/** Cache settings of a config for one target. They override the options of the `cache` plugin. */
export interface CacheSettings {
  /** `off`: no caching, regardless of the plugin's options. */
  readonly mode: 'off' | 'simple' | 'semantic';
  /** Lifetime of an answer in milliseconds; undefined: the plugin's option applies. */
  readonly maxAgeMs: number | undefined;
  /** Minimum cosine similarity for a hit, 0 to 1; undefined: the plugin's option applies. Only for `semantic`. */
  readonly threshold: number | undefined;
}
