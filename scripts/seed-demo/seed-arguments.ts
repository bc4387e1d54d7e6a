/** The help of `npm run seed:demo`. */
export const seedUsage = `npm run seed:demo -- [--rows N] [--bodies SHARE] [--days N] [--seed N] [--end TIME] [--config FILE] [--data DIR]

Fills the analytics store of a configuration with rows that look real. Broken off, it goes on where it was.

  --rows N         requests; default 1000000
  --bodies SHARE   share of them that has bodies, 0 to 1; default 0.01
  --days N         days that they are spread over, 1 to 3650; default 30
  --seed N         another number makes other rows; default 1
  --end TIME       when they end (2026-11-22, or with a time); default: now, and of rows that were begun, as they were
  --config FILE    the configuration (WEIR_CONFIG); its storage.analytics says where the rows go
  --data DIR       the data folder (WEIR_DATA); default ./data

An embedded store takes one process: stop its gateway, fill, and start it again. To fill beside a gateway that runs, let
both use an analytics server: storage.analytics.url in the configuration (docs/clickhouse.md).`;

/** Advice when a gateway runs on the target data folder. */
export const besideGateway =
  'An embedded store takes one process. Stop the gateway, run this again, and start the gateway; or let both use an analytics server (storage.analytics.url, docs/clickhouse.md), which is filled while the gateway runs; or fill another folder with --data DIR, and start a gateway on that.';

/** Settings of the demo. */
interface SeedArguments {
  readonly rows: number;
  readonly bodies: number;
  readonly days: number;
  readonly seed: number;
  /** Milliseconds since the epoch. */
  readonly end: number | undefined;
}

/** Reads the command line. Throws one sentence for an invalid value. */
export function readSeedArguments(values: {
  readonly rows?: string | undefined;
  readonly bodies?: string | undefined;
  readonly days?: string | undefined;
  readonly seed?: string | undefined;
  readonly end?: string | undefined;
}): SeedArguments {
  return {
    rows: whole('rows', values.rows ?? '1000000', 1, 1_000_000_000),
    days: whole('days', values.days ?? '30', 1, 3650),
    seed: whole('seed', values.seed ?? '1', 0, 4_294_967_295),
    bodies: share(values.bodies ?? '0.01'),
    end: values.end === undefined ? undefined : moment(values.end),
  };
}

function whole(name: string, text: string, least: number, most: number): number {
  const number = /^\d{1,12}$/.test(text) ? Number(text) : NaN;
  if (number >= least && number <= most) return number;
  throw new Error(`--${name} must be a whole number from ${least} to ${most}; it is "${text}".`);
}

function share(text: string): number {
  const number = /^\d*\.?\d+$/.test(text) ? Number(text) : NaN;
  if (number >= 0 && number <= 1) return number;
  throw new Error(`--bodies must be a number from 0 to 1; it is "${text}".`);
}

function moment(text: string): number {
  const time = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : NaN;
  if (!Number.isNaN(time)) return time;
  throw new Error(`--end must be a date such as 2026-11-22, or one with a time; it is "${text}".`);
}
