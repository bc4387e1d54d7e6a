import { GatewayError, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { OrganisationRole, UserRecord, WorkspaceRole } from '../../../core/ports/people.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import { refusedBody } from '../shared/fields.ts';
import { mayGrant, type Role } from '../../../core/access/scopes.ts';
import type { Mistake } from '../../../core/base/json.ts';

/** Role of a user in the organisation. */
const OrganisationRoleSchema = Type.Union([
  Type.Literal('owner'),
  Type.Literal('admin'),
  Type.Literal('member'),
]);

/** Roles in the organisation that the API can give: it cannot make an owner. */
const GivenOrganisationRole = Type.Union([Type.Literal('admin'), Type.Literal('member')]);

/** Role of a user in a workspace, in answers. */
const WorkspaceRoleSchema = Type.Union([Type.Literal('manager'), Type.Literal('member')]);

/** The same in bodies and queries. */
const GivenWorkspaceRole = Type.Union(
  [Type.Literal('manager'), Type.Literal('member'), Type.Literal('admin')],
  { description: '`admin` means the same as `manager`.' },
);

/** Roles in bodies and replies. */
export const roleSchemas = {
  Organisation: OrganisationRoleSchema,
  GivenOrganisation: GivenOrganisationRole,
  Workspace: WorkspaceRoleSchema,
  GivenWorkspace: GivenWorkspaceRole,
};

/** The role of a `GivenWorkspaceRole`: `admin` means `manager`. */
export function readWorkspaceRole(role: WorkspaceRole | 'admin'): WorkspaceRole {
  return role === 'admin' ? 'manager' : role;
}

/** A user of the organisation in the API. */
const UserReply = Type.Object({
  object: Type.Literal('user'),
  id: Type.String(),
  first_name: Type.String(),
  last_name: Type.String(),
  role: OrganisationRoleSchema,
  email: Type.String(),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  workspace_ids: Type.Array(Type.String(), { description: 'Workspaces of the user.' }),
});

/** Converts a stored user to the API's shape. */
function showUser(user: UserRecord, workspaceIds: readonly string[]): Static<typeof UserReply> {
  return {
    object: 'user',
    id: user.id,
    first_name: user.firstName,
    last_name: user.lastName,
    role: user.role,
    email: user.email,
    created_at: new Date(user.createdAt).toISOString(),
    last_updated_at: new Date(user.updatedAt).toISOString(),
    workspace_ids: [...workspaceIds],
  };
}

/** Example for the reference. */
const userExample: Static<typeof UserReply> = {
  object: 'user',
  id: '0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f',
  first_name: 'Ann',
  last_name: 'Lee',
  role: 'member',
  email: 'ann@example.com',
  created_at: '2026-11-21T09:00:00.000Z',
  last_updated_at: '2026-11-21T09:00:00.000Z',
  workspace_ids: ['0198a1c2-8c4f-7d5e-9f60-7b8c9d0e1f2a'],
};

/** Finds and shows users. */
export const userRecords = {
  Reply: UserReply,
  show: showUser,
  example: userExample,
  find: findUser,
  visible: visibleUser,
  named: namedUsers,
};

type Reader = Pick<ResourcesReader, 'users'>;

/** Finds a user by id, or by e-mail address in any case. */
async function findUser(
  { users }: Reader,
  organisationId: string,
  idOrEmail: string,
): Promise<UserRecord | undefined> {
  const found = await users.find(organisationId, idOrEmail);
  if (found !== undefined || !idOrEmail.includes('@')) return found;
  return users.byEmail(organisationId, idOrEmail);
}

/**
 * The user with this id or e-mail address. Throws `resource_not_found`, with the same message for an unknown user and
 * for one of another organisation.
 */
async function visibleUser(reader: Reader, key: KeyRecord, id: string): Promise<UserRecord> {
  const found = await findUser(reader, key.organisationId, id);
  if (found !== undefined) return found;
  throw new GatewayError(
    'resource_not_found',
    `No user "${id.slice(0, 64)}" is visible to this key. Check the id, or the e-mail address.`,
  );
}

/** A user named in a body. */
interface NamedUser {
  /** JSON pointer of the name. */
  readonly path: string;
  readonly idOrEmail: string;
}

/**
 * The users of the organisation that a body names, in its order. Throws `invalid_request` with every unknown and every
 * repeated user.
 */
async function namedUsers(
  reader: Reader,
  organisationId: string,
  named: readonly NamedUser[],
): Promise<readonly UserRecord[]> {
  const found = new Map<string, UserRecord>();
  const mistakes: Mistake[] = [];
  for (const { path, idOrEmail } of named) {
    const user = await findUser(reader, organisationId, idOrEmail);
    if (user === undefined) {
      const shown = idOrEmail.slice(0, 64);
      mistakes.push({ path, message: `names "${shown}", and the organisation has no such user` });
    } else if (found.has(user.id)) {
      mistakes.push({ path, message: `names ${user.email} twice; keep one` });
    } else found.set(user.id, user);
  }
  if (mistakes.length > 0) throw refusedBody(mistakes);
  return [...found.values()];
}

/**
 * Some clients repeat a path parameter in the body (`workspace_id`) or in the query (`workspaceId`). Throws
 * `invalid_request` when the values differ.
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

/** Throws `scope_missing` when the role `actor` may not give, change or revoke the other role. */
export function requireGrant(actor: Role, role: OrganisationRole | WorkspaceRole): void {
  if (mayGrant(actor, role)) return;
  throw new GatewayError(
    'scope_missing',
    `Your key acts as ${actor}, which cannot give, change or take away the role ${role}. Use a key of a user with the role ${role} or a higher one.`,
  );
}
