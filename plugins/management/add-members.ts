import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, Type, type Scope } from '../../core/pipeline/plugin.ts';
import type { Member, MemberRecord, UserRecord, WorkspaceRole } from '../../core/ports/people.ts';
import type { ResourcesReader, ResourcesWriter, WorkspaceRecord } from '../../core/ports/resources.ts';
import { memberExample, MemberReply, showMember } from './member-record.ts';
import { listReply } from './page-query.ts';
import { requireActive } from './require-active.ts';
import { requireGrant, requireNotAboveActor } from './require-grant.ts';
import { GivenWorkspaceRole, readWorkspaceRole } from './role-schema.ts';
import { Identifier, Name, strict } from './text-schema.ts';
import { requireSamePath } from './visible-member.ts';
import { namedUsers } from './visible-user.ts';
import { visibleWorkspace } from './visible-workspace.ts';
import type { WorkspacePlace } from './workspace-places.ts';

/** Members that one request adds. */
const most = 100;
const maxShown = 20;

const Body = Type.Object(
  {
    users: Type.Array(
      Type.Object(
        {
          id: Name('The id or the e-mail address of somebody of the organisation.'),
          role: Type.Optional(GivenWorkspaceRole),
        },
        strict,
      ),
      { minItems: 1, maxItems: most, description: 'Who, and as what: `member` by default.' },
    ),
    workspace_id: Type.Optional(Name('As in the path: some clients say it here as well.')),
  },
  strict,
);

/** `POST /admin/workspaces/{workspaceId}/users` and the same without `/admin`: all of them become members, or nobody. */
export function addMembersRoute({ clock }: Scope, { path, suffix }: WorkspacePlace): RouteDefinition {
  return defineRoute({
    id: `workspace_users.create${suffix}`,
    method: 'POST',
    path: `${path}/{workspaceId}/users`,
    summary: 'Makes people of the organisation members of a workspace: all of those named, or nobody',
    scope: 'workspace_users.create',
    audit: 'create',
    params: Type.Object({ workspaceId: Identifier }),
    body: Body,
    reply: Type.Object({ ...listReply, data: Type.Array(MemberReply) }),
    examples: {
      request: { users: [{ id: memberExample.id, role: 'manager' }] },
      response: { object: 'list', total: 1, data: [memberExample] },
    },
    async handle({ params, body, key, role: actor, write }) {
      requireSamePath(body, params);
      const roles = body.users.map(({ role = 'member' }) => readWorkspaceRole(role));
      for (const role of roles) requireGrant(actor, role);
      const named = body.users.map(({ id }, index) => ({ path: `/users/${index}/id`, idOrEmail: id }));
      const now = clock.now();
      const added = await write(async (writer) => {
        const workspace = await visibleWorkspace(writer, key, params.workspaceId);
        requireActive(workspace);
        const users = await namedUsers(writer, key.organisationId, named);
        for (const user of users) requireNotAboveActor(actor, user);
        await requireStrangers(writer, workspace, users);
        const wanted = users.map((user, index) => ({ user, role: roles[index] ?? ('member' as const) }));
        const result = await insertMembers(writer, workspace, { wanted, now });
        return { id: users.map(({ id }) => id).join(','), workspaceId: workspace.id, result };
      });
      return {
        object: 'list' as const,
        total: added.length,
        data: added.map((member) => showMember(member)),
      };
    },
  });
}

/** Who becomes a member of a workspace, and when. */
export interface NewMembers {
  readonly wanted: readonly { readonly user: UserRecord; readonly role: WorkspaceRole }[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Makes users members of a workspace in which none of them is yet. */
export async function insertMembers(
  { members }: Pick<ResourcesWriter, 'members'>,
  { organisationId, id: workspaceId }: WorkspaceRecord,
  { wanted, now }: NewMembers,
): Promise<readonly Member[]> {
  const added: Member[] = [];
  for (const { user, role } of wanted) {
    const times = { createdAt: now, updatedAt: now, version: 1 };
    const member: MemberRecord = { organisationId, workspaceId, userId: user.id, role, ...times };
    await members.insert(member);
    added.push({ member, user });
  }
  return added;
}

/** Throws `already_exists` with the names of those who are members already. */
async function requireStrangers(
  { users }: Pick<ResourcesReader, 'users'>,
  { organisationId, id, name }: WorkspaceRecord,
  wanted: readonly UserRecord[],
): Promise<void> {
  const ids = wanted.map((user) => user.id);
  const workspaces = await users.workspaceIds(organisationId, ids);
  const present = wanted.filter((user) => workspaces.get(user.id)?.includes(id) === true);
  if (present.length === 0) return;
  const shown = present.slice(0, maxShown).map(({ email }) => email);
  const rest = present.length - shown.length;
  throw new GatewayError(
    'already_exists',
    `Members of the workspace "${name}" already: ${shown.join(', ')}${rest === 0 ? '' : ` and ${rest} more`}. Nobody was added.`,
  );
}
