import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { Member } from '../../core/ports/people.ts';
import type { ResourcesReader, WorkspaceRecord } from '../../core/ports/resources.ts';
import { findUser } from './visible-user.ts';
import { visibleWorkspace } from './visible-workspace.ts';

/** The path of a member. */
export interface MemberPath {
  readonly workspaceId: string;
  readonly userId: string;
}

/**
 * The member, by id or e-mail address, with their workspace. Throws `resource_not_found`: for a workspace that is not within the key's reach as
 * for one that is not there, and for somebody of another organisation as for one who is no member.
 */
export async function visibleMember(
  reader: Pick<ResourcesReader, 'workspaces' | 'members' | 'users'>,
  key: KeyRecord,
  { workspaceId, userId }: MemberPath,
): Promise<Member & { readonly workspace: WorkspaceRecord }> {
  const workspace = await visibleWorkspace(reader, key, workspaceId);
  const { organisationId, id } = workspace;
  const user = userId.includes('@') ? await findUser(reader, organisationId, userId) : undefined;
  const found = await reader.members.find(organisationId, id, user?.id ?? userId);
  if (found !== undefined) return { workspace, member: found.member, user: found.user };
  throw new GatewayError(
    'resource_not_found',
    `The workspace "${workspace.name}" has no member "${userId.slice(0, 64)}". Check the id of the user, or the e-mail address.`,
  );
}

/**
 * Some clients say in the body (`workspace_id`) or in the query (`workspaceId`) what the path says. Throws
 * `invalid_request` when they say something else there.
 */
export function requireSamePath(said: object, path: Readonly<Record<string, string>>): void {
  for (const [name, other] of Object.entries(said)) {
    const value = path[name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())];
    if (value === undefined || other === value) continue;
    throw new GatewayError('invalid_request', `"${name}" is not what the path says. Leave it out.`, {
      param: `/${name}`,
    });
  }
}
