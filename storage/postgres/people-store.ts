import { and, asc, count, eq, gt, inArray, lte, or, sql, type SQL } from 'drizzle-orm';
import type {
  GroupMappingFilter,
  GroupMappingRecord,
  GroupMappingsReader,
  GroupMappingsWriter,
  InviteFilter,
  InviteRecord,
  InvitesReader,
  InvitesWriter,
  MemberFilter,
  MemberRecord,
  MembersReader,
  MembersWriter,
  UserFilter,
  UserRecord,
  UsersReader,
  UsersWriter,
} from '../../core/ports/people.ts';
import type { ResourcesReader, ResourcesWriter } from '../../core/ports/resources.ts';
import type { Statements } from './database.ts';
import { type HeldCounters, storedRows, type Taken } from './stored-records.ts';
import { groupMappings, invites, members, users } from './schema.ts';

/** Reads and writes people. */
export const peopleStore = { reader: peopleReader, writer: peopleWriter };

const directoryPage = 1000;

/** Users, memberships, invitations and mapped groups: read with the statements of one transaction. */
function peopleReader(
  statements: Statements,
): Pick<ResourcesReader, 'users' | 'members' | 'invites' | 'groupMappings'> {
  return {
    users: usersReader(statements),
    members: membersReader(statements),
    invites: invitesReader(statements),
    groupMappings: groupMappingsReader(statements),
  };
}

/** The same, and their changes in the organisation whose counters are held. */
function peopleWriter(
  statements: Statements,
  held: HeldCounters,
): Pick<ResourcesWriter, 'users' | 'members' | 'invites' | 'groupMappings'> {
  return {
    users: { ...usersReader(statements), ...usersWriter(statements, held) },
    members: { ...membersReader(statements), ...membersWriter(statements, held) },
    invites: { ...invitesReader(statements), ...invitesWriter(statements, held) },
    groupMappings: { ...groupMappingsReader(statements), ...groupMappingsWriter(statements, held) },
  };
}

/** Reads users with the statements of one transaction. */
function usersReader(statements: Statements): UsersReader {
  const first = async (where: SQL | undefined): Promise<UserRecord | undefined> =>
    (await statements.select().from(users).where(where))[0];

  return {
    find: (organisationId, id) => first(whereUser(organisationId, id)),
    byEmail: (organisationId, email) => first(usersMatching(organisationId, { email })),
    list(organisationId, filter, page) {
      const where = usersMatching(organisationId, filter);
      return storedRows.pagedList(page, {
        total: () =>
          filter.email === undefined
            ? storedRows.total(statements, {
                table: users,
                organisationId,
                kinds: filter.role && [filter.role],
              })
            : storedRows.count(statements, users, where),
        rows: async ({ limit, offset, towards }) =>
          statements
            .select()
            .from(users)
            .where(where)
            .orderBy(towards(users.createdAt), towards(users.id))
            .limit(limit)
            .offset(offset),
      });
    },
    async workspaceIds(organisationId, userIds) {
      const rows = await statements
        .select({ userId: members.userId, workspaceId: members.workspaceId })
        .from(members)
        .where(and(eq(members.organisationId, organisationId), inArray(members.userId, [...userIds])));
      const found = new Map<string, string[]>(userIds.map((id) => [id, []]));
      for (const { userId, workspaceId } of rows) found.get(userId)?.push(workspaceId);
      // Not the database's order: that depends on its collation.
      for (const ids of found.values()) ids.sort();
      return found;
    },
    async all(organisationId, afterId) {
      return statements
        .select()
        .from(users)
        .where(and(eq(users.organisationId, organisationId), gt(users.id, afterId)))
        .orderBy(asc(users.id))
        .limit(directoryPage);
    },
  };
}

