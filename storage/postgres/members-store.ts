import { and, asc, count, eq, gt, or, type SQL } from 'drizzle-orm';
import type { MemberFilter, MemberRecord, MembersReader, MembersWriter } from '../../core/ports/people.ts';
import type { Statements } from './database.ts';
import type { HeldCounters } from './held-counters.ts';
import { insertRow, storedTotal, pagedList, removeRows, replaceRow, type Taken } from './stored-records.ts';
import { members, users } from './schema.ts';

const directoryPage = 1000;
const sameUser = and(eq(users.organisationId, members.organisationId), eq(users.id, members.userId));

/** Reads members of workspaces with the statements of one transaction. */
export function membersReader(statements: Statements): MembersReader {
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
      const where = matching(organisationId, workspaceId, filter);
      return pagedList(page, {
        total: () =>
          filter.email === undefined
            ? storedTotal(statements, {
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
export function membersWriter(statements: Statements, held: HeldCounters): MembersWriter {
  return {
    async insert(record) {
      held.check(record.organisationId);
      await insertRow(statements, members, record, taken(record));
      held.mark('people');
    },
    async replace(record) {
      held.check(record.organisationId);
      const { organisationId, workspaceId, userId, version } = record;
      const stored = and(whereMember(organisationId, workspaceId, userId), eq(members.version, version - 1));
      const replaced = await replaceRow(statements, { table: members, row: record, stored, taken: {} });
      if (replaced) held.mark('people');
      return replaced;
    },
    async remove(organisationId, workspaceId, userId) {
      held.check(organisationId);
      const removed = await removeRows(statements, members, whereMember(organisationId, workspaceId, userId));
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

function matching(
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

function taken({ userId, workspaceId }: MemberRecord): Taken {
  return { members_taken: `User "${userId}" is a member of workspace "${workspaceId}" already.` };
}
