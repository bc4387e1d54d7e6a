/** Keeps texts unreadable at rest (AES-256-GCM). */
export interface SecretBox {
  /** Id of the key that seals now: of what another one sealed, `isCurrent` is false. */
  readonly keyId: string;
  /**
   * What is stored. `context` (the record's id and the field's name) is bound to it: moved to another record or field
   * it does not open.
   */
  seal(text: string, context: string): string;
  /** Throws `internal` when the key is not there, or when the text was changed or moved. */
  open(sealed: string, context: string): string;
  isCurrent(sealed: string): boolean;
}

/** The context of a record's secret: `field` is its name in the record's `secrets`. */
export function secretContext(recordId: string, field: string): string {
  return `${recordId}/${field}`;
}
