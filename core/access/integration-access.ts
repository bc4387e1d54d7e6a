import type { IntegrationAccess, IntegrationData } from '../ports/record-kinds.ts';

/** The part of an integration that says who may use it. */
interface AccessibleIntegration {
  /** Undefined for one of the organisation. */
  readonly workspaceId: string | undefined;
  readonly data: Pick<IntegrationData, 'globalAccess' | 'workspaces'>;
}

/** The same of any record that an organisation shares with its workspaces. */
interface SharedRecord<A extends { readonly enabled: boolean }> {
  readonly workspaceId: string | undefined;
  readonly data: { readonly globalAccess: A; readonly workspaces: Readonly<Record<string, A>> };
}

const whole: IntegrationAccess = { enabled: true, usageLimits: [], rateLimits: [] };

/**
 * How a workspace may use an integration: its own without bounds, those of the organisation as they say of it by name,
 * or else of all. Undefined when it may not.
 */
export function accessTo(
  { workspaceId, data }: AccessibleIntegration,
  workspace: string,
): IntegrationAccess | undefined {
  if (workspaceId !== undefined) return workspaceId === workspace ? whole : undefined;
  const access = saidOf(data, workspace);
  return access.enabled ? access : undefined;
}

/** Whether a workspace may use a record: its own, and those of the organisation that are enabled for it. */
export function isUsableIn(
  { workspaceId, data }: SharedRecord<{ readonly enabled: boolean }>,
  workspace: string,
): boolean {
  return workspaceId === undefined ? saidOf(data, workspace).enabled : workspaceId === workspace;
}

function saidOf<A extends { readonly enabled: boolean }>(
  { workspaces, globalAccess }: SharedRecord<A>['data'],
  workspace: string,
): A {
  const named = Object.hasOwn(workspaces, workspace) ? workspaces[workspace] : undefined;
  return named ?? globalAccess;
}
