/** Section `storage.resources` of the configuration, defaults filled in. All but `url` is for a server. */
export interface ResourcesStoreSettings {
  /** `pglite:` (under the data folder), `pglite:DIRECTORY`, `postgres://…`, or `none:`. */
  readonly url: string;
  /** Instead of one in `url`, where it had to be escaped. */
  readonly password?: string;
  readonly ca_file?: string;
}
