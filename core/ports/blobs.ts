/** A stored file, to be read once. */
export interface StoredBlob {
  readonly bytes: number;
  /** Ends with an error when the store fails in between. Leaving it early releases the file. */
  readonly content: AsyncIterable<Buffer>;
}

/** How somebody who follows a link receives the file. */
export interface BlobLink {
  /** How long the link opens, in seconds. */
  readonly seconds: number;
  /** Under which it is saved. Letters, digits, `.`, `-` and `_`. */
  readonly fileName: string;
  readonly contentType: string;
}

/**
 * Files that are written once: on a disk, or in a store that speaks S3. Names are made of letters, digits, `.`, `-` and
 * `_`, in folders with `/` between them; anything else throws a `TypeError`. Rejects with `GatewayError`
 * `store_unavailable` when it should be tried again, and with another error when a person has to look at it.
 */
export interface Blobs {
  /**
   * Stores what comes under this name, whole or not at all; what was there is replaced. Nothing of it is held in memory
   * for longer than it takes to write. Resolves to its length in bytes. Rejects with the reason of `signal` when that ends.
   */
  write(
    name: string,
    content: AsyncIterable<Uint8Array> | Uint8Array,
    options?: { readonly signal?: AbortSignal },
  ): Promise<number>;
  /** Undefined when there is none of this name. */
  read(name: string): Promise<StoredBlob | undefined>;
  /** Removes a folder with everything in it; does nothing when there is none. */
  removeFolder(folder: string): Promise<void>;
  /** An address from which anybody may fetch the file for a while; undefined where the gateway itself hands it out. */
  link(name: string, link: BlobLink): string | undefined;
  /** Resolves when the store answers; rejects with the reason otherwise. */
  ping(): Promise<void>;
  close(): Promise<void>;
}
