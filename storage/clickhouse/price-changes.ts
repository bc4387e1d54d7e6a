import { oneServer, schemaSql, type TableLayout } from './migrate.ts';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { ClickHouseClient, ClickHouseSettings } from '@clickhouse/client';
import type { TimeWindow } from '../../core/ports/analytics.ts';
import type {
  PriceChange,
  Repricing,
  RepricingTurn,
  UnpricedQuery,
  UnpricedRequest,
} from '../../core/ports/prices.ts';
import { usageOfRow } from '../../core/ports/request-row.ts';
import { logSql } from './filter-sql.ts';
import { type Select } from './select.ts';
import { type Shards, shardSql } from './shards.ts';
import { analyticsErrors } from './store-errors.ts';

/** Dependencies of price changes. */
interface RepricingParts {
  readonly client: ClickHouseClient;
  readonly select: Select;
  /** Time after its start in which a batch belongs to the command that started it, milliseconds. */
  readonly graceMs: number;
  readonly layout?: TableLayout | undefined;
  /** Set when the tables are Distributed ones. */
  readonly shards?: Shards | undefined;
}

/** A numbered batch. */
interface Batch {
  readonly number: number;
  readonly name: string;
}

/** One insert is one block of one partition: atomic. */
const insertSettings: ClickHouseSettings = {
  async_insert: 0,
  insert_deduplicate: 1,
  deduplicate_blocks_in_dependent_materialized_views: 1,
  max_insert_threads: '1',
  max_threads: 1,
  min_insert_block_size_rows: '10000000',
  min_insert_block_size_bytes: '1000000000',
  wait_end_of_query: 1,
};
/** Statements carry the ids of a batch. */
const longestStatement = '4000000';
/** Upper bound of a row change's duration, and the interval of its checks. */
const longestChangeMs = 600_000;
const firstLookMs = 10;
const longestLookMs = 1000;
/** Upper bound of steps that bring three roll-ups to a batch; more only while another command does the same. */
const maxSteps = 30;
const dollars = /^\d{1,6}\.\d{12}$/;
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Price changes as a list of numbered batches. A batch is first written, then takes the next number, which the store
 * assigns once (the token of that insert), and then is applied to the roll-ups and rows. Every command completes the
 * batch with the highest number before it selects rows, so no row is in two batches. Each step can be repeated:
 * roll-ups store a mark with the added costs, and rows with a price are skipped.
 */
export function repricingOf(given: RepricingParts): Repricing {
  const parts = { ...given, select: sequential(given) };
  return {
    unpriced: (query) => unpriced(parts.select, query),
    async turn() {
      const last = await lastBatch(parts);
      const completed = last.batch !== undefined && (await completeOf(parts, last.batch, last.ageMs));
      return turnAfter(parts, last.batch?.number ?? 0, completed);
    },
  };
}

/** Reads on any replica what was written on another: only where inserts wait for each other can the store do that. */
function sequential({ select, layout }: RepricingParts): Select {
  if (layout?.quorum?.parallel !== false) return select;
  const settings: ClickHouseSettings = { select_sequential_consistency: '1' };
  return (sql, parameters, options) =>
    select(sql, parameters, { ...options, settings: { ...options?.settings, ...settings } });
}

/** Settings of an insert with this token. On shards all of them go to one, so that a token is known where it is used. */
function insertWith({ layout = oneServer, shards }: RepricingParts, token: string): ClickHouseSettings {
  return {
    ...insertSettings,
    ...schemaSql.quorumSettings(layout),
    ...(shards === undefined ? {} : shardSql.intoShard()),
    insert_deduplication_token: token,
  };
}

function turnAfter(parts: RepricingParts, number: number, completed: boolean): RepricingTurn {
  return {
    completed,
    async change(changes) {
      const name = `${number + 1}-${randomUUID()}`;
      await write(parts, name, changes);
      const winner = await take(parts, { number: number + 1, name });
      if (winner !== name) return false;
      await complete(parts, { number: number + 1, name });
      return true;
    },
  };
}

