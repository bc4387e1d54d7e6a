import { DrizzleQueryError } from 'drizzle-orm';
import type { NodePgQueryResultHKT } from 'drizzle-orm/node-postgres';
import type { PgDatabase } from 'drizzle-orm/pg-core';
import pg from 'pg';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { MigrationFailed, SchemaMismatch } from './migrate.ts';

/** Errors of the database. */
export const databaseErrors = {
  checkVersion,
  explainStart,
  ofDriver: driverError,
  violatedConstraint,
  ofStore: storeError,
  unavailable,
  reason: reasonOf,
};

/** Builds and runs statements on one connection of the database, inside or outside of a transaction. */
export type Statements = Pick<
  PgDatabase<NodePgQueryResultHKT, Record<string, never>>,
  | 'select'
  | 'selectDistinct'
  | 'selectDistinctOn'
  | 'insert'
  | 'update'
  | 'delete'
  | 'execute'
  | 'with'
  | '$with'
  | '$count'
>;

/** Options of a transaction. */
export interface TransactionOptions {
  /** One consistent view of everything, and no writes. Default false: read committed, for writing. */
  readonly readOnly?: boolean;
  /** Channel whose subscribers, in every process, are notified after the commit. */
  readonly notify?: string;
}

/**
 * The relational store: a PostgreSQL server, or the embedded engine, which has one shared connection. Failures reject
 * with a `GatewayError` that quotes no values: `already_exists` when a unique index refuses a row (`violatedConstraint`
 * names the index), `store_unavailable` when the database is unavailable or too slow, `internal` when it refuses a
 * statement. Errors thrown by `work` itself pass unchanged.
 */
export interface Database {
  readonly embedded: boolean;
  /** True while a connection is in use or requested. */
  readonly isBusy: boolean;
  /** Runs `work` on one connection, each statement on its own. It is cut off after 30 seconds. */
  query<T>(work: (statements: Statements) => Promise<T>): Promise<T>;
  /**
   * Runs `work` in one transaction: committed when it resolves, rolled back when it rejects. It is cut off after 30
   * seconds. Never open another one inside: the embedded engine would wait for itself. No network calls inside.
   */
  transaction<T>(work: (statements: Statements) => Promise<T>, options?: TransactionOptions): Promise<T>;
  /**
   * Calls `look` after a committed transaction that notified the channel, here or in another process, and after every
   * loss of the connection. Notifications may be lost: also check periodically. The returned function unsubscribes.
   */
  listen(channel: string, look: () => void): () => void;
  /** Rejects with `store_unavailable` when the database does not answer. */
  ping(): Promise<void>;
  /** Waits for running work, then closes every connection. May be repeated. */
  close(): Promise<void>;
}

/** The resources store cannot be opened; the message is one sentence with the remedy. */
export class ResourcesStartError extends Error {
  /** The reason alone, without addresses and names. */
  readonly reason: string;
  /** What to do, in a sentence. */
  readonly remedy: string;
  /** True when waiting does not help: a setting has to be changed, here or on the server. */
  readonly lasting: boolean;

