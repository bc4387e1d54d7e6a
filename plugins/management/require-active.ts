import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { WorkspaceRecord } from '../../core/ports/resources.ts';

/** Throws `resource_conflict` for an archived workspace: neither it nor what belongs to it is changed any more. */
export function requireActive({ name, status }: WorkspaceRecord): void {
  if (status === 'active') return;
  throw new GatewayError(
    'resource_conflict',
    `The workspace "${name}" is archived and cannot be changed any more.`,
  );
}
