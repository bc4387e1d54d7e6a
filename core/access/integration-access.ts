import type { IntegrationAccess, IntegrationData } from '../ports/record-kinds.ts';

/** Access fields of an integration. */
interface AccessibleIntegration {
  /** Undefined for an integration of the organisation. */
  readonly workspaceId: string | undefined;
  readonly data: Pick<IntegrationData, 'globalAccess' | 'workspaces'>;
}

/** The same for any record that an organisation shares with its workspaces. */
interface SharedRecord<A extends { readonly enabled: boolean }> {
  readonly workspaceId: string | undefined;
  readonly data: { readonly globalAccess: A; readonly workspaces: Readonly<Record<string, A>> };
}

const whole: IntegrationAccess = { enabled: true, usageLimits: [], rateLimits: [] };

/**
 * Access of a workspace to an integration: unlimited to its own; to one of the organisation by the entry for the
 * workspace, else by the global one. Undefined for no access.
 */
export function accessTo(
  { workspaceId, data }: AccessibleIntegration,
  workspace: string,
): IntegrationAccess | undefined {
  if (workspaceId !== undefined) return workspaceId === workspace ? whole : undefined;
  const access = accessOfWorkspace(data, workspace);
  return access.enabled ? access : undefined;
}

/** Whether a workspace may use a record: its own, and those of the organisation that are enabled for it. */
export function isUsableIn(
  { workspaceId, data }: SharedRecord<{ readonly enabled: boolean }>,
  workspace: string,
): boolean {
  return workspaceId === undefined ? accessOfWorkspace(data, workspace).enabled : workspaceId === workspace;
}

function accessOfWorkspace<A extends { readonly enabled: boolean }>(
  { workspaces, globalAccess }: SharedRecord<A>['data'],
  workspace: string,
): A {
  const named = Object.hasOwn(workspaces, workspace) ? workspaces[workspace] : undefined;
  return named ?? globalAccess;
}
