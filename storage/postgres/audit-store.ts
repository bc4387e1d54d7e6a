import { and, asc, eq, getTableColumns, gt, gte, inArray, lt, lte, max, type SQL, sql } from 'drizzle-orm';
import { unionAll } from 'drizzle-orm/pg-core';
import type {
  AuditEntry,
  AuditFilter,
  AuditReader,
  AuditRecord,
  AuditWriter,
} from '../../core/ports/resources.ts';
import { endFault } from '../../core/organisation/audit-chain.ts';
import type { Statements } from './database.ts';
import { auditLogs, organisationCounters, refusedAttempts } from './schema.ts';
import {
  type ChainPlace,
  chainStart,
  type HeldCounters,
  type PageFromEnd,
  storedRows,
} from './stored-records.ts';
import { sha256 } from '../../core/base/bytes.ts';

/** Reads, writes and verifies the audit trail. */
export const auditStore = { reader: auditReader, writer: auditWriter, hash: auditHash, verifyChain };

/** Result of `verifyChain`: the first record that differs from its appended form, with the reason. */
type ChainVerdict =
  { readonly ok: true } | { readonly ok: false; readonly number: number; readonly reason: string };

// The order is part of every stored hash: never change it, only add another version of the encoding.
const hashedFields = [
  'id',
  'organisationId',
  'workspaceId',
  'at',
  'actorType',
  'actorId',
  'actorName',
  'action',
  'resourceType',
  'resourceId',
  'method',
  'uri',
  'requestId',
  'status',
  'clientIp',
  'details',
] as const satisfies readonly (keyof AuditEntry)[];

/**
 * The hash (SHA-256, hex) of the entry as record `number`, after a record with the hash `previous`. Each field is
 * preceded by its length in UTF-8 bytes, so that one text cannot be read as two fields.
 */
function auditHash(previous: string, number: number, entry: AuditEntry): string {
  let encoded = lengthPrefixed('weir-audit-1') + lengthPrefixed(previous) + lengthPrefixed(String(number));
  for (const field of hashedFields) encoded += lengthPrefixed(String(entry[field]));
  return sha256(encoded, 'hex');
}

function lengthPrefixed(text: string): string {
  return `${Buffer.byteLength(text, 'utf8')}:${text}`;
}

/**
 * Checks that the records are the ones appended right after `previous` (`chainStart` for the beginning), in order: none
 * changed, removed, moved or added. To continue with the next page, pass the last record as `previous`. Removal of the
 * newest records of a chain cannot be detected from the rest.
 */
function verifyChain(records: readonly AuditRecord[], previous: ChainPlace): ChainVerdict {
  let last = previous;
  for (const record of records) {
    const expected = last.number + 1;
    if (record.number !== expected) {
      const reason = `record ${expected} was expected and ${record.number} is there: one was removed, moved or added`;
      return { ok: false, number: expected, reason };
    }
    if (record.hash !== auditHash(last.hash, record.number, record)) {
      const reason = `record ${record.number} does not match its hash: it, or the record before it, was changed`;
      return { ok: false, number: record.number, reason };
    }
    last = record;
  }
  return { ok: true };
}

const chainPage = 1000;
const removedAtOnce = 1000;
const longestText = 255;

/** Reads audit records with the statements of one transaction. */
function auditReader(statements: Statements): AuditReader {
  const reader: AuditReader = {
    list(organisationId, filter, page) {
      const where = matching(auditLogs, organisationId, filter);
      const lists = {
        total: async () =>
          (await totalOf(statements, where, filter)) +
          (await storedRows.count(
            statements,
            refusedAttempts,
            matching(refusedAttempts, organisationId, filter),
          )),
        rows: async ({ limit, offset, towards }: PageFromEnd) => {
          const chained = statements
            .select({ ...getTableColumns(auditLogs), seq: sql<number>`0::bigint`.mapWith(Number).as('seq') })
            .from(auditLogs)
            .where(where);
          const refused = statements
            .select(refusedColumns)
            .from(refusedAttempts)
            .where(matching(refusedAttempts, organisationId, filter));
          const rows = await unionAll(chained, refused)
            .orderBy(towards(auditLogs.number), towards(refusedAttempts.seq))
            .limit(limit)
            .offset(offset);
          return rows.map(({ seq, ...row }) => (seq === 0 ? row : { ...row, number: 0 }));
        },
      };
      return storedRows.pagedList(page, lists, 'descending');
    },
    async chain(organisationId, afterNumber) {
      return statements
        .select()
        .from(auditLogs)
        .where(and(eq(auditLogs.organisationId, organisationId), gt(auditLogs.number, afterNumber)))
        .orderBy(asc(auditLogs.number))
        .limit(chainPage);
    },
    async head(organisationId) {
      const [found] = await statements
        .select({ number: organisationCounters.audits, hash: organisationCounters.auditHash })
        .from(organisationCounters)
        .where(eq(organisationCounters.organisationId, organisationId));
      return found ?? chainStart;
    },
    async verify(organisationId, afterNumber) {
      const head = await reader.head(organisationId);
      const [first, ...others] = await reader.chain(organisationId, Math.max(0, afterNumber - 1));
      // The record that was verified last is read again, for its hash.
      const isStart = afterNumber === 0;
      const previous = isStart || first === undefined ? chainStart : first;
      const records = isStart && first !== undefined ? [first, ...others] : others;
      if (!isStart && first?.number !== afterNumber) {
        const fault = `record ${afterNumber} is not there`;
        return { verified: afterNumber - 1, end: head.number, fault };
      }
      const verdict = verifyChain(records, previous);
      if (!verdict.ok) return { verified: verdict.number - 1, end: head.number, fault: verdict.reason };
      const last = records.at(-1) ?? previous;
      const isWhole = records.length < chainPage - 1;
      return { verified: last.number, end: head.number, fault: isWhole ? endFault(last, head) : undefined };
    },
  };
  return reader;
}

