/** Where a host departs from its dialect. All optional. */
export interface Quirks {
  /** Top-level request members under another name: `{ seed: 'random_seed' }`. */
  readonly rename?: Readonly<Record<string, string>>;
  /** Top-level request members that the host refuses; what is left out is reported as dropped. */
  readonly drop?: readonly string[];
  /** Roles under another name: `{ developer: 'system' }`. */
  readonly roles?: Readonly<Record<string, string>>;
  /** Values under another name, by member: `{ tool_choice: { required: 'any' } }`. */
  readonly values?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Path of an operation where it differs from the dialect's: `{ embeddings: '/embed' }`. */
  readonly paths?: Readonly<Record<string, string>>;
}

/** What encoding a request needs to know of the host. */
export interface HostFacts {
  /** As addressed, for messages. */
  readonly provider: string;
  /** The model to ask for. */
  readonly model: string;
  readonly quirks: Quirks;
  /** Whether streamed chat answers carry usage: always, only when asked, or never. */
  readonly usageInStream: 'always' | 'on_request' | 'never';
  /** Fields of the provider's configuration that are no secret: `azure_api_version`, `vertex_region` … */
  readonly settings: Readonly<Record<string, string>>;
}