  constructor(label: string, { reason, remedy, lasting }: Finding, cause: unknown) {
    super(`the resources store (${label}) cannot be opened: ${reason}. ${remedy}`, { cause });
    this.name = 'ResourcesStartError';
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

/** The oldest server whose features the statements use. */
const oldestMajor = 15;
const setting = 'storage.resources.url';
const certificateCodes = /CERT|SELF_SIGNED|UNABLE_TO_(GET|VERIFY)|ALTNAME|ERR_SSL|ERR_TLS/;

/** Throws when a server is too old for the statements; `version` is its `server_version_num`. */
function checkVersion(label: string, version: number): void {
  const major = Math.floor(version / 10_000);
  if (major >= oldestMajor) return;
  const reason = `the server runs PostgreSQL ${major}, and ${oldestMajor} or newer is needed`;
  const remedy = `Upgrade it, or name another server in ${setting}.`;
  throw new ResourcesStartError(label, { reason, remedy, lasting: true }, undefined);
}

/** Error for a failed opening. */
function explainStart(label: string, error: unknown): ResourcesStartError {
  if (error instanceof ResourcesStartError) return error;
  return new ResourcesStartError(label, find(error), error);
}

function find(error: unknown): Finding {
  if (error instanceof SchemaMismatch)
    return { reason: error.message, remedy: 'Nothing was changed in it.', lasting: true };
  const inner = error instanceof MigrationFailed ? error.cause : error;
  if (inner instanceof pg.DatabaseError && inner.code !== undefined) {
    const { code } = inner;
    const known = answers[code] ?? answers[code.slice(0, 2)];
    const [reason, remedy, lasting = true] = known ?? [
      error instanceof MigrationFailed ? error.message : 'it refuses a statement',
      `See the server's log.`,
      error instanceof MigrationFailed,
    ];
    return { reason: `${reason} (error ${code})`, remedy, lasting };
  }
  return unanswered(inner instanceof Error ? inner : new Error(String(inner)));
}

/** By code or by class of codes: the reason, the remedy, and whether waiting is useless (default). */
const answers: Readonly<Record<string, readonly [string, string, boolean?]>> = {
  '28000': [
    'it does not let this user in from here',
    `Check the user in ${setting} and the server's pg_hba.conf; a server that wants TLS needs ?sslmode=verify-full.`,
  ],
  '28': ['it refuses the user or the password', `Check both in ${setting}.`],
  '3D': [
    'there is no such database',
    `Create it (CREATE DATABASE), or name another one at the end of ${setting}.`,
  ],
  '42501': [
    'the user lacks a right that is needed',
    'Make the user owner of the database, or GRANT CREATE, USAGE ON SCHEMA public to it.',
  ],
  '55P03': [
    'another gateway has been changing its schema for a minute',
    'Look whether that one hangs.',
    false,
  ],
  '53': ['it has no connection or memory left', 'Raise max_connections, or stop other clients.', false],
  '57': ['it is starting or stopping', 'Wait for it.', false],
};

function unanswered(error: Error): Finding {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (certificateCodes.test(code)) {
    return {
      reason: `its certificate is not accepted (${code})`,
      remedy: `Name the authority that signed it in storage.resources.ca_file, and the host as the certificate does in ${setting}.`,
      lasting: true,
    };
  }
  if (error.message === 'The server does not support SSL connections') {
    return { reason: 'it speaks no TLS', remedy: `Write ?sslmode=disable in ${setting}.`, lasting: true };
  }
  return { reason: reasonOf(error), remedy: `Check that it runs, and ${setting}.`, lasting: false };
}

const uniqueViolation = '23505';
/**
 * Classes of errors that are transient, or that need a repair of the server: connection, authorisation, no such
 * database, transaction conflicts, resources, operator, system, and a server that accepts no writes now.
 */
const awayClasses = new Set(['08', '28', '3D', '40', '53', '55', '57', '58', 'F0']);
/** A text that no column can hold: NUL, or an unpaired surrogate in JSON. */
const unusableText = new Set(['22021', '22P02', '22P05']);
const awayCodes = new Set(['25006', '25P03', '25P04']);

/** The error of a driver or of the database, without drizzle's wrapper; undefined for anything else. */
function driverError(error: unknown): Error | undefined {
  if (!(error instanceof DrizzleQueryError)) return error instanceof pg.DatabaseError ? error : undefined;
  return error.cause instanceof Error ? error.cause : new Error('the statement failed');
}

/** The unique index or constraint that refused a row, or undefined for any other error. */
function violatedConstraint(error: unknown): string | undefined {
  const cause = GatewayError.is(error) ? error.cause : undefined;
  return cause instanceof StatementRefused && cause.code === uniqueViolation ? cause.constraint : undefined;
}

/**
 * The part of a database error that is kept: its place, never a value. Statements, parameters and details may hold
 * secrets.
 */
class StatementRefused extends Error {
  readonly code: string;
  readonly constraint: string | undefined;

  constructor(error: pg.DatabaseError) {
    const place = [error.schema, error.table, error.column].filter(Boolean).join('.');
    super(`error ${error.code ?? 'without a number'}${place === '' ? '' : ` at ${place}`}`);
    this.name = 'StatementRefused';
    this.code = error.code ?? '';
    this.constraint = error.constraint;
  }
}

/** The caller's error for an error of the driver (`driverError`). `committing`: a commit had been sent. */
function storeError(error: Error, committing = false): GatewayError {
  if (!(error instanceof pg.DatabaseError)) {
    return unavailable(
      committing
        ? 'the connection was lost while a change was committed: look whether it took effect before trying again'
        : reasonOf(error),
    );
  }
  const cause = new StatementRefused(error);
  const { code } = cause;
  if (code === uniqueViolation)
    return new GatewayError('already_exists', 'A record with the same name or id exists already.', { cause });
  if (unusableText.has(code)) {
    const message = 'A text holds a character that cannot be stored: NUL, or half of a surrogate pair.';
    return new GatewayError('invalid_request', message, { cause });
  }
  if (code === '57014') return unavailable('the statement took too long and was stopped', cause);
  if (code.startsWith('40')) return unavailable('two changes got in each other’s way; try again', cause);
  if (awayClasses.has(code.slice(0, 2)) || awayCodes.has(code))
    return unavailable(`it answered with error ${code}`, cause);
  return new GatewayError('internal', `The resources store refused a statement: ${cause.message}.`, {
    cause,
  });
}

/** The store is unreachable, or cannot serve the request now. */
function unavailable(reason: string, cause?: Error): GatewayError {
  return new GatewayError('store_unavailable', `The resources store is not available: ${reason}.`, { cause });
}

/** A connection error has a system code, or a driver sentence without request data. */
function reasonOf(error: Error): string {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  if (code !== undefined) return `the connection failed (${code})`;
  return /time(d )?out/i.test(error.message) ? 'it did not answer in time' : 'the connection was lost';
}
