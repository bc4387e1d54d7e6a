import type { Select } from './select.ts';

/** The roll-ups in the order in which a batch is applied; hours propagate to days by themselves. */
const tables = ['usage_minutes', 'usage_hours', 'usage_days'] as const;
type RollUpTable = (typeof tables)[number];

/**
 * The organisation of marks in roll-ups: rows without a request, each in one block with its costs, so that both are
 * stored or neither.
 */
const marksOrganisation = 'weir reprice';

/** Costs of a batch that were added to a roll-up, or subtracted from it. No step of a batch is repeated. */
export interface Mark {
  readonly table: RollUpTable;
  readonly sign: '+' | '-';
  readonly step: number;
}

/** Name of the mark of the batch with this number in the roll-up. */
export function nameOf(number: number, { sign, step }: Mark): string {
  return `${number}${sign}${step}`;
}

/** The marks of the batch with this number. */
export async function marksOf(select: Select, number: number): Promise<Mark[]> {
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
export function nextStep(marks: readonly Mark[], number: number): Mark | undefined {
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
