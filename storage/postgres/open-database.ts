import { sql } from 'drizzle-orm';
import pg from 'pg';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { ChangeListener, Connections, type Progress } from './connections.ts';
import type { Database, Statements, TransactionOptions } from './database.ts';
import { migrate, type Migration, readMigrations } from './migrate.ts';
import type { PostgresPlace } from './postgres-address.ts';
import { checkVersion, explainStart } from './database-errors.ts';

/** The embedded engine: PostgreSQL's protocol on a socket, with one shared session. */
export interface EmbeddedPlace {
  /** The folder of the socket `.s.PGSQL.5432`. */
  readonly socketFolder: string;
  /** Replaces the engine's process; called when it accepts statements and does not answer. */
  replace(): void;
}

/** Options of `openDatabase`. */
export interface DatabaseOptions {
  readonly place: PostgresPlace | EmbeddedPlace;
  readonly log: Log;
  readonly clock: Clock;
  /** Default: the migrations of this version. */
  readonly migrations?: readonly Migration[];
  /** Longest wait for an unavailable server, milliseconds. Default 30,000. */
  readonly patienceMs?: number;
  /** Timeout of an answer, milliseconds. Default 20,000; a server itself ends a statement after 15,000. */
  readonly answerTimeoutMs?: number;
}

const connectTimeoutMs = 5000;
const statementTimeoutMs = 15_000;
const answerTimeout = 20_000;
const idleTransactionMs = 15_000;
const poolSize = 10;
const startPatienceMs = 30_000;
const startRetryMs = 500;
/** The embedded engine is back within a second or two after its process has ended. */
const enginePatienceMs = 5000;

/**
 * Opens the relational store and migrates its schema. Waits for a server that is unavailable or starting. Throws one
 * sentence with the remedy when it cannot be opened.
 */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const { place, log, clock } = options;
  const label = 'label' in place ? place.label : 'embedded';
  await prepare(label, options);
  const onStuck = (): void => {
    if ('label' in place) return;
    log.error('The embedded resources engine answers nothing and is replaced');
    place.replace();
  };
  const patienceMs = 'label' in place ? 0 : enginePatienceMs;
  const connections = new Connections({ settings: poolSettings(options), log, clock, patienceMs, onStuck });
  const listener = new ChangeListener({
    connection: 'label' in place ? clientSettings(place) : undefined,
    log,
    clock,
  });
  return new OpenDatabase(connections, listener, !('label' in place));
}

class OpenDatabase implements Database {
  readonly embedded: boolean;
  readonly #connections: Connections;
  readonly #listener: ChangeListener;
  #closing: Promise<void> | undefined;

  constructor(connections: Connections, listener: ChangeListener, embedded: boolean) {
    this.#connections = connections;
    this.#listener = listener;
    this.embedded = embedded;
  }

  get isBusy(): boolean {
    return this.#connections.isBusy;
  }

  query<T>(work: (statements: Statements) => Promise<T>): Promise<T> {
    return this.#connections.use(work);
  }

  async transaction<T>(
    work: (statements: Statements) => Promise<T>,
    { readOnly = false, notify }: TransactionOptions = {},
  ): Promise<T> {
    const result = await this.#connections.use(async (statements, progress) => {
      await statements.execute(
        readOnly
          ? sql`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`
          : sql`BEGIN ISOLATION LEVEL READ COMMITTED`,
      );
      try {
        const value = await work(statements);
        if (notify !== undefined && !this.embedded)
          await statements.execute(sql`SELECT pg_notify(${notify}, '')`);
        await commit(statements, progress);
        return value;
      } catch (error) {
        // After a lost connection there is nothing to roll back, and the first error has the reason.
        if (!progress.committing) await statements.execute(sql`ROLLBACK`).catch(() => undefined);
        throw error;
      }
    });
    // At once for this process; a server notifies the others, and this one once more.
    if (notify !== undefined) this.#listener.tell(notify);
    return result;
  }

  listen(channel: string, look: () => void): () => void {
    return this.#listener.listen(channel, look);
  }

  async ping(): Promise<void> {
    await this.query((statements) => statements.execute(sql`SELECT 1`));
  }

  close(): Promise<void> {
    this.#closing ??= this.#listener.close().then(() => this.#connections.close());
    return this.#closing;
  }
}

/** After a failed statement the database answers a commit with a silent rollback. */
async function commit(statements: Statements, progress: Progress): Promise<void> {
  progress.committing = true;
  const { command } = await statements.execute(sql`COMMIT`);
  if (command === 'COMMIT') return;
  throw new GatewayError(
    'internal',
    'A statement of a change had failed, so the resources store kept nothing of it.',
  );
}

/** Waits for the database, checks its version and applies missing migrations. */
async function prepare(label: string, options: DatabaseOptions): Promise<void> {
  const { place, log, clock, patienceMs = startPatienceMs } = options;
  const migrations = options.migrations ?? (await readMigrations());
  const deadline = clock.monotonic() + patienceMs;
  for (let attempt = 1; ; attempt += 1) {
    const client = new pg.Client(clientSettings(place));
    // The running statement reports the same error.
    client.on('error', () => undefined);
    try {
      await client.connect();
      // With a timeout of its own: a server that hangs right after connecting ends no statement.
      const version = { text: 'SHOW server_version_num', query_timeout: connectTimeoutMs };
      const { rows } = await client.query<{ server_version_num: string }>(version);
      checkVersion(label, Number(rows[0]?.server_version_num));
      return await migrate({ client, migrations, log, embedded: !('label' in place) });
    } catch (error) {
      const failure = explainStart(label, error);
      if (failure.lasting || clock.monotonic() >= deadline) throw failure;
      if (attempt === 1) log.warn(`Waiting for the resources store: ${failure.message}`);
    } finally {
      await client.end().catch(() => undefined);
    }
    await new Promise<void>((resolve) => clock.after(startRetryMs, resolve));
  }
}

/** Client settings for a place, with timeouts. */
export function clientSettings(place: PostgresPlace | EmbeddedPlace): pg.ClientConfig {
  const common = {
    connectionTimeoutMillis: connectTimeoutMs,
    application_name: 'weir',
    // A vanished host is noticed in minutes instead of hours, also on an idle connection.
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  };
  if ('label' in place) return { ...common, ...place.connection };
  return {
    ...common,
    host: place.socketFolder,
    port: 5432,
    user: 'postgres',
    database: 'postgres',
    ssl: false,
  };
}

function poolSettings({ place, answerTimeoutMs = answerTimeout }: DatabaseOptions): pg.PoolConfig {
  const settings = { ...clientSettings(place), query_timeout: answerTimeoutMs, idleTimeoutMillis: 30_000 };
  if (!('label' in place)) return { ...settings, max: 1 };
  return {
    ...settings,
    max: poolSize,
    statement_timeout: statementTimeoutMs,
    idle_in_transaction_session_timeout: idleTransactionMs,
  };
}
