import { GatewayError } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { Member, OrganisationRole, UserRecord, WorkspaceRole } from '../../../core/ports/people.ts';
import type { ResourcesReader, WorkspaceRecord } from '../../../core/ports/resources.ts';
import { type BodyMistake, refusedBody } from '../shared/fields.ts';
import { visibleWorkspace } from '../shared/records.ts';
import { mayGrant, type Role } from '../../../core/access/roles.ts';

type Reader = Pick<ResourcesReader, 'users'>;

/** By id, or by e-mail address in any case. */
export async function findUser(
  { users }: Reader,
  organisationId: string,
  idOrEmail: string,
): Promise<UserRecord | undefined> {
  const found = await users.find(organisationId, idOrEmail);
  if (found !== undefined || !idOrEmail.includes('@')) return found;
  return users.byEmail(organisationId, idOrEmail);
}

/**
 * The user with this id or e-mail address. Throws `resource_not_found`, in the same words, whether there is none or they belong to
 * another organisation.
 */
export async function visibleUser(reader: Reader, key: KeyRecord, id: string): Promise<UserRecord> {
  const found = await findUser(reader, key.organisationId, id);
  if (found !== undefined) return found;
  throw new GatewayError(
    'resource_not_found',
    `No user "${id.slice(0, 64)}" is visible to this key. Check the id, or the e-mail address.`,
  );
}

/** Somebody whom a body names. */
interface NamedUser {
  /** JSON pointer of where it does. */
  readonly path: string;
  readonly idOrEmail: string;
}

/**
 * The users of the organisation that a body names, in its order. Throws `invalid_request` with every mistake: those who
 * are not there, and those who are named a second time.
 */
export async function namedUsers(
  reader: Reader,
  organisationId: string,
  named: readonly NamedUser[],
): Promise<readonly UserRecord[]> {
  const found = new Map<string, UserRecord>();
  const mistakes: BodyMistake[] = [];
  for (const { path, idOrEmail } of named) {
    const user = await findUser(reader, organisationId, idOrEmail);
    if (user === undefined) {
      const shown = idOrEmail.slice(0, 64);
      mistakes.push({ path, message: `names "${shown}", and the organisation has no such user` });
    } else if (found.has(user.id)) {
      mistakes.push({ path, message: `names ${user.email} once more; keep one` });
    } else found.set(user.id, user);
  }
  if (mistakes.length > 0) throw refusedBody(mistakes);
  return [...found.values()];
}

/** The path of a member. */
interface MemberPath {
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

/**
 * Throws `scope_missing` when the organisation gives this person a role above the actor's: a manager neither brings
 * those to a workspace nor changes what they are there.
 */
export function requireNotAboveActor(actor: Role, { role }: Pick<UserRecord, 'role'>): void {
  if (role !== 'member') requireGrant(actor, role);
}

/** Throws `scope_missing` when somebody in the role `actor` may not give, change or take away the other role. */
export function requireGrant(actor: Role, role: OrganisationRole | WorkspaceRole): void {
  if (mayGrant(actor, role)) return;
  throw new GatewayError(
    'scope_missing',
    `Your key acts as ${actor}, which cannot give, change or take away the role ${role}. Use a key of somebody who is ${role}, or more.`,
  );
}
