import type { SecretReferenceData } from './record-kinds.ts';
import type { StoredRecord } from './records.ts';

/** Sources on the gateway's own machine that secret references may read (`security.secret_sources`). */
export interface SecretSources {
  /** Prefix of readable environment variables; empty: none is readable. */
  readonly environment_prefix: string;
  /** Absolute folder of readable files; empty: none is readable. */
  readonly folder: string;
  /** Whether the gateway may use the machine's identity at managers: AWS keys of the environment, a managed identity, … */
  readonly machine_identity: boolean;
}

/** A secret reference as it is about to be stored. */
export interface SecretQuestion {
  readonly managerType: SecretReferenceData['managerType'];
  /** All fields of `auth_config`, the secret ones in plain text. */
  readonly auth: Readonly<Record<string, string>>;
  readonly secretPath: string;
}

/** Reads secrets from external managers. */
export interface SecretManagers {
  /** Why this gateway refuses the reference: the field (`/secret_path`) and a sentence; else undefined. Sends no request. */
  refusal(question: SecretQuestion): { readonly path: string; readonly message: string } | undefined;
  /**
   * The secret, or a member of its JSON: `secretKey`, else the one that the reference names, else the whole. Cached for
   * 5 minutes and renewed in the background, so it is mostly there at once; while its manager is unreachable it stays in
   * use for up to a day. Rejects (or throws) `credentials_failed` with the reason when there is no value.
   * The caller checks whether the workspace may use the reference: `isAllowedIn`.
   */
  value(
    reference: StoredRecord<'secret_reference'>,
    secrets: SecretBox,
    secretKey?: string,
  ): string | Promise<string>;
}

/** Whether integrations may use the reference for requests of this workspace. */
export function isAllowedIn(
  { allowAllWorkspaces, allowedWorkspaces }: SecretReferenceData,
  workspaceId: string,
): boolean {
  return allowAllWorkspaces || allowedWorkspaces.includes(workspaceId);
}

/** Keeps texts unreadable at rest (AES-256-GCM). */
export interface SecretBox {
  /** Id of the current key. `isCurrent` is false for texts that another key sealed. */
  readonly keyId: string;
  /**
   * Returns the text to store. It is bound to `context` (the record's id and the field's name): after a move to another
   * record or field it does not open.
   */
  seal(text: string, context: string): string;
  /** Throws `internal` when the key is missing, or when the text was changed or moved. */
  open(sealed: string, context: string): string;
  isCurrent(sealed: string): boolean;
}

/** The context of a record's secret: `field` is its name in the record's `secrets`. */
export function secretContext(recordId: string, field: string): string {
  return `${recordId}/${field}`;
}