interface UnpricedRow {
  readonly row_at: number;
  readonly row_id: string;
  readonly organisation: string;
  readonly workspace: string;
  readonly service: string;
  readonly addressed: string;
  readonly origin: string;
  readonly asked: string;
  readonly answered: string;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly cached_tokens: number;
  readonly cache_write_tokens: number;
  readonly reasoning_tokens: number;
  readonly input_audio_tokens: number;
  readonly output_audio_tokens: number;
}

async function unpriced(
  select: Select,
  { window, services, models, after, limit }: UnpricedQuery,
): Promise<UnpricedRequest[]> {
  const conditions = [logSql.inWindow, "pricing = 'unpriced'"];
  if (services !== undefined) conditions.push('ai_service IN {services:Array(String)}');
  if (models !== undefined) conditions.push('model IN {models:Array(String)}');
  if (after !== undefined)
    conditions.push(
      "(created_at, id) > (fromUnixTimestamp64Milli({after_at:Int64}, 'UTC'), {after_id:UUID})",
    );
  const rows = await select<UnpricedRow>(
    [
      'SELECT toUnixTimestamp64Milli(created_at) AS row_at, toString(id) AS row_id,',
      'toString(organisation_id) AS organisation, toString(workspace_id) AS workspace, toString(source) AS origin,',
      'toString(ai_service) AS service, toString(provider) AS addressed, toString(model_requested) AS asked, toString(model) AS answered,',
      'prompt_tokens, completion_tokens, total_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, input_audio_tokens, output_audio_tokens',
      `FROM requests WHERE ${conditions.join(' AND ')} ORDER BY created_at, id LIMIT {most:UInt32}`,
    ].join('\n'),
    {
      ...logSql.moments(after === undefined ? window : { from: after.createdAt, to: window.to }),
      services: services ?? [],
      models: models ?? [],
      after_at: after?.createdAt ?? 0,
      after_id: after?.id ?? '',
      most: limit,
    },
  );
  return rows.map((row) => ({
    createdAt: row.row_at,
    id: row.row_id,
    organisationId: row.organisation,
    workspaceId: row.workspace,
    service: row.service,
    provider: row.addressed,
    isReported: row.origin !== '',
    requested: row.asked,
    model: row.answered,
    usage: usageOfRow(row),
  }));
}

/** Columns of `requests` that a change stores beside its cost: the dimensions of the roll-ups. */
const kept =
  'created_at, id, organisation_id, workspace_id, api_key_id, end_user, ai_service, provider, model, config, prompt, status, is_success, retries';

async function write(parts: RepricingParts, name: string, changes: readonly PriceChange[]): Promise<void> {
  const { where, cost, version } = changesSql(changes);
  const query = [
    `INSERT INTO price_changes (batch, ${kept}, cost, price_version)`,
    `SELECT ${schemaSql.literal(name)}, ${kept}, ${cost}, ${version} FROM requests WHERE ${where}`,
  ].join('\n');
  await run(parts, query, insertWith(parts, `price-changes-${name}`));
}

/** Selects the rows of `requests` for changes, and sets their new values. Values are checked, and part of the text. */
function changesSql(changes: readonly PriceChange[]) {
  const keys: string[] = [];
  const versions = [...new Set(changes.map(({ version }) => version))];
  for (const { createdAt, id, cost } of changes) {
    if (!Number.isSafeInteger(createdAt) || !uuid.test(id) || !dollars.test(cost))
      throw new Error(`The price of request ${id} is ${cost}, and no amount with 12 digits.`);
    keys.push(`${createdAt} ${id}`);
  }
  // One literal for all values, not thousands of them: statements are copied many times on their way.
  const list = (values: readonly (string | number)[]): string => `splitByChar(',', '${values.join(',')}')`;
  const ofRow = (values: readonly (string | number)[]): string =>
    `transform(concat(toString(toUnixTimestamp64Milli(created_at)), ' ', toString(id)), ${list(keys)}, ${list(values)}, '')`;
  const cost = ofRow(changes.map((change) => change.cost));
  const edition = ofRow(changes.map(({ version }) => versions.indexOf(version) + 1));
  const { from, to } = spanOf(changes);
  const moment = (at: number): string => `fromUnixTimestamp64Milli(${at}, 'UTC')`;
  return {
    where: `pricing = 'unpriced' AND created_at >= ${moment(from)} AND created_at < ${moment(to)} AND ${cost} != ''`,
    cost: `toDecimal64(${cost}, 12)`,
    version:
      versions.length === 1
        ? schemaSql.literal(versions[0] as string)
        : `[${versions.map(schemaSql.literal).join(', ')}][toUInt32OrZero(${edition})]`,
  };
}

