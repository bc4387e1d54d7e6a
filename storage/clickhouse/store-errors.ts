import { ClickHouseError } from '@clickhouse/client';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { SchemaChanged } from './migrate.ts';
import { shardSql, UnfitCluster } from './shards.ts';

/** Errors of the analytics store. */
export const analyticsErrors = {
  explainStart,
  checkVersion,
  ofInsert: insertError,
  ofQuery: queryError,
  unavailable,
};

/** Step at which opening failed. */
export type OpeningStep = 'connect' | 'database' | 'schema';

/** Address and names of the store; nothing here is secret. */
export interface StorePlace {
  /** `http://host:8123`, without credentials. */
  readonly url: string;
  readonly username: string;
  readonly database: string;
  readonly cluster?: string | undefined;
  readonly sharded?: boolean | undefined;
}

/**
 * The analytics store could not be opened. The message names the place, the reason and the remedy, never a password.
 */
export class AnalyticsStartError extends Error {
  /** The reason alone, without addresses and names; suitable for a public page such as /readyz. */
  readonly reason: string;
  /** What to do, in a sentence. */
  readonly remedy: string;
  /** True when waiting does not help: a setting has to be changed here or on the server. */
  readonly lasting: boolean;

  constructor({ url }: StorePlace, { reason, remedy, lasting }: Finding, cause?: unknown) {
    super(`The analytics store at ${url} cannot be used: ${reason}. ${remedy}`, { cause });
    this.name = 'AnalyticsStartError';
    this.reason = reason;
    this.remedy = remedy;
    this.lasting = lasting;
  }
}

interface Finding {
  readonly reason: string;
  readonly remedy: string;
  readonly lasting: boolean;
}

/** The oldest server that supports the used settings and statements; a long-term release. */
const oldestVersion: readonly [major: number, minor: number] = [24, 8];

const section = 'storage.analytics';
const certificateCodes =
  /^(CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_MISMATCH|INVALID_CA|ERR_TLS_CERT)/;
const tlsCodes = /^(EPROTO|ERR_SSL_|ERR_TLS_)/;
const longestText = 300;

/** Error for a failure at this step of opening. */
function explainStart(error: unknown, step: OpeningStep, place: StorePlace): AnalyticsStartError {
  if (error instanceof AnalyticsStartError) return error;
  return new AnalyticsStartError(place, find(error, step, place), error);
}

/** Throws when this server version is older than `oldestVersion`; an unreadable version passes. */
function checkVersion(version: string, place: StorePlace): void {
  const [major, minor] = (/^(\d+)\.(\d+)/.exec(version) ?? []).slice(1).map(Number);
  if (major === undefined || minor === undefined) return;
  const [oldestMajor, oldestMinor] = oldestVersion;
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return;
  const needed = oldestVersion.join('.');
  throw new AnalyticsStartError(place, {
    reason: `the server runs ClickHouse ${major}.${minor}, and ${needed} or newer is needed`,
    remedy: 'Upgrade it, or name another server in storage.analytics.url.',
    lasting: true,
  });
}

function find(error: unknown, step: OpeningStep, place: StorePlace): Finding {
  if (error instanceof SchemaChanged) {
    return {
      reason: error.message,
      remedy: 'Nothing was changed in the store.',
      lasting: true,
    };
  }
  if (error instanceof UnfitCluster) return { reason: error.reason, remedy: error.remedy, lasting: true };
  return error instanceof ClickHouseError ? answered(error, step, place) : unanswered(error, place);
}

function answered(error: ClickHouseError, step: OpeningStep, place: StorePlace): Finding {
  const { username, database, cluster, sharded } = place;
  const rights = (list: string): string =>
    [database, ...(sharded === true ? [shardSql.databaseOfAll(database)] : [])]
      .map((one) => `GRANT ${list} ON ${one}.* TO ${username}`)
      .join(', ');
  const onAll = [...(cluster === undefined ? [] : ['CLUSTER']), ...(sharded === true ? ['REMOTE'] : [])];
  const further = onAll.length === 0 ? '' : `, and GRANT ${onAll.join(', ')} ON *.* TO ${username}`;
  const number = `error ${error.code} ${error.type ?? ''}`.trimEnd();
  const lasting = (what: string, remedy: string): Finding => ({
    reason: `${what} (${number})`,
    remedy,
    lasting: true,
  });
  switch (error.code) {
    case '192':
    case '193':
    case '194':
    case '516':
      return lasting(
        'it refuses the user or the password',
        `Check ${section}.username ("${username}") and ${section}.password.`,
      );
    case '497':
      return step === 'database'
        ? lasting(
            'the database does not exist and the user may not create it',
            `Create it (CREATE DATABASE ${database}), or ${rights('CREATE DATABASE')}.`,
          )
        : lasting(
            'the user lacks a right that is needed',
            `${rights('SELECT, INSERT, CREATE TABLE, CREATE VIEW, ALTER TABLE, DROP TABLE')}${further}.`,
          );
    case '164':
      return lasting(
        'the user is read-only',
        `Give "${username}" a settings profile with readonly = 0; only statements of the gateway use it.`,
      );
    case '170':
    case '701':
      return lasting(
        'it knows no such cluster',
        `${section}.cluster is "${cluster ?? ''}"; SHOW CLUSTERS lists the names.`,
      );
    case '139':
    case '225':
      return lasting(
        'it is not set up for replicated tables',
        `Replicated tables and ON CLUSTER need Keeper and, in the server's <macros>, what ${section}.replica_path and replica_name mention. It says: ${textOf(error)}`,
      );
    case '115':
      return lasting('it does not know a setting that is needed', `It says: ${textOf(error)}`);
    default:
      return {
        reason: `it answered with ${number}`,
        remedy: step === 'connect' ? "See the server's own log." : `It says: ${textOf(error)}`,
        lasting: false,
      };
  }
}

