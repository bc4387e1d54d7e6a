/** Where the routes of workspaces stand, and how their operations are told apart. */
export interface WorkspacePlace {
  readonly path: '/admin/workspaces' | '/workspaces';
  /** Behind the operation id. */
  readonly suffix: '' | '_plain';
}

/** Both paths under which workspaces, and what belongs to them, are served. */
export const workspacePlaces: readonly WorkspacePlace[] = [
  { path: '/admin/workspaces', suffix: '' },
  { path: '/workspaces', suffix: '_plain' },
];
