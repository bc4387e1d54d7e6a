import { and, asc, eq, gt, inArray, type SQL } from 'drizzle-orm';
import type { UserFilter, UserRecord, UsersReader, UsersWriter } from '../../core/ports/people.ts';
import type { Statements } from './database.ts';
import type { HeldCounters } from './held-counters.ts';
import {
  countRows,
  insertRow,
  storedTotal,
  pagedList,
  removeRows,
  replaceRow,
  type Taken,
} from './stored-records.ts';
import { members, users } from './schema.ts';

const directoryPage = 1000;

/** Reads users with the statements of one transaction. */
export function usersReader(statements: Statements): UsersReader {
  const first = async (where: SQL | undefined): Promise<UserRecord | undefined> =>
    (await statements.select().from(users).where(where))[0];

  return {
    find: (organisationId, id) => first(whereUser(organisationId, id)),
    byEmail: (organisationId, email) => first(matching(organisationId, { email })),
    list(organisationId, filter, page) {
      const where = matching(organisationId, filter);
      return pagedList(page, {
        total: () =>
          filter.email === undefined
            ? storedTotal(statements, { table: users, organisationId, kinds: filter.role && [filter.role] })
            : countRows(statements, users, where),
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
export function usersWriter(statements: Statements, held: HeldCounters): UsersWriter {
  return {
    async insert(record) {
      held.check(record.organisationId);
      await insertRow(statements, users, rowOf(record), taken(record));
      held.mark('people');
    },
    async replace(record) {
      held.check(record.organisationId);
      const stored = and(whereUser(record.organisationId, record.id), eq(users.version, record.version - 1));
      const replacement = { table: users, row: rowOf(record), stored, taken: taken(record) };
      const replaced = await replaceRow(statements, replacement);
      if (replaced) held.mark('people');
      return replaced;
    },
    async remove(organisationId, id) {
      held.check(organisationId);
      const removed = await removeRows(statements, users, whereUser(organisationId, id));
      if (removed > 0) held.mark('people');
      return removed > 0;
    },
  };
}

function whereUser(organisationId: string, id: string): SQL | undefined {
  return and(eq(users.organisationId, organisationId), eq(users.id, id));
}

function matching(organisationId: string, { role, email }: UserFilter): SQL | undefined {
  return and(
    eq(users.organisationId, organisationId),
    role === undefined ? undefined : eq(users.role, role),
    email === undefined ? undefined : eq(users.email, email.toLowerCase()),
  );
}

function rowOf(record: UserRecord): typeof users.$inferInsert {
  return { ...record, email: record.email.toLowerCase() };
}

function taken({ id, email }: UserRecord): Taken {
  return {
    users_email_taken: `The organisation has a user with the e-mail address "${email}" already.`,
    users_pkey: `A user with the id "${id}" exists already.`,
  };
}
