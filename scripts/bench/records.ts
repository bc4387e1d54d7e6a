import { sql } from 'drizzle-orm';
import type { Database } from '../../storage/postgres/database.ts';
import { median } from './cpu.ts';
import {
  atStore,
  directoryOf,
  identityOf,
  resourcesOf,
  startOnStore,
  type StoredIds,
} from './analytics/seeded-store.ts';
import { removeFolder } from './subject.ts';

/** Cost of many records in the embedded store. */
interface RecordFigures {
  readonly configs: number;
  readonly integrations: number;
  /** From starting the process until it listens, on a store that was opened before; without records, and with them. */
  readonly start_seconds_without: number;
  readonly start_seconds: number;
  /** Reading all of them into a directory, on an engine that runs. */
  readonly load_seconds: number;
  /** A page of 100 configs of the store: the first, one in the middle, and the last. */
  readonly list_ms: number;
  readonly list_middle_ms: number;
  readonly list_last_ms: number;
}

const pageSize = 100;

/** 10,000 configs and 1,000 integrations with 20 models each (a tenth of them when `quick`). */
export async function measureRecords(quick: boolean): Promise<RecordFigures> {
  const configs = quick ? 1000 : 10_000;
  const integrations = configs / 10;
  const { weir: first } = await startOnStore();
  const { folder, dataFolder } = first;
  try {
    await first.stop();
    const without = await startOnStore(folder);
    await without.weir.stop();
    const atRest = await atStore(dataFolder, async (database) => {
      const identity = await identityOf(dataFolder);
      await seed(database, identity, { configs, integrations });
      const loaded = await loadSeconds(database, identity, configs);
      const lists = [];
      for (const offset of [0, configs / 2, configs - pageSize])
        lists.push(await listMs(database, identity, offset));
      return { loaded, lists };
    });
    const full = await startOnStore(folder);
    await full.weir.stop();
    const [list = NaN, middle = NaN, last = NaN] = atRest.lists;
    return {
      configs,
      integrations,
      start_seconds_without: without.seconds,
      start_seconds: full.seconds,
      load_seconds: atRest.loaded,
      list_ms: list,
      list_middle_ms: middle,
      list_last_ms: last,
    };
  } finally {
    await removeFolder(folder);
  }
}

interface Counts {
  readonly configs: number;
  readonly integrations: number;
}

/** A fallback of two targets, as most configs are. */
const configData = {
  config: {
    strategy: { mode: 'fallback', on_status_codes: [429, 500, 502, 503] },
    retry: { attempts: 3, on_status_codes: [429] },
    cache: { mode: 'simple', max_age: 3600 },
    targets: [
      { provider: '@first', override_params: { model: 'gpt-4o', temperature: 0.2 } },
      { provider: '@second', override_params: { model: 'claude-sonnet-4-5', max_tokens: 1024 } },
    ],
  },
  isDefault: false,
};

const integrationData = {
  aiProviderId: 'openai',
  description: 'of the bench',
  configurations: { base_url: 'https://llm.example.com/v1' },
  secretMappings: [],
  allowAllModels: false,
  models: Array.from({ length: 20 }, (_, number) => ({
    slug: `model-${number}`,
    enabled: true,
    isCustom: true,
    isFinetune: false,
    baseModelSlug: 'gpt-4o',
    configurations: {},
    pricing: { requestToken: 0.000001, responseToken: 0.000002 },
  })),
  globalAccess: { enabled: true, usageLimits: [], rateLimits: [] },
  workspaces: {},
  priceMultiplier: 1,
};

async function seed(database: Database, identity: StoredIds, counts: Counts): Promise<void> {
  const secret = JSON.stringify({ key: `v1.bench.${'x'.repeat(120)}` });
  await insert(database, identity, { kind: 'config', data: configData, secret: '{}', count: counts.configs });
  await insert(database, identity, {
    kind: 'integration',
    data: integrationData,
    secret,
    count: counts.integrations,
  });
  await database.query((statements) => statements.execute(sql`ANALYZE`));
}

interface Seeds {
  readonly kind: string;
  readonly data: object;
  readonly secret: string;
  readonly count: number;
}

/** In one change of the organisation: statement by statement it would take minutes. */
async function insert(
  database: Database,
  { organisation_id: organisation, workspace_id: workspace }: StoredIds,
  { kind, data, secret, count }: Seeds,
): Promise<void> {
  const text = JSON.stringify(data);
  const numbers = sql`generate_series(0, ${count}::int - 1) AS number`;
  await database.transaction(async (statements) => {
    await statements.execute(sql`UPDATE organisation_counters
      SET changes = changes + 1, records_change = changes + 1 WHERE organisation_id = ${organisation}`);
    await statements.execute(sql`
      INSERT INTO records (id, organisation_id, kind, workspace_id, slug, name, status, parent_id, data, size, secrets,
        created_by, updated_by, created_at, updated_at, version, change)
      SELECT md5(${kind}::text || number)::uuid::text, ${organisation}::text, ${kind}::text, ${workspace}::text,
        'bench-' || number, 'record ' || number, 'active', '', ${text}::json, octet_length(${text}::text),
        ${secret}::jsonb, '', '', now() + number * interval '1 ms', now(), 1,
        (SELECT changes FROM organisation_counters WHERE organisation_id = ${organisation})
      FROM ${numbers}`);
  });
}

async function loadSeconds(database: Database, identity: StoredIds, configs: number): Promise<number> {
  const place = { organisationId: identity.organisation_id, workspaceId: identity.workspace_id };
  const times: number[] = [];
  for (let round = 0; round < 3; round += 1) {
    const directory = directoryOf(database, identity);
    const from = performance.now();
    await directory.start();
    const known = directory.records('config', place).length;
    times.push((performance.now() - from) / 1000);
    directory.close();
    if (known !== configs) throw new Error(`The directory knows ${known} of ${configs} configs.`);
  }
  return median(times);
}

async function listMs(
  database: Database,
  { organisation_id: organisation }: StoredIds,
  offset: number,
): Promise<number> {
  const resources = resourcesOf(database);
  const times: number[] = [];
  for (let round = 0; round < 15; round += 1) {
    const from = performance.now();
    await resources.read(({ records }) =>
      records.list('config', organisation, {}, { offset, limit: pageSize }),
    );
    times.push(performance.now() - from);
  }
  return median(times);
}
