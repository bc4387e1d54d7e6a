/** Vectors that may be compared with each other. A search never crosses partitions. */
export interface VectorPartition {
  readonly organisationId: string;
  /** A digest of everything in which two requests must be equal. */
  readonly digest: string;
}

/** The most similar vector that was found. */
export interface Similar {
  readonly id: string;
  /** The cosine of the angle between the two vectors, up to 1. */
  readonly similarity: number;
}

/** Lifetime of a vector, and size of its index. */
export interface VectorBounds {
  readonly ttlMs: number;
  /** Upper bound of vectors in the index after this one is added. The index chooses which others it evicts. */
  readonly maxEntries: number;
}

/**
 * Vectors by id, each kept for a bounded time. Losing one is always allowed, so no method rejects: an index that is
 * unreachable or slow finds nothing. The memory implementation answers at once.
 */
export interface VectorIndex {
  /** The most similar one whose cosine is at least `threshold`. Vectors of another length are not comparable. */
  nearest(
    partition: VectorPartition,
    vector: Float32Array,
    threshold: number,
  ): Similar | undefined | Promise<Similar | undefined>;
  /** Stores a copy of the vector under the id and replaces an earlier one. Does not store a vector that is all zero. */
  add(
    partition: VectorPartition,
    id: string,
    vector: Float32Array,
    bounds: VectorBounds,
  ): void | Promise<void>;
  remove(partition: VectorPartition, id: string): void | Promise<void>;
}

/** Provider, model and deadline of an embedding. */
export interface EmbeddingSettings {
  /** A provider by its name in the configuration. */
  readonly provider: string;
  readonly model: string;
  /** Deadline for the vector in milliseconds, including the fetch of a token. */
  readonly timeoutMs: number;
}

/** Vectors of texts, from a provider whose credential the gateway holds. */
export interface Embeddings {
  /**
   * The reason why these settings cannot embed a text, as a sentence with the remedy; undefined when they can. Sends no
   * request: the loading of options calls it.
   */
  problem(settings: Pick<EmbeddingSettings, 'provider' | 'model'>): string | undefined;
  /**
   * The vector of one text, as the provider gave it (of any length, not normalised). Rejects with a GatewayError:
   * `provider_unknown`, `not_supported`, the transport's errors, `provider_error`, `upstream_invalid`, `upstream_timeout`.
   */
  embed(text: string, settings: EmbeddingSettings): Promise<Float32Array>;
}

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
