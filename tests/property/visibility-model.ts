/** The rows of logs and analytics that each caller may see, said as plainly as possible: the gateway is held against it. */

/** The caller. */
export interface Viewer {
  readonly kind: 'owner' | 'organisation-service' | 'workspace-service' | 'workspace-user';
  readonly organisation: string;
  readonly workspace: string;
  readonly keyId: string;
  /** Whose key it is; empty for nobody's. */
  readonly user: string;
  /** What the user is in the organisation; undefined for somebody who is not there. */
  readonly inOrganisation: 'owner' | 'admin' | 'member' | undefined;
  readonly inWorkspace: 'manager' | 'member' | undefined;
}

export interface Switches {
  readonly membersViewAllData: boolean;
  readonly managersViewAllData: boolean;
  readonly membersViewAnalytics: boolean;
  readonly managersViewAnalytics: boolean;
}

/** The settings of the organisation, and what a workspace says instead of them where it may. */
export interface Rules {
  readonly organisation: Switches;
  readonly mayOverride: boolean;
  readonly workspace: Switches | undefined;
}

/** What rows say of where they are from. */
interface Origin {
  readonly organisation_id: string;
  readonly workspace_id: string;
  readonly user_id: string;
  readonly api_key_id: string;
}

/** Which rows are allowed: those with all of these. */
export interface View {
  readonly organisation: string;
  readonly workspace?: string;
  readonly user?: string;
  readonly key?: string;
}

export function isAllowed(view: View, row: Origin): boolean {
  if (row.organisation_id !== view.organisation) return false;
  if (view.workspace !== undefined && row.workspace_id !== view.workspace) return false;
  if (view.user !== undefined && row.user_id !== view.user) return false;
  return view.key === undefined || row.api_key_id === view.key;
}

/**
 * The rows that somebody may see, through a route of analytics or of single logs, when they name a workspace or none;
 * or the status of the refusal. Of archived workspaces only keys of the organisation see anything.
 */
export function viewOf(
  viewer: Viewer,
  rules: Rules,
  asked: {
    readonly isAnalytics: boolean;
    /** Undefined when no workspace is named; null when the name is of none. */
    readonly named: string | null | undefined;
    readonly archived: string;
  },
): View | 403 | 404 {
  const { organisation, workspace, user } = viewer;
  if (viewer.kind === 'owner' || viewer.kind === 'organisation-service') {
    if (asked.named === null) return 404;
    return asked.named === undefined ? { organisation } : { organisation, workspace: asked.named };
  }
  if (workspace === asked.archived) return 403;
  const switches = rules.mayOverride ? (rules.workspace ?? rules.organisation) : rules.organisation;
  const isBoss =
    viewer.kind === 'workspace-user' &&
    (viewer.inOrganisation === 'owner' || viewer.inOrganisation === 'admin');
  const isManager =
    viewer.kind === 'workspace-service' ||
    (viewer.inOrganisation === 'member' && viewer.inWorkspace === 'manager');
  if (!isBoss && asked.isAnalytics) {
    if (!(isManager ? switches.managersViewAnalytics : switches.membersViewAnalytics)) return 403;
  }
  if (asked.named !== undefined && asked.named !== workspace) return 404;
  if (isBoss || (isManager ? switches.managersViewAllData : switches.membersViewAllData))
    return { organisation, workspace };
  return user === '' ? { organisation, workspace, key: viewer.keyId } : { organisation, workspace, user };
}
