/** A service key as the request path sees it. Secrets are not part of it. */
export interface KeyRecord {
  readonly id: string;
  readonly name: string;
  readonly kind: 'owner' | 'organisation-service' | 'workspace-service' | 'workspace-user';
  readonly organisationId: string;
  readonly workspaceId: string;
  readonly userId: string;
  /** `*` stands for every scope. */
  readonly scopes: readonly string[];
  /** Milliseconds since the epoch, or null for never. */
  readonly expiresAt: number | null;
  /** True for the secret before a rotation: `expiresAt` is then the end of the time of transition. */
  readonly isReplaced?: boolean;
}

/** The request path's only view of administration: in memory, compiled, never a database call. */
export interface Directory {
  /** The key whose secret has this SHA-256 (base64), or undefined. */
  keyByHash(sha256: string): KeyRecord | undefined;
  /** True for the id of a workspace that was archived: its keys are refused. */
  isArchived(workspaceId: string): boolean;
  readonly defaultOrganisationId: string;
  readonly defaultWorkspaceId: string;
}