function spanOf(changes: readonly PriceChange[]): TimeWindow {
  const times = changes.map(({ createdAt }) => createdAt);
  return { from: Math.min(...times), to: Math.max(...times) + 1 };
}

/** Assigns a number to a batch, unless another one has it. Resolves to the name of the batch that has it. */
async function take(parts: RepricingParts, batch: Batch): Promise<string> {
  await recordBatchState(parts, batch, 'taken');
  const [row] = await parts.select<{ name: string }>(
    'SELECT batch AS name FROM price_batches WHERE number = {number:UInt64} LIMIT 1',
    { number: batch.number },
  );
  if (row === undefined) throw new Error('The store does not tell the batch that it has just taken.');
  return row.name;
}

async function recordBatchState(
  parts: RepricingParts,
  batch: Batch,
  state: 'taken' | 'complete',
): Promise<void> {
  await run(
    parts,
    `INSERT INTO price_batches (number, batch, state) SELECT ${batch.number}, ${schemaSql.literal(batch.name)}, '${state}'`,
    insertWith(parts, `price-batch-${batch.number}-${state}`),
  );
}

interface LastBatch {
  /** Undefined before the first one. */
  readonly batch: (Batch & { readonly isComplete: boolean }) | undefined;
  /** Age of its number. */
  readonly ageMs: number;
}

async function lastBatch({ select }: RepricingParts): Promise<LastBatch> {
  const [row] = await select<{ last: number; name: string; complete: number; age_ms: number }>(
    "SELECT number AS last, any(batch) AS name, countIf(state = 'complete') AS complete, toUnixTimestamp64Milli(now64(3)) - min(toUnixTimestamp64Milli(noted_at)) AS age_ms FROM price_batches GROUP BY number ORDER BY number DESC LIMIT 1",
    {},
  );
  if (row === undefined) return { batch: undefined, ageMs: Infinity };
  const { last: number, name, complete, age_ms: ageMs } = row;
  return { batch: { number, name, isComplete: complete > 0 }, ageMs };
}

/** Completes a batch if needed; true when it did. */
async function completeOf(
  parts: RepricingParts,
  batch: NonNullable<LastBatch['batch']>,
  ageMs: number,
): Promise<boolean> {
  if (batch.isComplete) return false;
  // The command that started it may still work on it, or its last statement may run; both end soon.
  if (ageMs < parts.graceMs) {
    await delay(Math.min(longestLookMs, parts.graceMs - ageMs));
    const now = await lastBatch(parts);
    return now.batch === undefined ? false : completeOf(parts, now.batch, now.ageMs);
  }
  await complete(parts, batch);
  return true;
}

async function complete(parts: RepricingParts, batch: Batch): Promise<void> {
  const changes = await parts.select<PriceChange>(
    'SELECT toUnixTimestamp64Milli(created_at) AS createdAt, toString(id) AS id, cost, toString(price_version) AS version FROM price_changes WHERE batch = {batch:String}',
    { batch: batch.name },
  );
  // Retention may have deleted all rows of an old batch.
  if (changes.length > 0) {
    await intoRollUps(parts, batch);
    await intoRows(parts, batch, changes);
  }
  await recordBatchState(parts, batch, 'complete');
}

async function intoRollUps(parts: RepricingParts, { number, name }: Batch): Promise<void> {
  const own: Mark[] = [];
  for (let step = 0; step < maxSteps; step += 1) {
    // Roll-ups without retention of that time drop the marks too, and another replica may not show them yet.
    const next = nextStep([...(await marksOf(parts.select, number)), ...own], number);
    if (next === undefined) return;
    const token = `price-roll-up-${next.table}-${nameOf(number, next)}`;
    await run(parts, rollUpSql(next, number, schemaSql.literal(name)), insertWith(parts, token));
    own.push(next);
    if (next.table === 'usage_hours') own.push({ ...next, table: 'usage_days' });
  }
  throw new Error(
    'The roll-ups do not take the prices. End other commands that change prices, and run this again.',
  );
}

