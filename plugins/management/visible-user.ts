import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { UserRecord } from '../../core/ports/people.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import { refusedBody, type BodyMistake } from './refused-body.ts';

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
export interface NamedUser {
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
