/** Vectors that may be compared with each other: nothing is ever found across partitions. */
export interface VectorPartition {
  readonly organisationId: string;
  /** A digest of everything that two questions must have in common. */
  readonly digest: string;
}

/** The most similar vector that was found. */
export interface Similar {
  readonly id: string;
  /** The cosine of the angle between the two vectors, up to 1. */
  readonly similarity: number;
}

/** How long and beside how many others a vector is kept. */
export interface VectorBounds {
  readonly ttlMs: number;
  /** What the index may hold after this one came. Which others leave for it is the index's choice. */
  readonly maxEntries: number;
}

/**
 * Vectors by id, for a time at the least. Losing one is always allowed, so nothing here ever rejects: an index that is away or slow
 * finds nothing. The memory implementation answers at once.
 */
export interface VectorIndex {
  /** The most similar one whose cosine is at least `threshold`. Vectors of another length are not comparable. */
  nearest(
    partition: VectorPartition,
    vector: Float32Array,
    threshold: number,
  ): Similar | undefined | Promise<Similar | undefined>;
  /** Keeps a copy of the vector under the id, in place of an earlier one. One without a direction (all zero) is not kept. */
  add(
    partition: VectorPartition,
    id: string,
    vector: Float32Array,
    bounds: VectorBounds,
  ): void | Promise<void>;
  remove(partition: VectorPartition, id: string): void | Promise<void>;
}

/** With what a text is embedded. */
export interface EmbeddingSettings {
  /** A provider by its name in the configuration. */
  readonly provider: string;
  readonly model: string;
  /** Milliseconds until the vector must be there, the fetching of a token included. */
  readonly timeoutMs: number;
}

/** Vectors of texts, made by a provider that the gateway holds the credential of. */
export interface Embeddings {
  /**
   * Why no text can be embedded with these settings, as a sentence with the remedy; undefined when nothing speaks against
   * it. Asks nobody: for the moment at which options are read.
   */
  problem(settings: Pick<EmbeddingSettings, 'provider' | 'model'>): string | undefined;
  /**
   * The vector of one text, as the provider gave it (of any length, not normalised). Rejects with a GatewayError:
   * `provider_unknown`, `not_supported`, what the transport says, `provider_error`, `upstream_invalid`, `upstream_timeout`.
   */
  embed(text: string, settings: EmbeddingSettings): Promise<Float32Array>;
}
