import { and, asc, eq, gt, gte, lte, max, type SQL, sql } from 'drizzle-orm';
import type { AuditEntry, AuditFilter, AuditReader, AuditWriter } from '../../core/ports/resources.ts';
import { auditHash, chainStart } from './audit-hash.ts';
import type { Statements } from './database.ts';
import type { HeldCounters } from './held-counters.ts';
import { auditLogs, organisationCounters } from './schema.ts';
import { countRows, pagedList, type PageFromEnd } from './stored-records.ts';

const chainPage = 1000;
const longestText = 255;

/** Reads audit records with the statements of one transaction. */
export function auditReader(statements: Statements): AuditReader {
  return {
    list(organisationId, filter, page) {
      const where = matching(organisationId, filter);
      const lists = {
        total: () => totalOf(statements, where, filter),
        rows: async ({ limit, offset, towards }: PageFromEnd) =>
          statements
            .select()
            .from(auditLogs)
            .where(where)
            .orderBy(towards(auditLogs.number))
            .limit(limit)
            .offset(offset),
      };
      return pagedList(page, lists, 'descending');
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
  };
}

/** Appends to the chain of the organisation whose counters are held. */
export function auditWriter(statements: Statements, held: HeldCounters): AuditWriter {
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
  };
}

/** Without a filter the chain itself says how long it is. */
async function totalOf(statements: Statements, where: SQL | undefined, filter: AuditFilter): Promise<number> {
  const whole = Object.values(filter).every((value) => value === undefined);
  if (!whole) return countRows(statements, auditLogs, where);
  const [last] = await statements
    .select({ number: max(auditLogs.number) })
    .from(auditLogs)
    .where(where);
  return last?.number ?? 0;
}

function matching(organisationId: string, filter: AuditFilter): SQL | undefined {
  return and(
    eq(auditLogs.organisationId, organisationId),
    filter.from === undefined ? undefined : gte(auditLogs.at, filter.from),
    filter.to === undefined ? undefined : lte(auditLogs.at, filter.to),
    filter.uri === undefined ? undefined : sql`md5(${auditLogs.uri}) = md5(${filter.uri})`,
    ...exactColumns.map((column) => {
      const wanted = filter[column];
      return wanted === undefined ? undefined : eq(auditLogs[column], wanted);
    }),
  );
}

const exactColumns = [
  'action',
  'resourceType',
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
 * The entry as the database gives it back, so that its hash holds. What a caller can choose must not keep an action
 * from being recorded: texts are cut at 255 characters, except paths and details, and NUL, which no text column
 * holds, becomes U+FFFD.
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
