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
}

/** The request path's only view of administration: in memory, compiled, never a database call. */
export interface Directory {
  /** The key whose secret has this SHA-256 (base64), or undefined. */
  keyByHash(sha256: string): KeyRecord | undefined;
  readonly defaultOrganisationId: string;
  readonly defaultWorkspaceId: string;
}
