import type { Database, Statements } from './database.ts';
import { peopleStore } from './people-store.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type {
  OrganisationsReader,
  OrganisationsWriter,
  Resources,
  ResourcesReader,
  ResourcesWriter,
  WorkspaceFilter,
  WorkspaceRecord,
  WorkspacesReader,
  WorkspacesWriter,
} from '../../core/ports/resources.ts';
import { apiKeysStore } from './api-keys-store.ts';
import { auditStore } from './audit-store.ts';
import { recordsStore } from './records-store.ts';
import {
  organisationCounters,
  organisations,
  organisationSettings,
  workspaces,
  workspaceSettings,
} from './schema.ts';
import { and, asc, desc, eq, ilike, inArray, ne, or, sql, type SQL } from 'drizzle-orm';
import { HeldCounters, storedRows, type Taken } from './stored-records.ts';
import type { PgInsertValue, PgTable } from 'drizzle-orm/pg-core';
import {
  defaultSecurity,
  defaultSettings,
  type SecuritySettings,
  type SettingsReader,
  type SettingsWriter,
  type WorkspaceSettings,
} from '../../core/ports/organisation-settings.ts';

const changesChannel = 'weir_changes';
const maxRetries = 3;
const retryPauseMs = 20;

/** Options of `createResources`. */
interface ResourcesOptions {
  /** Opened and migrated; closed with the resources. */
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * The administered resources in a relational database, embedded or on a server.
 *
 * After a writer method has rejected, its transaction is lost: `write` rejects too, even if `work` continues. A
 * deadlock or a conflict with another transaction is retried at most 3 times, so `work` may run again.
 */
export function createResources({ database, clock, log }: ResourcesOptions): Resources {
  const write = <T>(organisationId: string, work: (writer: ResourcesWriter) => Promise<T>): Promise<T> =>
    database.transaction(
      async (statements) => {
        const held = await HeldCounters.hold(statements, organisationId);
        const result = await work(writerOf(statements, held, clock));
        await held.release(statements);
        return result;
      },
      { notify: changesChannel },
    );

  return {
    async write(organisationId, work) {
      for (let tried = 0; ; tried++) {
        try {
          return await write(organisationId, work);
        } catch (error) {
          if (tried === maxRetries || !isConflict(error)) throw error;
          log.debug('two changes got in each other’s way; trying again', {
            organisationId,
            tried: tried + 1,
          });
          await new Promise<void>((resolve) => clock.after(retryPauseMs * (tried + 1), resolve));
        }
      }
    },
    read: (work) => database.transaction((statements) => work(readerOf(statements)), { readOnly: true }),
    async changes() {
      const rows = await database.query((statements) =>
        statements
          .select({ id: organisationCounters.organisationId, changes: organisationCounters.changes })
          .from(organisationCounters),
      );
      return new Map(rows.map(({ id, changes }) => [id, changes]));
    },
    onChange: (look) => database.listen(changesChannel, look),
    ping: () => database.ping(),
    close: () => database.close(),
  };
}

function readerOf(statements: Statements): ResourcesReader {
  return {
    organisations: organisationsReader(statements),
    workspaces: workspacesReader(statements),
    apiKeys: apiKeysStore.reader(statements),
    ...peopleStore.reader(statements),
    settings: settingsReader(statements),
    records: recordsStore.reader(statements),
    audit: auditStore.reader(statements),
    marks: (organisationId) => storedRows.marks(statements, organisationId),
  };
}

function writerOf(statements: Statements, held: HeldCounters, clock: Clock): ResourcesWriter {
  return {
    organisations: { ...organisationsReader(statements), ...organisationsWriter(statements, held) },
    workspaces: { ...workspacesReader(statements), ...workspacesWriter(statements, held) },
    apiKeys: { ...apiKeysStore.reader(statements), ...apiKeysStore.writer(statements, held, clock) },
    ...peopleStore.writer(statements, held),
    settings: { ...settingsReader(statements), ...settingsWriter(statements, held) },
    records: { ...recordsStore.reader(statements), ...recordsStore.writer(statements, held, clock) },
    audit: { ...auditStore.reader(statements), ...auditStore.writer(statements, held) },
  };
}

/** A serialisation failure or a deadlock: the same work may succeed on a retry. */
function isConflict(error: unknown): boolean {
  if (!GatewayError.is(error) || !(error.cause instanceof Error) || !('code' in error.cause)) return false;
  return error.cause.code === '40001' || error.cause.code === '40P01';
}

/** Reads organisations with the statements of one transaction. */
function organisationsReader(statements: Statements): OrganisationsReader {
  return {
    async byId(id) {
      const [found] = await statements.select().from(organisations).where(eq(organisations.id, id));
      return found;
    },
    async list() {
      return statements
        .select()
        .from(organisations)
        .orderBy(asc(organisations.createdAt), asc(organisations.id));
    },
  };
}

/** Writes the organisation whose counters are held. */
function organisationsWriter(statements: Statements, held: HeldCounters): OrganisationsWriter {
  return {
    async ensure(record) {
      held.check(record.id);
      const added = await statements
        .insert(organisations)
        .values(record)
        .onConflictDoNothing()
        .returning({ id: organisations.id });
      if (added.length > 0) held.mark();
    },
  };
}

/** Reads workspaces with the statements of one transaction. */
function workspacesReader(statements: Statements): WorkspacesReader {
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
      return storedRows.pagedList(page, {
        total: () =>
          filter.name === undefined && filter.exactName === undefined
            ? storedRows.total(statements, { table: workspaces, organisationId, kinds: filter.statuses })
            : storedRows.count(statements, workspaces, where),
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
function workspacesWriter(statements: Statements, held: HeldCounters): WorkspacesWriter {
  return {
    async insert(record) {
      held.check(record.organisationId);
      await storedRows.insert(statements, workspaces, record, taken(record));
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
      const replaced = await storedRows.replace(statements, replacement);
      if (replaced) held.mark('workspaces');
      return replaced;
    },
  };
}

function matching(organisationId: string, { name, exactName, statuses }: WorkspaceFilter): SQL | undefined {
  return and(
    eq(workspaces.organisationId, organisationId),
    name === undefined ? undefined : ilike(workspaces.name, storedRows.containing(name)),
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

/** Reads settings with the statements of one transaction. */
function settingsReader(statements: Statements): SettingsReader {
  return {
    async ofOrganisation(organisationId) {
      const [found] = await statements
        .select()
        .from(organisationSettings)
        .where(eq(organisationSettings.organisationId, organisationId));
      if (found === undefined) return defaultSettings(organisationId);
      return { ...found, security: { ...defaultSecurity, ...completed(found.security) } };
    },
    async ofWorkspace(organisationId, workspaceId) {
      const [found] = await statements
        .select()
        .from(workspaceSettings)
        .where(ofWorkspace(organisationId, workspaceId));
      if (found === undefined)
        return { organisationId, workspaceId, overrides: {}, updatedAt: 0, version: 0 };
      return recordOf(found);
    },
    async ofWorkspaces(organisationId) {
      const overriding = ne(workspaceSettings.overrides, sql`'{}'::jsonb`);
      const rows = await statements
        .select()
        .from(workspaceSettings)
        .where(and(eq(workspaceSettings.organisationId, organisationId), overriding))
        .orderBy(asc(workspaceSettings.workspaceId));
      return rows.map(recordOf);
    },
  };
}

/** Writes settings of the organisation whose counters are held. */
function settingsWriter(statements: Statements, held: HeldCounters): SettingsWriter {
  /** The first version is a new row. */
  async function insertFirst<Table extends PgTable>(
    table: Table,
    row: PgInsertValue<Table>,
  ): Promise<boolean> {
    const { rowCount } = await statements.insert(table).values(row).onConflictDoNothing();
    return (rowCount ?? 0) > 0;
  }

  function marked(isStored: boolean): boolean {
    if (isStored) held.mark('settings');
    return isStored;
  }

  return {
    async replaceOrganisation(settings) {
      const { organisationId, version, overridable } = settings;
      held.check(organisationId);
      const table = organisationSettings;
      const row = { ...settings, overridable: [...overridable] };
      if (version === 1) return marked(await insertFirst(table, row));
      const stored = and(eq(table.organisationId, organisationId), eq(table.version, version - 1));
      return marked(await storedRows.replace(statements, { table, row, stored, taken: {} }));
    },
    async replaceWorkspace(settings) {
      const { organisationId, workspaceId, version } = settings;
      held.check(organisationId);
      const table = workspaceSettings;
      if (version === 1) return marked(await insertFirst(table, settings));
      const stored = and(ofWorkspace(organisationId, workspaceId), eq(table.version, version - 1));
      return marked(await storedRows.replace(statements, { table, row: settings, stored, taken: {} }));
    },
  };
}

function ofWorkspace(organisationId: string, workspaceId: string) {
  return and(
    eq(workspaceSettings.organisationId, organisationId),
    eq(workspaceSettings.workspaceId, workspaceId),
  );
}

function recordOf(row: typeof workspaceSettings.$inferSelect): WorkspaceSettings {
  return { ...row, overrides: completed(row.overrides) };
}

/** The stored categories, completed with members that JSON omits or that did not exist at that time. */
function completed(stored: Partial<SecuritySettings>): Partial<SecuritySettings> {
  const { data_visibility, prompts, configs, user_api_keys, logging } = stored;
  return {
    ...(data_visibility && {
      data_visibility: { ...defaultSecurity.data_visibility, ...data_visibility },
    }),
    ...(prompts && { prompts: { ...defaultSecurity.prompts, ...prompts } }),
    ...(configs && { configs: { ...defaultSecurity.configs, ...configs } }),
    ...(user_api_keys && { user_api_keys: { ...defaultSecurity.user_api_keys, ...user_api_keys } }),
    ...(logging && { logging: { ...defaultSecurity.logging, ...logging } }),
  };
}
