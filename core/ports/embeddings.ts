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
