import { and, asc, eq, ne, sql } from 'drizzle-orm';
import type { PgInsertValue, PgTable } from 'drizzle-orm/pg-core';
import {
  defaultSecurity,
  defaultSettings,
  type SecuritySettings,
  type SettingsReader,
  type SettingsWriter,
  type WorkspaceSettings,
} from '../../core/ports/organisation-settings.ts';
import type { Statements } from './database.ts';
import type { HeldCounters } from './held-counters.ts';
import { organisationSettings, workspaceSettings } from './schema.ts';
import { replaceRow } from './stored-records.ts';

/** Reads settings with the statements of one transaction. */
export function settingsReader(statements: Statements): SettingsReader {
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
export function settingsWriter(statements: Statements, held: HeldCounters): SettingsWriter {
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
      return marked(await replaceRow(statements, { table, row, stored, taken: {} }));
    },
    async replaceWorkspace(settings) {
      const { organisationId, workspaceId, version } = settings;
      held.check(organisationId);
      const table = workspaceSettings;
      if (version === 1) return marked(await insertFirst(table, settings));
      const stored = and(ofWorkspace(organisationId, workspaceId), eq(table.version, version - 1));
      return marked(await replaceRow(statements, { table, row: settings, stored, taken: {} }));
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

/** The categories that are stored, each with what JSON leaves out and what it could not know when it was stored. */
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
