/** What a signature covers: the request as it goes on the wire. */
export interface SignableRequest {
  readonly method: string;
  /** Scheme, host and port: `https://bedrock-runtime.us-east-1.amazonaws.com`. */
  readonly origin: string;
  /** Path with its query, encoded as it is sent. */
  readonly path: string;
  /** Flat names and values. Those that `authorize` returns are not looked at. */
  readonly headers: readonly string[];
  readonly body: Uint8Array | null;
}

/** One credential, ready to authorize requests to its provider. Holds secrets: never log it. */
export interface Credentials {
  /**
   * Headers to set, flat; each replaces those of its name. A promise only when a token has to be fetched first.
   * Rejects with `credentials_failed` when there is none to be had.
   */
  authorize(request: SignableRequest): string[] | Promise<string[]>;
}

/** Signatures of AWS; tokens of Google; tokens of Microsoft Entra. */
export type CredentialKind = 'sigv4' | 'google' | 'entra';

/** The credential fields of a provider by name: `aws_region`, `vertex_service_account_json`, `azure_auth_mode`, … */
export type CredentialFields = Readonly<Record<string, string>>;

/** How far the fields are trusted. */
export interface CredentialOptions {
  /**
   * The operator wrote the fields, so they may stand on an identity that belongs to the machine: AWS keys of the
   * environment, a managed identity, a federated token. Default false, as for fields that a request brings: whoever
   * sends it must not act as the gateway.
   */
  readonly machineIdentity?: boolean;
}

/** Makes credentials of fields. */
export interface CredentialFactory {
  /**
   * The same fields give the same credentials, and so share one token. Throws `invalid_request`, with the field as its
   * `param`, for fields that are missing or malformed.
   */
  create(kind: CredentialKind, fields: CredentialFields, options?: CredentialOptions): Credentials;
}
