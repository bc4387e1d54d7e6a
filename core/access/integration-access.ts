import type { IntegrationAccess, IntegrationData } from '../ports/record-kinds.ts';

/** The part of an integration that says who may use it. */
export interface AccessibleIntegration {
  /** Undefined for one of the organisation. */
  readonly workspaceId: string | undefined;
  readonly data: Pick<IntegrationData, 'globalAccess' | 'workspaces'>;
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
  const named = Object.hasOwn(data.workspaces, workspace) ? data.workspaces[workspace] : undefined;
  const access = named ?? data.globalAccess;
  return access.enabled ? access : undefined;
}
