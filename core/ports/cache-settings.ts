/** What a config says about caching the answers of one target; it then stands in place of the options of the `cache` plugin. */
export interface CacheSettings {
  /** `off`: not cached, whatever the plugin's options say. */
  readonly mode: 'off' | 'simple' | 'semantic';
  /** How long an answer is used, in milliseconds; undefined leaves it to the plugin. */
  readonly maxAgeMs: number | undefined;
  /** Least cosine similarity of an answered question, 0 to 1; undefined leaves it to the plugin. Only for `semantic`. */
  readonly threshold: number | undefined;
}