function unanswered(error: unknown, { url }: StorePlace): Finding {
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined;
  if (code !== undefined && certificateCodes.test(code)) {
    return {
      reason: `its certificate is not accepted (${code})`,
      remedy: `Name the authority that signed it in ${section}.ca_file, and the host as the certificate does in ${section}.url.`,
      lasting: true,
    };
  }
  if (code !== undefined && tlsCodes.test(code)) {
    return {
      reason: `TLS failed (${code})`,
      remedy: `Check that ${new URL(url).host} is the port for HTTPS (8443), or write http://.`,
      lasting: true,
    };
  }
  const late = error instanceof Error && error.message.startsWith('Timeout');
  if (code === undefined && !late) {
    return {
      reason: 'the answer is not that of ClickHouse’s HTTP interface',
      remedy: `Check host and port in ${section}.url: 8123, or 8443 with https://; 9000 is another protocol.`,
      lasting: false,
    };
  }
  return {
    reason: late ? 'it did not answer in time' : `the connection failed (${code ?? ''})`,
    remedy: `Check that it runs, and that ${new URL(url).host} can be reached from here.`,
    lasting: false,
  };
}

/** The server's message about a schema statement, which holds no caller data; bounded, on one line. */
function textOf({ message }: ClickHouseError): string {
  const line = message.replace(/\s+/g, ' ').trim();
  return line.length > longestText ? `${line.slice(0, longestText)}…` : line;
}

/**
 * The store understood the insert and will never accept these rows: at least one of them does not fit the table.
 * Nothing of the batch was stored. The message names the place, never the contents.
 */
export class RowsRejected extends Error {
  readonly table: string;
  /** The store's error number (117, 376, …). */
  readonly storeCode: string;
  /** 1-based number of the row that failed, when the store reports it. */
  readonly row: number | undefined;

  constructor(table: string, storeCode: string, reason: string, row: number | undefined) {
    super(`the analytics store rejected rows for ${table}: ${reason}`);
    this.name = 'RowsRejected';
    this.table = table;
    this.storeCode = storeCode;
    this.row = row;
  }
}

/**
 * Error codes caused by the rows, in any state of the store: text that does not fit its column, and batches that are
 * too large or touch too many partitions (smaller ones can be stored). Other errors may be retried.
 */
const rowsAtFault = new Set(
  [
    6, 25, 26, 27, 32, 33, 38, 41, 53, 69, 70, 72, 117, 130, 131, 229, 321, 346, 349, 376, 407, 467, 563, 565,
    626, 632, 691,
  ].map(String),
);
const timeouts = new Set(['159', '160', '209', '394']);

/** Error of an insert: `RowsRejected` when the rows are at fault, else a `GatewayError` `store_unavailable`. */
function insertError(error: unknown, table: string): GatewayError | RowsRejected {
  if (error instanceof ClickHouseError && rowsAtFault.has(error.code)) {
    const row = /\(at row (\d+)\)/.exec(error.message)?.[1];
    const key = /reading the value of key (\w+)/.exec(error.message)?.[1];
    const place = `${row === undefined ? '' : `row ${row}`}${key === undefined ? '' : `, column ${key}`}`;
    const reason = `error ${error.code} ${error.type ?? ''}${place === '' ? '' : ` at ${place}`}`;
    return new RowsRejected(table, error.code, reason, row === undefined ? undefined : Number(row));
  }
  return unavailable(error);
}

/**
 * One query exceeds its rows, bytes or memory; a message with `(total)` means the memory of the whole store instead.
 */
const tooLarge = new Set(['158', '241', '307', '396']);

/** The store's memory is exhausted, by all its work, not the query's own limit. */
function isOfStore({ code, message }: ClickHouseError): boolean {
  return code === '241' && !/^(Query|User) memory limit|Memory limit \(for (query|user)\)/i.test(message);
}

/** Error of a query: a `GatewayError` `query_timeout`, `query_too_large` or `store_unavailable`. */
function queryError(error: unknown): GatewayError {
  if (GatewayError.is(error)) return error;
  if (error instanceof ClickHouseError && tooLarge.has(error.code) && !isOfStore(error)) {
    const message =
      'The analytics query needs more than one query may take. Ask for a shorter time window, or for fewer groups.';
    return new GatewayError('query_too_large', message, { cause: error });
  }
  // A store that ends a query reports it; one without an answer is unavailable, and a shorter window does not help.
  if (!(error instanceof ClickHouseError && timeouts.has(error.code))) return unavailable(error);
  const message = 'The analytics query took too long and was stopped. Ask for a shorter time window.';
  return new GatewayError('query_timeout', message, { cause: error });
}

/** The store is unreachable, or cannot serve the request now. */
function unavailable(error: unknown): GatewayError {
  return new GatewayError('store_unavailable', `The analytics store is not available: ${reasonOf(error)}.`, {
    cause: error,
  });
}

/** The error's name without its text: that may quote rows and statements. */
function reasonOf(error: unknown): string {
  if (error instanceof ClickHouseError)
    return `it answered with error ${error.code} ${error.type ?? ''}`.trimEnd();
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined;
  if (code !== undefined) return `the connection failed (${code})`;
  return error instanceof Error && /^(Timeout|The user aborted|The operation was aborted)/.test(error.message)
    ? 'it did not answer in time'
    : 'the connection failed';
}
