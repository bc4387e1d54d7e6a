/** What of section `storage.analytics` says where a server is, and how its tables lie. */
export interface AnalyticsServerSettings {
  /** For a server `http://HOST:8123/DATABASE` or `https://…`; the database is `weir` when none is named. */
  readonly url: string;
  readonly username?: string;
  readonly password?: string;
  readonly ca_file?: string;
  readonly cluster?: string;
  readonly replicated: boolean;
  readonly replica_path: string;
  readonly replica_name: string;
}

/** Section `storage.analytics` of the configuration, defaults filled in. */
export interface AnalyticsStoreSettings extends AnalyticsServerSettings {
  /** Resident memory of the embedded engine's process. */
  readonly max_memory_bytes: number;
  /** Queries that run at the same time. Default: 4 on a server, 2 on the embedded engine. */
  readonly max_concurrent_queries?: number;
  readonly max_queued_queries: number;
  readonly query_timeout_s: number;
}
