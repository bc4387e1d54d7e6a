import { sql } from 'drizzle-orm';
import pg from 'pg';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { migrate, type Migration, readMigrations } from './migrate.ts';
import type { PostgresPlace } from './postgres-address.ts';
import { type Database, databaseErrors, type Statements, type TransactionOptions } from './database.ts';
import { drizzle } from 'drizzle-orm/node-postgres';
import { randomInt } from 'node:crypto';

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
  /** True for a reader, which changes no schema: a store without all migrations is refused. Default false. */
  readonly onlyReads?: boolean;
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
  const { place, log, clock, patienceMs = startPatienceMs, onlyReads = false } = options;
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
      databaseErrors.checkVersion(label, Number(rows[0]?.server_version_num));
      return await migrate({ client, migrations, log, embedded: !('label' in place), onlyReads });
    } catch (error) {
      const failure = databaseErrors.explainStart(label, error);
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

/** Options of `ChangeListener`. */
interface ChangeListenerOptions {
  /** A server to LISTEN on; undefined when only this process writes. */
  readonly connection: pg.ClientConfig | undefined;
  readonly log: Log;
  readonly clock: Clock;
}

const firstRetryMs = 250;
const longestRetryMs = 10_000;

/** Subscribers by channel, and the connection that receives notifications of other processes. */
class ChangeListener {
  readonly #options: ChangeListenerOptions;
  readonly #looks = new Map<string, Set<() => void>>();
  #client: pg.Client | undefined;
  #listening = false;
  #closed = false;
  #failures = 0;
  #cancelRetry: () => void = () => undefined;

  constructor(options: ChangeListenerOptions) {
    this.#options = options;
  }

  /** Calls `look` for every notification of the channel, and whenever some may have been missed. */
  listen(channel: string, look: () => void): () => void {
    let looks = this.#looks.get(channel);
    if (looks === undefined) {
      looks = new Set();
      this.#looks.set(channel, looks);
      if (this.#client === undefined) void this.#connect();
      else if (this.#listening) this.#subscribe(this.#client, channel).catch(() => this.#client?.end());
    }
    looks.add(look);
    return () => looks.delete(look);
  }

  /** Notifies the subscribers in this process. */
  tell(channel: string): void {
    for (const look of this.#looks.get(channel) ?? []) look();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelRetry();
    this.#looks.clear();
    await this.#client?.end().catch(() => undefined);
  }

  async #connect(): Promise<void> {
    const { connection, log } = this.#options;
    if (connection === undefined || this.#closed) return;
    const client = new pg.Client(connection);
    this.#client = client;
    let reason = 'the connection was closed';
    client.on('error', (error) => {
      reason = databaseErrors.reason(error);
    });
    client.once('end', () => this.#retry(client, reason));
    client.on('notification', ({ channel }) => this.tell(channel));
    try {
      await client.connect();
      for (const channel of this.#looks.keys()) await this.#subscribe(client, channel);
    } catch (error) {
      reason = error instanceof Error ? databaseErrors.reason(error) : reason;
      await client.end().catch(() => undefined);
      return this.#retry(client, reason);
    }
    this.#listening = true;
    if (this.#failures > 0) log.info('Changes of other gateways are heard of at once again');
    this.#failures = 0;
    // Notifications before this moment were missed.
    for (const channel of this.#looks.keys()) this.tell(channel);
  }

  async #subscribe(client: pg.Client, channel: string): Promise<void> {
    await client.query(`LISTEN ${client.escapeIdentifier(channel)}`);
  }

  #retry(client: pg.Client, reason: string): void {
    if (this.#closed || this.#client !== client) return;
    this.#client = undefined;
    this.#listening = false;
    const { clock, log } = this.#options;
    if (this.#failures === 0)
      log.warn('Changes of other gateways are heard of late: no connection that listens', { reason });
    const most = Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(this.#failures, 10));
    this.#failures += 1;
    // Between half of it and all of it, so that many gateways do not return at the same moment.
    this.#cancelRetry = clock.after((most * randomInt(500, 1001)) / 1000, () => void this.#connect());
  }
}

/** Options of `Connections`. */
interface ConnectionsOptions {
  readonly settings: pg.PoolConfig;
  readonly log: Log;
  readonly clock: Clock;
  /** Milliseconds during which a refused connection is retried: the embedded engine is being replaced. */
  readonly patienceMs: number;
  /** Called when the other side accepts a connection or a statement and does not answer. */
  onStuck(): void;
}

/** Progress of one use of a connection. */
interface Progress {
  /** True once a commit has been sent: if the connection is then lost, the outcome is unknown. */
  committing: boolean;
}

const longestUseMs = 30_000;
const retryMs = 50;
/** Upper bound of callers that wait for a connection; more are refused at once. */
const maxWaiting = 1000;
const notThere = new Set(['ENOENT', 'ECONNREFUSED', 'ECONNRESET']);

/** Connections to one database, opened on demand and reused. A failure is a `GatewayError`. */
class Connections {
  readonly #options: ConnectionsOptions;
  readonly #pool: pg.Pool;
  readonly #statements = new WeakMap<pg.PoolClient, Statements>();

  constructor(options: ConnectionsOptions) {
    this.#options = options;
    this.#pool = new pg.Pool(options.settings);
    // A lost idle connection; the pool opens another one on demand.
    this.#pool.on('error', (error) =>
      options.log.warn('A connection to the resources store was lost', {
        reason: databaseErrors.reason(error),
      }),
    );
  }

  /** True while a connection is in use or requested. */
  get isBusy(): boolean {
    return this.#pool.idleCount < this.#pool.totalCount || this.#pool.waitingCount > 0;
  }

  /** Runs `work` on a connection of its own, for at most 30 seconds. */
  async use<T>(work: (statements: Statements, progress: Progress) => Promise<T>): Promise<T> {
    const client = await this.#checkOut();
    const progress: Progress = { committing: false };
    let broken: Error | undefined;
    const onError = (error: Error): void => {
      broken = error;
    };
    // Without a listener the loss of a connection would end the process.
    client.on('error', onError);
    try {
      // A statement runs each time its result is awaited, hence one promise for all readers.
      const running = Promise.resolve(work(this.#statementsOf(client), progress));
      return await this.#withinTime(running, () => {
        broken = new Error('cut off');
      });
    } catch (error) {
      const cause = databaseErrors.ofDriver(error);
      if (cause === undefined) throw error;
      if (!isAnswer(cause)) broken = cause;
      if (isTimeout(cause)) this.#options.onStuck();
      throw databaseErrors.ofStore(cause, progress.committing);
    } finally {
      client.off('error', onError);
      client.release(broken);
    }
  }

  /** Refuses new uses, waits for running ones, and closes the connections. */
  async close(): Promise<void> {
    await this.#pool.end();
  }

  async #checkOut(): Promise<pg.PoolClient> {
    const { clock, patienceMs, onStuck } = this.#options;
    if (this.#pool.ending) throw databaseErrors.unavailable('the gateway is stopping');
    if (this.#pool.waitingCount >= maxWaiting)
      throw databaseErrors.unavailable('too many callers wait for it');
    const deadline = clock.monotonic() + patienceMs;
    for (;;) {
      try {
        return await this.#pool.connect();
      } catch (error) {
        const cause = error instanceof Error ? error : new Error(String(error));
        const code = 'code' in cause ? String(cause.code) : '';
        if (!notThere.has(code) || clock.monotonic() >= deadline) {
          // A full pool reports `timeout exceeded`; this message means an unanswered handshake.
          if (cause.message.startsWith('Connection terminated due to')) onStuck();
          throw databaseErrors.ofStore(cause);
        }
      }
      await new Promise<void>((resolve) => clock.after(retryMs, resolve));
    }
  }

  #statementsOf(client: pg.PoolClient): Statements {
    let statements = this.#statements.get(client);
    if (statements === undefined) {
      statements = drizzle({ client });
      this.#statements.set(client, statements);
    }
    return statements;
  }

  /** Also ends work that hangs outside the database: a caller that never returns must not keep a connection. */
  async #withinTime<T>(work: Promise<T>, onLate: () => void): Promise<T> {
    let cancel: (() => void) | undefined;
    const late = new Promise<never>((_, reject) => {
      cancel = this.#options.clock.after(longestUseMs, () => {
        onLate();
        reject(
          databaseErrors.unavailable(`what was to be done took longer than ${longestUseMs / 1000} seconds`),
        );
      });
    });
    try {
      return await Promise.race([work, late]);
    } finally {
      cancel?.();
      work.catch(() => undefined);
    }
  }
}

function isTimeout(error: Error): boolean {
  return error.message === 'Query read timeout';
}

/** True when the database itself answered, so that its connection remains usable. */
function isAnswer(error: Error): boolean {
  return error instanceof pg.DatabaseError && error.severity !== 'FATAL' && error.severity !== 'PANIC';
}