/** Writes users of the organisation whose counters are held. */
function usersWriter(statements: Statements, held: HeldCounters): UsersWriter {
  return {
    async insert(record) {
      held.check(record.organisationId);
      await storedRows.insert(statements, users, userRow(record), userTaken(record));
      held.mark('people');
    },
    async replace(record) {
      held.check(record.organisationId);
      const stored = and(whereUser(record.organisationId, record.id), eq(users.version, record.version - 1));
      const replacement = { table: users, row: userRow(record), stored, taken: userTaken(record) };
      const replaced = await storedRows.replace(statements, replacement);
      if (replaced) held.mark('people');
      return replaced;
    },
    async remove(organisationId, id) {
      held.check(organisationId);
      const removed = await storedRows.remove(statements, users, whereUser(organisationId, id));
      if (removed > 0) held.mark('people');
      return removed > 0;
    },
  };
}

function whereUser(organisationId: string, id: string): SQL | undefined {
  return and(eq(users.organisationId, organisationId), eq(users.id, id));
}

function usersMatching(organisationId: string, { role, email }: UserFilter): SQL | undefined {
  return and(
    eq(users.organisationId, organisationId),
    role === undefined ? undefined : eq(users.role, role),
    email === undefined ? undefined : eq(users.email, email.toLowerCase()),
  );
}

function userRow(record: UserRecord): typeof users.$inferInsert {
  return { ...record, email: record.email.toLowerCase() };
}

function userTaken({ id, email }: UserRecord): Taken {
  return {
    users_email_taken: `The organisation has a user with the e-mail address "${email}" already.`,
    users_pkey: `A user with the id "${id}" exists already.`,
  };
}

const sameUser = and(eq(users.organisationId, members.organisationId), eq(users.id, members.userId));

/** Reads members of workspaces with the statements of one transaction. */
function membersReader(statements: Statements): MembersReader {
  const select = () =>
    statements.select({ member: members, user: users }).from(members).innerJoin(users, sameUser);

  async function countOf(where: SQL | undefined): Promise<number> {
    const joined = statements.select({ total: count() }).from(members).innerJoin(users, sameUser);
    return (await joined.where(where))[0]?.total ?? 0;
  }

  return {
    async find(organisationId, workspaceId, userId) {
      const [found] = await select().where(whereMember(organisationId, workspaceId, userId));
      return found;
    },
    list(organisationId, workspaceId, filter, page) {
      const where = membersMatching(organisationId, workspaceId, filter);
      return storedRows.pagedList(page, {
        total: () =>
          filter.email === undefined
            ? storedRows.total(statements, {
                table: members,
                organisationId,
                workspaceId,
                kinds: filter.role && [filter.role],
              })
            : countOf(where),
        rows: async ({ limit, offset, towards }) =>
          select()
            .where(where)
            .orderBy(towards(members.createdAt), towards(members.userId))
            .limit(limit)
            .offset(offset),
      });
    },
    async all(organisationId, after) {
      const behind = or(
        gt(members.workspaceId, after.workspaceId),
        and(eq(members.workspaceId, after.workspaceId), gt(members.userId, after.userId)),
      );
      return statements
        .select()
        .from(members)
        .where(and(eq(members.organisationId, organisationId), behind))
        .orderBy(asc(members.workspaceId), asc(members.userId))
        .limit(directoryPage);
    },
  };
}

/** Writes members of workspaces of the organisation whose counters are held. */
function membersWriter(statements: Statements, held: HeldCounters): MembersWriter {
  return {
    async insert(record) {
      held.check(record.organisationId);
      await storedRows.insert(statements, members, record, memberTaken(record));
      held.mark('people');
    },
    async replace(record) {
      held.check(record.organisationId);
      const { organisationId, workspaceId, userId, version } = record;
      const stored = and(whereMember(organisationId, workspaceId, userId), eq(members.version, version - 1));
      const replaced = await storedRows.replace(statements, {
        table: members,
        row: record,
        stored,
        taken: {},
      });
      if (replaced) held.mark('people');
      return replaced;
    },
    async remove(organisationId, workspaceId, userId) {
      held.check(organisationId);
      const removed = await storedRows.remove(
        statements,
        members,
        whereMember(organisationId, workspaceId, userId),
      );
      if (removed > 0) held.mark('people');
      return removed > 0;
    },
  };
}

