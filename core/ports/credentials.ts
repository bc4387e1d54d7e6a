/** The request as it goes on the wire: a signature covers all of it. */
export interface SignableRequest {
  readonly method: string;
  /** Scheme, host and port: `https://bedrock-runtime.us-east-1.amazonaws.com`. */
  readonly origin: string;
  /** Path with its query, encoded as it is sent. */
  readonly path: string;
  /** Flat names and values. `authorize` ignores headers of the names that it returns. */
  readonly headers: readonly string[];
  readonly body: Uint8Array | null;
}

/** One credential, ready to authorize requests to its provider. Holds secrets: never log it. */
export interface Credentials {
  /**
   * Headers to set, flat; each replaces those of its name. Returns a promise only when a token has to be fetched first;
   * it rejects with `credentials_failed` when the token cannot be fetched.
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
   * The operator wrote the fields, so they may refer to an identity of the machine: AWS keys of the environment, a
   * managed identity, a federated token. Default false, as for fields of a request: its sender must not act as the
   * gateway.
   */
  readonly machineIdentity?: boolean;
}

/** Builds credentials from fields. */
export interface CredentialFactory {
  /**
   * Equal fields return the same credentials, which share one token. Throws `invalid_request`, with the field as its
   * `param`, for fields that are missing or malformed.
   */
  create(kind: CredentialKind, fields: CredentialFields, options?: CredentialOptions): Credentials;
}
