import { and, desc, eq, ilike, inArray, or, type SQL } from 'drizzle-orm';
import type {
  WorkspaceFilter,
  WorkspaceRecord,
  WorkspacesReader,
  WorkspacesWriter,
} from '../../core/ports/resources.ts';
import type { Statements } from './database.ts';
import type { HeldCounters } from './held-counters.ts';
import { containing } from './like-pattern.ts';
import { keptTotal } from './list-totals.ts';
import { workspaces } from './schema.ts';
import { countRows, insertRow, pagedList, replaceRow, type Taken } from './stored-records.ts';

/** Reads workspaces with the statements of one transaction. */
export function workspacesReader(statements: Statements): WorkspacesReader {
  return {
    async find(organisationId, idOrSlug) {
      const named = or(eq(workspaces.id, idOrSlug), eq(workspaces.slug, idOrSlug));
      // A slug may look like the id of another workspace: the id wins.
      const [found] = await statements
        .select()
        .from(workspaces)
        .where(and(eq(workspaces.organisationId, organisationId), named))
        .orderBy(desc(eq(workspaces.id, idOrSlug)))
        .limit(1);
      return found;
    },
    list(organisationId, filter, page) {
      const where = matching(organisationId, filter);
      return pagedList(page, {
        total: () =>
          filter.name === undefined && filter.exactName === undefined
            ? keptTotal(statements, { table: workspaces, organisationId, kinds: filter.statuses })
            : countRows(statements, workspaces, where),
        rows: async ({ limit, offset, towards }) =>
          statements
            .select()
            .from(workspaces)
            .where(where)
            .orderBy(towards(workspaces.createdAt), towards(workspaces.id))
            .limit(limit)
            .offset(offset),
      });
    },
  };
}

/** Writes workspaces of the organisation whose counters are held. */
export function workspacesWriter(statements: Statements, held: HeldCounters): WorkspacesWriter {
  return {
    async insert(record) {
      held.check(record.organisationId);
      await insertRow(statements, workspaces, record, taken(record));
      held.mark('workspaces');
    },
    async replace(record) {
      held.check(record.organisationId);
      const stored = and(
        eq(workspaces.organisationId, record.organisationId),
        eq(workspaces.id, record.id),
        eq(workspaces.version, record.version - 1),
      );
      const replacement = { table: workspaces, row: record, stored, taken: taken(record) };
      const replaced = await replaceRow(statements, replacement);
      if (replaced) held.mark('workspaces');
      return replaced;
    },
  };
}

function matching(organisationId: string, { name, exactName, statuses }: WorkspaceFilter): SQL | undefined {
  return and(
    eq(workspaces.organisationId, organisationId),
    name === undefined ? undefined : ilike(workspaces.name, containing(name)),
    exactName === undefined ? undefined : eq(workspaces.name, exactName),
    statuses === undefined ? undefined : inArray(workspaces.status, [...statuses]),
  );
}

function taken({ slug, name, id }: WorkspaceRecord): Taken {
  return {
    workspaces_slug_taken: `A workspace with the slug "${slug}" exists already; choose another slug.`,
    workspaces_name_taken: `A workspace named "${name}" exists already; choose another name.`,
    workspaces_pkey: `A workspace with the id "${id}" exists already.`,
  };
}
