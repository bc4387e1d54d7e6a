/** Section `storage.analytics` of the configuration, defaults filled in. All but `url` is for a server. */
export interface AnalyticsStoreSettings {
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
