import { and, eq, type SQL } from 'drizzle-orm';
import type {
  GroupMappingFilter,
  GroupMappingRecord,
  GroupMappingsReader,
  GroupMappingsWriter,
} from '../../core/ports/people.ts';
import type { Statements } from './database.ts';
import type { HeldCounters } from './held-counters.ts';
import { countRows, insertRow, storedTotal, pagedList, removeRows, type Taken } from './stored-records.ts';
import { groupMappings } from './schema.ts';

/** Reads group mappings with the statements of one transaction. */
export function groupMappingsReader(statements: Statements): GroupMappingsReader {
  return {
    async find(organisationId, id) {
      const [found] = await statements.select().from(groupMappings).where(whereMapping(organisationId, id));
      return found;
    },
    list(organisationId, filter, page) {
      const where = matching(organisationId, filter);
      return pagedList(page, {
        total: () =>
          filter.groupId === undefined
            ? storedTotal(statements, {
                table: groupMappings,
                organisationId,
                workspaceId: filter.workspaceId,
                kinds: filter.role && [filter.role],
              })
            : countRows(statements, groupMappings, where),
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
export function groupMappingsWriter(statements: Statements, held: HeldCounters): GroupMappingsWriter {
  return {
    async insert(record) {
      held.check(record.organisationId);
      await insertRow(statements, groupMappings, record, taken(record));
      held.mark();
    },
    async remove(organisationId, id) {
      held.check(organisationId);
      const removed = await removeRows(statements, groupMappings, whereMapping(organisationId, id));
      if (removed > 0) held.mark();
      return removed > 0;
    },
  };
}

function whereMapping(organisationId: string, id: string): SQL | undefined {
  return and(eq(groupMappings.organisationId, organisationId), eq(groupMappings.id, id));
}

function matching(
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

function taken({ id, groupId, groupName, workspaceId }: GroupMappingRecord): Taken {
  const group = groupId === '' ? groupName : groupId;
  return {
    group_mappings_group_taken: `The group "${group}" is mapped to workspace "${workspaceId}" already.`,
    group_mappings_pkey: `A group mapping with the id "${id}" exists already.`,
  };
}