const { seq, ...ofRefused } = getTableColumns(refusedAttempts);
/** In the order of the chain's own columns, as a union requires. */
const refusedColumns = { ...ofRefused, hash: sql<string>`''`.as('hash'), seq };

/** Appends to the chain of the organisation whose counters are held. */
function auditWriter(statements: Statements, held: HeldCounters): AuditWriter {
  return {
    async append(entry) {
      held.check(entry.organisationId);
      const stored = storable(entry);
      const number = held.chain.number + 1;
      const hash = auditHash(held.chain.hash, number, stored);
      await statements.insert(auditLogs).values({ ...stored, number, hash });
      held.chain = { number, hash };
      held.mark();
    },
    async appendRefused(entry) {
      held.check(entry.organisationId);
      await statements.insert(refusedAttempts).values({ ...storable(entry), number: held.chain.number });
    },
    async removeRefused(organisationId, before) {
      held.check(organisationId);
      const isOld = and(eq(refusedAttempts.organisationId, organisationId), lt(refusedAttempts.at, before));
      const oldest = statements
        .select({ seq: refusedAttempts.seq })
        .from(refusedAttempts)
        .where(isOld)
        .limit(removedAtOnce);
      return storedRows.remove(statements, refusedAttempts, and(isOld, inArray(refusedAttempts.seq, oldest)));
    },
  };
}

/** Without a filter the chain itself holds its length. */
async function totalOf(statements: Statements, where: SQL | undefined, filter: AuditFilter): Promise<number> {
  const whole = Object.values(filter).every((value) => value === undefined);
  if (!whole) return storedRows.count(statements, auditLogs, where);
  const [last] = await statements
    .select({ number: max(auditLogs.number) })
    .from(auditLogs)
    .where(where);
  return last?.number ?? 0;
}

function matching(
  table: typeof auditLogs | typeof refusedAttempts,
  organisationId: string,
  filter: AuditFilter,
): SQL | undefined {
  return and(
    eq(table.organisationId, organisationId),
    filter.from === undefined ? undefined : gte(table.at, filter.from),
    filter.to === undefined ? undefined : lte(table.at, filter.to),
    filter.uri === undefined ? undefined : sql`md5(${table.uri}) = md5(${filter.uri})`,
    filter.resourceType === undefined ? undefined : inArray(table.resourceType, [filter.resourceType].flat()),
    ...exactColumns.map((column) => {
      const wanted = filter[column];
      return wanted === undefined ? undefined : eq(table[column], wanted);
    }),
  );
}

const exactColumns = [
  'action',
  'resourceId',
  'actorId',
  'actorType',
  'workspaceId',
  'method',
  'uri',
  'requestId',
  'status',
  'clientIp',
] as const satisfies readonly (keyof AuditFilter)[];

/**
 * The entry in the form that the database returns, so that its hash holds. Caller-chosen texts must not prevent an
 * action from being recorded: texts are cut at 255 characters, except paths and details, and NUL, which text columns
 * cannot hold, becomes U+FFFD.
 */
function storable(entry: AuditEntry): AuditEntry {
  return {
    id: short(entry.id),
    organisationId: entry.organisationId,
    workspaceId: short(entry.workspaceId),
    at: Math.trunc(entry.at),
    actorType: entry.actorType,
    actorId: short(entry.actorId),
    actorName: short(entry.actorName),
    action: short(entry.action),
    resourceType: short(entry.resourceType),
    resourceId: short(entry.resourceId),
    method: short(entry.method),
    uri: withoutNul(entry.uri),
    requestId: short(entry.requestId),
    status: entry.status,
    clientIp: short(entry.clientIp),
    details: withoutNul(entry.details),
  };
}

function short(text: string): string {
  return withoutNul(text.length > longestText ? `${text.slice(0, longestText - 1)}…` : text);
}

function withoutNul(text: string): string {
  return text.replaceAll('\0', '\u{fffd}');
}
