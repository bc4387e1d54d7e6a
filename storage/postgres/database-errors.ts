import { DrizzleQueryError } from 'drizzle-orm';
import pg from 'pg';
import { GatewayError } from '../../core/errors/gateway-error.ts';

const uniqueViolation = '23505';
/**
 * Classes of errors that pass, or that somebody has to mend on the server: connection, authorisation, no such
 * database, conflicts between transactions, resources, operator, system, and a server that takes no writes now.
 */
const awayClasses = new Set(['08', '28', '3D', '40', '53', '55', '57', '58', 'F0']);
/** A text that no column holds: NUL, or half of a surrogate pair in JSON. */
const unusableText = new Set(['22021', '22P02', '22P05']);
const awayCodes = new Set(['25006', '25P03', '25P04']);

/** The error of a driver or of the database, without what drizzle puts around it; undefined for anything else. */
export function driverError(error: unknown): Error | undefined {
  if (!(error instanceof DrizzleQueryError)) return error instanceof pg.DatabaseError ? error : undefined;
  return error.cause instanceof Error ? error.cause : new Error('the statement failed');
}

/** True when the database itself answered, so that its connection can be used further. */
export function isAnswer(error: Error): boolean {
  return error instanceof pg.DatabaseError && error.severity !== 'FATAL' && error.severity !== 'PANIC';
}

/** The unique index or constraint that refused a row, or undefined for any other error. */
export function violatedConstraint(error: unknown): string | undefined {
  const cause = GatewayError.is(error) ? error.cause : undefined;
  return cause instanceof StatementRefused && cause.code === uniqueViolation ? cause.constraint : undefined;
}

/** What remains of an error of the database: its place, never a value. Statements, parameters and details may hold secrets. */
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

/** What a caller of the store gets for an error of the driver (`driverError`). `committing`: it was sent a commit. */
export function storeError(error: Error, committing = false): GatewayError {
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

/** The store cannot be reached, or cannot do what it is asked now. */
export function unavailable(reason: string, cause?: Error): GatewayError {
  return new GatewayError('store_unavailable', `The resources store is not available: ${reason}.`, { cause });
}

/** A connection's error has a code of the system, or a sentence of the driver that holds nothing of ours. */
export function reasonOf(error: Error): string {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  if (code !== undefined) return `the connection failed (${code})`;
  return /time(d )?out/i.test(error.message) ? 'it did not answer in time' : 'the connection was lost';
}
