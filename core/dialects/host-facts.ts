/** Deviations of a host from its dialect. All optional. */
export interface Quirks {
  /** Top-level request members with another name: `{ seed: 'random_seed' }`. */
  readonly rename?: Readonly<Record<string, string>>;
  /** Top-level request members that the host refuses; they are reported as dropped. */
  readonly drop?: readonly string[];
  /** Roles with another name: `{ developer: 'system' }`. */
  readonly roles?: Readonly<Record<string, string>>;
  /** Values with another name, by member: `{ tool_choice: { required: 'any' } }`. */
  readonly values?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Path of an operation where it differs from the dialect's: `{ embeddings: '/embed' }`. */
  readonly paths?: Readonly<Record<string, string>>;
}

/** Facts of the host for encoding a request. */
export interface HostFacts {
  /** As addressed by the caller, for messages. */
  readonly provider: string;
  /** Model name for the host. */
  readonly model: string;
  readonly quirks: Quirks;
  /** Whether streamed chat answers carry usage: always, only when asked, or never. */
  readonly usageInStream: 'always' | 'on_request' | 'never';
  /** Non-secret fields of the provider's configuration: `azure_api_version`, `vertex_region` … */
  readonly settings: Readonly<Record<string, string>>;
}
