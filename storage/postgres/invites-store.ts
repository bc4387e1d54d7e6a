import { and, eq, inArray, lte, type SQL, sql } from 'drizzle-orm';
import type { InviteFilter, InviteRecord, InvitesReader, InvitesWriter } from '../../core/ports/people.ts';
import type { Statements } from './database.ts';
import type { HeldCounters } from './held-counters.ts';
import { countRows, insertRow, storedTotal, pagedList, replaceRow, type Taken } from './stored-records.ts';
import { invites } from './schema.ts';

const maxExpired = 1000;

/** Reads invites with the statements of one transaction. */
export function invitesReader(statements: Statements): InvitesReader {
  async function first(where: SQL | undefined): Promise<InviteRecord | undefined> {
    const [found] = await statements.select().from(invites).where(where);
    return found === undefined ? undefined : recordOf(found);
  }

  return {
    find: (organisationId, id) => first(whereInvite(organisationId, id)),
    byTokenHash: (tokenHash) => first(eq(invites.tokenHash, tokenHash)),
    list(organisationId, filter, page) {
      const where = matching(organisationId, filter);
      return pagedList(page, {
        total: () =>
          filter.email === undefined && filter.role === undefined
            ? storedTotal(statements, {
                table: invites,
                organisationId,
                kinds: filter.status && [filter.status],
              })
            : countRows(statements, invites, where),
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
export function invitesWriter(statements: Statements, held: HeldCounters): InvitesWriter {
  /** Marks ended invites, of this address or of all; returns their number. */
  async function expire(organisationId: string, now: number, email?: string): Promise<number> {
    const due = statements
      .select({ id: invites.id })
      .from(invites)
      .where(and(matching(organisationId, { status: 'pending', email }), lte(invites.expiresAt, now)))
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
      await insertRow(statements, invites, rowOf(record), taken(record));
      held.mark();
    },
    async replace(record) {
      held.check(record.organisationId);
      const before = eq(invites.version, record.version - 1);
      const stored = and(whereInvite(record.organisationId, record.id), before);
      const replacement = { table: invites, row: rowOf(record), stored, taken: taken(record) };
      const replaced = await replaceRow(statements, replacement);
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

function matching(
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

function rowOf(record: InviteRecord): typeof invites.$inferInsert {
  return {
    ...record,
    email: record.email.toLowerCase(),
    keyScopes: [...record.keyScopes],
    // `undefined` would leave the column as it is.
    acceptedAt: record.acceptedAt ?? null,
  };
}

function taken({ id, email }: InviteRecord): Taken {
  return {
    invites_pending_email_taken: `An invite for the e-mail address "${email}" is pending already; cancel it, or have it sent again.`,
    invites_token_taken: `The token of invite "${id}" is that of another one already; make a new one.`,
    invites_pkey: `An invite with the id "${id}" exists already.`,
  };
}
