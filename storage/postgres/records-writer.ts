import { and, eq } from 'drizzle-orm';
import type { Clock } from '../../core/ports/clock.ts';
import type { RecordsWriter, StoredRecord } from '../../core/ports/records.ts';
import type { Statements } from './database.ts';
import type { HeldCounters } from './held-counters.ts';
import { sizeOfData } from './record-size.ts';
import { versionsWriter } from './record-versions-store.ts';
import { ofKind } from './records-store.ts';
import { rememberRemovals } from './removals.ts';
import { records } from './schema.ts';
import { insertRow, removeRows, replaceRow, type Taken } from './stored-records.ts';

/** Writes records of the organisation whose counters are held; `clock` dates removals. */
export function recordsWriter(statements: Statements, held: HeldCounters, clock: Clock): RecordsWriter {
  return {
    async insert(record) {
      held.check(record.organisationId);
      await insertRow(statements, records, rowOf(record, held), taken(record));
      held.mark('records');
    },
    async replace(record) {
      const { kind, organisationId, id, version } = record;
      held.check(organisationId);
      const stored = and(ofKind(organisationId, kind), eq(records.id, id), eq(records.version, version - 1));
      const row = rowOf(record, held);
      const replaced = await replaceRow(statements, { table: records, row, stored, taken: taken(record) });
      if (replaced) held.mark('records');
      return replaced;
    },
    async remove(kind, organisationId, id) {
      held.check(organisationId);
      const removed = await removeRows(
        statements,
        records,
        and(ofKind(organisationId, kind), eq(records.id, id)),
      );
      if (removed === 0) return false;
      await rememberRemovals(statements, held, { table: records, ids: [id], now: clock.now() });
      held.mark('records');
      return true;
    },
    ...versionsWriter(statements, held),
  };
}

function rowOf(record: StoredRecord, { change }: HeldCounters): typeof records.$inferInsert {
  const { kind, id, organisationId, slug, name, status, parentId, data, secrets } = record;
  const { createdBy, updatedBy, createdAt, updatedAt, version } = record;
  return {
    ...{ kind, id, organisationId, slug, name, status, parentId, data, secrets },
    ...{ createdBy, updatedBy, createdAt, updatedAt, version },
    // `undefined` would leave the column as it is.
    workspaceId: record.workspaceId ?? null,
    size: sizeOfData(data),
    change,
  };
}

function taken({ kind, id, slug, workspaceId }: StoredRecord): Taken {
  const place = workspaceId === undefined ? 'The organisation' : 'The workspace';
  const what = kind.replaceAll('_', ' ').replace(/^mcp /, 'MCP ');
  const article = /^(?:[aeiou]|MCP)/.test(what) ? 'an' : 'a';
  return {
    records_slug_taken: `${place} has ${article} ${what} with the slug "${slug}" already; choose another slug.`,
    records_pkey: `A record with the id "${id}" exists already.`,
  };
}
