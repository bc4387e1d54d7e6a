import { and, asc, count, desc, eq, ilike, inArray, or, type SQL } from 'drizzle-orm';
import type {
  WorkspaceFilter,
  WorkspaceRecord,
  WorkspacesReader,
  WorkspacesWriter,
} from '../../core/ports/resources.ts';
import type { Statements } from './database.ts';
import type { HeldCounters } from './held-counters.ts';
import { pageBounds } from './page-bounds.ts';
import { workspaces } from './schema.ts';
import { refusedAsTaken } from './taken.ts';

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
    async list(organisationId, filter, page) {
      const { limit, offset } = pageBounds(page);
      const where = matching(organisationId, filter);
      const [counted] = await statements.select({ total: count() }).from(workspaces).where(where);
      const data = await statements
        .select()
        .from(workspaces)
        .where(where)
        .orderBy(asc(workspaces.createdAt), asc(workspaces.id))
        .limit(limit)
        .offset(offset);
      return { total: counted?.total ?? 0, data };
    },
  };
}

/** Writes workspaces of the organisation whose counters are held. */
export function workspacesWriter(statements: Statements, held: HeldCounters): WorkspacesWriter {
  return {
    async insert(record) {
      held.check(record.organisationId);
      await statements
        .insert(workspaces)
        .values(record)
        .catch(refusedAsTaken(taken(record)));
      held.mark();
    },
    async replace(record) {
      held.check(record.organisationId);
      const stored = and(
        eq(workspaces.organisationId, record.organisationId),
        eq(workspaces.id, record.id),
        eq(workspaces.version, record.version - 1),
      );
      const replaced = await statements
        .update(workspaces)
        .set(record)
        .where(stored)
        .returning({ id: workspaces.id })
        .catch(refusedAsTaken(taken(record)));
      if (replaced.length > 0) held.mark();
      return replaced.length > 0;
    },
  };
}

function matching(organisationId: string, { name, exactName, statuses }: WorkspaceFilter): SQL | undefined {
  return and(
    eq(workspaces.organisationId, organisationId),
    name === undefined ? undefined : ilike(workspaces.name, `%${withoutWildcards(name)}%`),
    exactName === undefined ? undefined : eq(workspaces.name, exactName),
    statuses === undefined ? undefined : inArray(workspaces.status, [...statuses]),
  );
}

/** The text as LIKE takes it literally. */
function withoutWildcards(text: string): string {
  return text.replace(/[\\%_]/g, '\\$&');
}

function taken({ slug, name, id }: WorkspaceRecord): Readonly<Record<string, string>> {
  return {
    workspaces_slug_taken: `A workspace with the slug "${slug}" exists already; choose another slug.`,
    workspaces_name_taken: `A workspace named "${name}" exists already; choose another name.`,
    workspaces_pkey: `A workspace with the id "${id}" exists already.`,
  };
}
