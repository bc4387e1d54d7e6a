import type { SecretReferenceData } from './record-kinds.ts';
import type { StoredRecord } from './records.ts';

/** What secret references may read of the machine that the gateway runs on (`security.secret_sources`). */
export interface SecretSources {
  /** Names of environment variables that may be read begin with it; empty: none may. */
  readonly environment_prefix: string;
  /** Absolute folder whose files may be read; empty: none may. */
  readonly folder: string;
  /** Whether managers may be asked in the name of the machine: AWS keys of the environment, a managed identity, … */
  readonly machine_identity: boolean;
}

/** A secret reference as it is about to be stored. */
export interface SecretQuestion {
  readonly managerType: SecretReferenceData['managerType'];
  /** All fields of `auth_config`, the secret ones in plain text. */
  readonly auth: Readonly<Record<string, string>>;
  readonly secretPath: string;
}

/** Reads secrets from managers elsewhere. */
export interface SecretManagers {
  /** Why this gateway would not ask: the field (`/secret_path`) and a sentence; undefined when it would. Asks nobody. */
  refusal(question: SecretQuestion): { readonly path: string; readonly message: string } | undefined;
  /**
   * The secret, or a member of its JSON: `secretKey`, else the one that the reference names, else the whole. Kept for 5
   * minutes and renewed behind requests, so it is mostly there at once; one that a manager cannot be asked about now
   * stays in use for up to a day. Rejects (or throws) `credentials_failed` with the reason when there is none to be had.
   * Whether the reference may be used in a workspace is for the caller to ask: `isAllowedIn`.
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