function whereMember(organisationId: string, workspaceId: string, userId: string): SQL | undefined {
  return and(
    eq(members.organisationId, organisationId),
    eq(members.workspaceId, workspaceId),
    eq(members.userId, userId),
  );
}

function membersMatching(
  organisationId: string,
  workspaceId: string,
  { role, email }: MemberFilter,
): SQL | undefined {
  return and(
    eq(members.organisationId, organisationId),
    eq(members.workspaceId, workspaceId),
    role === undefined ? undefined : eq(members.role, role),
    email === undefined ? undefined : eq(users.email, email.toLowerCase()),
  );
}

function memberTaken({ userId, workspaceId }: MemberRecord): Taken {
  return { members_taken: `User "${userId}" is a member of workspace "${workspaceId}" already.` };
}

/** Reads group mappings with the statements of one transaction. */
function groupMappingsReader(statements: Statements): GroupMappingsReader {
  return {
    async find(organisationId, id) {
      const [found] = await statements.select().from(groupMappings).where(whereMapping(organisationId, id));
      return found;
    },
    list(organisationId, filter, page) {
      const where = mappingsMatching(organisationId, filter);
      return storedRows.pagedList(page, {
        total: () =>
          filter.groupId === undefined
            ? storedRows.total(statements, {
                table: groupMappings,
                organisationId,
                workspaceId: filter.workspaceId,
                kinds: filter.role && [filter.role],
              })
            : storedRows.count(statements, groupMappings, where),
        rows: async ({ limit, offset, towards }) =>
          statements
            .select()
            .from(groupMappings)
            .where(where)
            .orderBy(towards(groupMappings.createdAt), towards(groupMappings.id))
            .limit(limit)
            .offset(offset),
      });
    },
  };
}

/** Writes group mappings of the organisation whose counters are held. */
function groupMappingsWriter(statements: Statements, held: HeldCounters): GroupMappingsWriter {
  return {
    async insert(record) {
      held.check(record.organisationId);
      await storedRows.insert(statements, groupMappings, record, mappingTaken(record));
      held.mark();
    },
    async remove(organisationId, id) {
      held.check(organisationId);
      const removed = await storedRows.remove(statements, groupMappings, whereMapping(organisationId, id));
      if (removed > 0) held.mark();
      return removed > 0;
    },
  };
}

function whereMapping(organisationId: string, id: string): SQL | undefined {
  return and(eq(groupMappings.organisationId, organisationId), eq(groupMappings.id, id));
}

function mappingsMatching(
  organisationId: string,
  { workspaceId, groupId, role }: GroupMappingFilter,
): SQL | undefined {
  return and(
    eq(groupMappings.organisationId, organisationId),
    workspaceId === undefined ? undefined : eq(groupMappings.workspaceId, workspaceId),
    groupId === undefined ? undefined : eq(groupMappings.groupId, groupId),
    role === undefined ? undefined : eq(groupMappings.role, role),
  );
}

function mappingTaken({ id, groupId, groupName, workspaceId }: GroupMappingRecord): Taken {
  const group = groupId === '' ? groupName : groupId;
  return {
    group_mappings_group_taken: `The group "${group}" is mapped to workspace "${workspaceId}" already.`,
    group_mappings_pkey: `A group mapping with the id "${id}" exists already.`,
  };
}

const maxExpired = 1000;