async function intoRows(
  parts: RepricingParts,
  { name }: Batch,
  changes: readonly PriceChange[],
): Promise<void> {
  const { where, cost, version } = changesSql(changes);
  const change = `cost = ${cost}, pricing = 'priced', price_version = ${version}`;
  await run(parts, `ALTER TABLE ${ownTable(parts)} UPDATE ${change} WHERE ${where}`, {
    ...(parts.shards !== undefined && schemaSql.settings),
    mutations_sync: '0',
  });
  const begun = performance.now();
  for (let wait = firstLookMs; ; wait = Math.min(wait * 2, longestLookMs)) {
    const [left] = await parts.select<{ rows: number }>(
      `SELECT count() AS rows FROM requests WHERE ${logSql.inWindow} AND pricing = 'unpriced' AND (created_at, id) IN (SELECT created_at, id FROM price_changes WHERE batch = {batch:String})`,
      { ...logSql.moments(spanOf(changes)), batch: name },
    );
    if (left?.rows === 0) return;
    if (performance.now() - begun > longestChangeMs)
      throw new Error(
        `The store has not changed ${left?.rows} rows within ${longestChangeMs / 60_000} minutes: ${await failureOf(parts)}. Run the command again: it goes on here.`,
      );
    await delay(wait);
  }
}

/** The table whose rows are changed: on shards that of each of them, since a Distributed one changes none. */
function ownTable({ shards }: RepricingParts): string {
  return shards === undefined
    ? 'requests'
    : `${shardSql.quoted(shards.database)}.requests${schemaSql.onCluster(shards.layout)}`;
}

/** Reason why the store does not change rows, if it reports one. */
async function failureOf({ select, shards }: RepricingParts): Promise<string> {
  // The server's own tables may be inaccessible; then there is no reason to report.
  const told = select<{ reason: string }>(
    `SELECT latest_fail_reason AS reason FROM system.mutations WHERE database = ${shards === undefined ? 'currentDatabase()' : schemaSql.literal(shards.database)} AND table = 'requests' AND NOT is_done ORDER BY create_time DESC LIMIT 1`,
    {},
  );
  const [row] = await told.catch(() => []);
  return row === undefined || row.reason === '' ? 'it is busy' : row.reason.slice(0, 300);
}

async function run({ client }: RepricingParts, query: string, settings: ClickHouseSettings): Promise<void> {
  try {
    await client.command({ query, clickhouse_settings: { ...settings, max_query_size: longestStatement } });
  } catch (error) {
    throw analyticsErrors.ofQuery(error);
  }
}

/** The roll-ups in the order in which a batch is applied; hours propagate to days by themselves. */
const tables = ['usage_minutes', 'usage_hours', 'usage_days'] as const;
type RollUpTable = (typeof tables)[number];

/**
 * The organisation of marks in roll-ups: rows without a request, each in one block with its costs, so that both are
 * stored or neither.
 */
const marksOrganisation = 'weir reprice';

/** Costs of a batch that were added to a roll-up, or subtracted from it. No step of a batch is repeated. */
interface Mark {
  readonly table: RollUpTable;
  readonly sign: '+' | '-';
  readonly step: number;
}

/** Name of the mark of the batch with this number in the roll-up. */
function nameOf(number: number, { sign, step }: Mark): string {
  return `${number}${sign}${step}`;
}

/** The marks of the batch with this number. */
async function marksOf(select: Select, number: number): Promise<Mark[]> {
  const ofTable = (table: RollUpTable): string =>
    `SELECT DISTINCT '${table}' AS table, toString(workspace_id) AS mark FROM ${table} WHERE organisation_id = '${marksOrganisation}' AND match(workspace_id, {marks:String})`;
  const found = await select<{ table: RollUpTable; mark: string }>(
    tables.map(ofTable).join('\nUNION ALL\n'),
    { marks: `^${number}[+-][0-9]+$` },
  );
  return found.map(({ table, mark }) => {
    const rest = mark.slice(String(number).length);
    return { table, sign: rest.startsWith('+') ? '+' : '-', step: Number(rest.slice(1)) };
  });
}

