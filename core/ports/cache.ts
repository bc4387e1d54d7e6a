/** What was stored under a key, and until when it holds. */
export interface CachedValue {
  readonly bytes: Uint8Array;
  /** Milliseconds since the epoch. */
  readonly storedAt: number;
  readonly expiresAt: number;
}

/**
 * Bytes under a key, for a time. Losing a value is always allowed, so nothing here ever rejects: a store that is away
 * or slow (more than 50 ms) answers like one that has forgotten. The memory implementation answers at once.
 */
export interface Cache {
  /** The value, unless it has expired or is gone. */
  get(key: string): CachedValue | undefined | Promise<CachedValue | undefined>;
  /** Keeps a copy of the bytes, made before it returns, for `ttlMs`; a value that is larger than the store takes is dropped. */
  set(key: string, bytes: Uint8Array, ttlMs: number): void | Promise<void>;
  delete(key: string): void | Promise<void>;
}

/** What a config says about caching the answers of one target; it then stands in place of the options of the `cache` plugin. */
export interface CacheSettings {
  /** `off`: not cached, whatever the plugin's options say. */
  readonly mode: 'off' | 'simple' | 'semantic';
  /** How long an answer is used, in milliseconds; undefined leaves it to the plugin. */
  readonly maxAgeMs: number | undefined;
  /** Least cosine similarity of an answered question, 0 to 1; undefined leaves it to the plugin. Only for `semantic`. */
  readonly threshold: number | undefined;
}