/** Reads invites with the statements of one transaction. */
function invitesReader(statements: Statements): InvitesReader {
  async function first(where: SQL | undefined): Promise<InviteRecord | undefined> {
    const [found] = await statements.select().from(invites).where(where);
    return found === undefined ? undefined : recordOf(found);
  }

  return {
    find: (organisationId, id) => first(whereInvite(organisationId, id)),
    byTokenHash: (tokenHash) => first(eq(invites.tokenHash, tokenHash)),
    list(organisationId, filter, page) {
      const where = invitesMatching(organisationId, filter);
      return storedRows.pagedList(page, {
        total: () =>
          filter.email === undefined && filter.role === undefined
            ? storedRows.total(statements, {
                table: invites,
                organisationId,
                kinds: filter.status && [filter.status],
              })
            : storedRows.count(statements, invites, where),
        async rows({ limit, offset, towards }) {
          const rows = await statements
            .select()
            .from(invites)
            .where(where)
            .orderBy(towards(invites.createdAt), towards(invites.id))
            .limit(limit)
            .offset(offset);
          return rows.map(recordOf);
        },
      });
    },
  };
}

/** Writes invites of the organisation whose counters are held. */
function invitesWriter(statements: Statements, held: HeldCounters): InvitesWriter {
  /** Marks ended invites, of this address or of all; returns their number. */
  async function expire(organisationId: string, now: number, email?: string): Promise<number> {
    const due = statements
      .select({ id: invites.id })
      .from(invites)
      .where(and(invitesMatching(organisationId, { status: 'pending', email }), lte(invites.expiresAt, now)))
      .limit(maxExpired);
    const { rowCount } = await statements
      .update(invites)
      .set({ status: 'expired', updatedAt: now, version: sql`${invites.version} + 1` })
      .where(and(eq(invites.organisationId, organisationId), inArray(invites.id, due)));
    if ((rowCount ?? 0) > 0) held.mark();
    return rowCount ?? 0;
  }

  return {
    async insert(record) {
      held.check(record.organisationId);
      // An ended invite does not occupy its address, marked or not.
      await expire(record.organisationId, record.createdAt, record.email);
      await storedRows.insert(statements, invites, inviteRow(record), inviteTaken(record));
      held.mark();
    },
    async replace(record) {
      held.check(record.organisationId);
      const before = eq(invites.version, record.version - 1);
      const stored = and(whereInvite(record.organisationId, record.id), before);
      const replacement = { table: invites, row: inviteRow(record), stored, taken: inviteTaken(record) };
      const replaced = await storedRows.replace(statements, replacement);
      if (replaced) held.mark();
      return replaced;
    },
    async expireDue(organisationId, now) {
      held.check(organisationId);
      return expire(organisationId, now);
    },
  };
}

function whereInvite(organisationId: string, id: string): SQL | undefined {
  return and(eq(invites.organisationId, organisationId), eq(invites.id, id));
}

function invitesMatching(
  organisationId: string,
  { role, email, status }: { readonly [K in keyof InviteFilter]: InviteFilter[K] | undefined },
): SQL | undefined {
  return and(
    eq(invites.organisationId, organisationId),
    role === undefined ? undefined : eq(invites.role, role),
    email === undefined ? undefined : eq(invites.email, email.toLowerCase()),
    status === undefined ? undefined : eq(invites.status, status),
  );
}

function recordOf(row: typeof invites.$inferSelect): InviteRecord {
  return { ...row, acceptedAt: row.acceptedAt ?? undefined };
}

function inviteRow(record: InviteRecord): typeof invites.$inferInsert {
  return {
    ...record,
    email: record.email.toLowerCase(),
    keyScopes: [...record.keyScopes],
    // `undefined` would leave the column as it is.
    acceptedAt: record.acceptedAt ?? null,
  };
}

function inviteTaken({ id, email }: InviteRecord): Taken {
  return {
    invites_pending_email_taken: `An invite for the e-mail address "${email}" is pending already; cancel it, or have it sent again.`,
    invites_token_taken: `The token of invite "${id}" is that of another one already; make a new one.`,
    invites_pkey: `An invite with the id "${id}" exists already.`,
  };
}