/**
 * The next step towards roll-ups that hold the costs of a batch exactly once, or undefined when they do. A store that
 * stops between hours and days may keep costs in only one of them, and adding them to the hours again also adds them to
 * the days: they are then subtracted there. The same mark twice counts once.
 */
function nextStep(marks: readonly Mark[], number: number): Mark | undefined {
  const step = Math.max(0, ...marks.map((mark) => mark.step)) + 1;
  for (const table of tables) {
    const names = new Set(marks.filter((mark) => mark.table === table).map((mark) => nameOf(number, mark)));
    let times = 0;
    for (const name of names) times += name.includes('+') ? 1 : -1;
    if (times !== 1) return { table, sign: times < 1 ? '+' : '-', step };
  }
  return undefined;
}

/** Dimensions of hours and days, from changes; and whether whole organisations have them too. */
const dimensions: readonly (readonly [dimension: string, value: string, isTold: boolean])[] = [
  ['', "''", true],
  ['ai_service', 'toString(ai_service)', true],
  ['model', 'toString(model)', true],
  ['status_code', 'toString(status)', true],
  ['api_key', 'toString(api_key_id)', false],
  ['config', 'toString(config)', true],
  ['provider', 'toString(provider)', true],
  ['prompt', 'toString(prompt)', true],
  ['user', 'end_user', false],
  ['retries', "if(is_success AND retries > 0, toString(retries), '')", true],
];

const bucketOf: Readonly<Record<RollUpTable, string>> = {
  usage_minutes: "toStartOfMinute(toDateTime(created_at, 'UTC'))",
  usage_hours: "toStartOfHour(toDateTime(created_at, 'UTC'))",
  usage_days: "toStartOfDay(toDateTime(created_at, 'UTC'))",
};

/**
 * The statement of a step; `batch` is the quoted name of the batch. It groups changes like the view of the table groups
 * requests, and changes only costs.
 */
export function rollUpSql(mark: Mark, number: number, batch: string): string {
  const { table, sign } = mark;
  const isMinutes = table === 'usage_minutes';
  const key = ['organisation_id', 'workspace_id', 'bucket', ...(isMinutes ? [] : ['dimension', 'value'])];
  const times = 'min(created_at) AS first_at, max(created_at) AS last_at';
  const bucket = `${bucketOf[table]} AS bucket`;
  const from = `FROM price_changes WHERE batch = ${batch}`;
  const told = isMinutes
    ? `SELECT toString(organisation_id) AS organisation_id, toString(workspace_id) AS workspace_id, ${bucket}, cost, created_at ${from}`
    : [
        `SELECT organisation_id, told.1 AS dimension, told.2 AS workspace_id, told.3 AS value, bucket, cost, created_at`,
        `FROM (SELECT toString(organisation_id) AS organisation_id, arrayJoin([${dimensions.flatMap(dimensionTuples).join(', ')}]) AS told, ${bucket}, cost, created_at ${from})`,
        `WHERE dimension NOT IN ('retries', '*retries') OR value != ''`,
      ].join('\n');
  const names: Readonly<Record<string, string>> = {
    organisation_id: `'${marksOrganisation}'`,
    workspace_id: `'${nameOf(number, mark)}'`,
    bucket: `max(${bucketOf[table]})`,
    dimension: "''",
    value: "''",
  };
  return [
    `INSERT INTO ${table} (${[...key, 'cost_sum', 'first_at', 'last_at'].join(', ')})`,
    `SELECT * FROM (SELECT ${key.join(', ')}, ${sign}sum(cost) AS cost_sum, ${times} FROM (${told}) GROUP BY ${key.join(', ')}`,
    `UNION ALL SELECT ${key.map((column) => names[column]).join(', ')}, toDecimal128(0, 12) AS cost_sum, ${times} ${from}) ORDER BY ALL`,
  ].join('\n');
}

/** Tuples of dimension, workspace and value under which a request counts. */
function dimensionTuples([dimension, value, isTold]: (typeof dimensions)[number]): string[] {
  const own = `('${dimension}', toString(workspace_id), ${value})`;
  return isTold ? [own, `('*${dimension}', '', ${value})`] : [own];
}
