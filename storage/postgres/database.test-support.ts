import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { sql } from 'drizzle-orm';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { testClock } from '../embedded/chdb-fixture.ts';
import type { Database, Statements } from './database.ts';
import type { Migration } from './migrate.ts';

/** A table of things with a unique name, and a function `twice`. */
export const migrations: readonly Migration[] = [
  {
    id: 1,
    name: '0001-things.sql',
    sha256: 'one',
    readableFrom: 0,
    sql: `CREATE TABLE things (name text CONSTRAINT things_name_taken PRIMARY KEY, size int CHECK (size > 0));
      CREATE FUNCTION twice(n int) RETURNS int LANGUAGE sql AS $$ SELECT 2 * n; $$;`,
  },
];

/**
 * Call it in every file: the timers of the store do not keep the process alive, and there is no gateway server here.
 */
export function keepAlive(): void {
  let heartbeat: NodeJS.Timeout;
  before(() => void (heartbeat = setInterval(() => undefined, 1000)));
  after(() => clearInterval(heartbeat));
}

/** The `GatewayError` that a promise rejects with. */
export async function failure(promise: Promise<unknown>): Promise<GatewayError> {
  const error: unknown = await promise.then(
    () => assert.fail('nothing failed'),
    (thrown: unknown) => thrown,
  );
  assert.ok(GatewayError.is(error), String(error));
  return error;
}

/** Stores a thing. */
export const insert =
  (name: string, size = 1) =>
  (statements: Statements) =>
    statements.execute(sql`INSERT INTO things VALUES (${name}, ${size})`);

/** Number of things. */
export async function count(database: Database): Promise<unknown> {
  const result = await database.query((statements) =>
    statements.execute(sql`SELECT count(*)::int AS n FROM things`),
  );
  return result.rows[0]?.['n'];
}

/** A clock whose waits are shorter by this factor. */
export function hastyClock(factor: number): Clock {
  return { ...testClock, after: (ms, run) => testClock.after(ms / factor, run) };
}
