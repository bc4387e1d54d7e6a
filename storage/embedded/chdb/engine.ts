import { setTimeout as delay } from 'node:timers/promises';
import type { Session } from 'chdb';
import { EngineError, engineErrors, type Statement } from './statement.ts';

/** One statement with the settings of its HTTP request. */
export interface EngineRequest {
  readonly statement: Statement;
  /** Rows of an insert; empty for every other statement. */
  readonly data: Buffer;
  readonly database: string;
  readonly settings: ReadonlyMap<string, string>;
  /** Values of placeholders in the client's escaping (tab-separated escapes). */
  readonly parameters: ReadonlyMap<string, string>;
  readonly queryId: string;
  /** Format of the result when the statement names none. */
  readonly format: string;
}

/** Result of a statement. */
export interface EngineReply {
  readonly bytes: Buffer;
  readonly readRows: number;
  readonly readBytes: number;
  readonly writtenRows: number;
  readonly writtenBytes: number;
}

/**
 * One connection to the engine, used by one request at a time. Settings and parameters are `SET` before the statement
 * and reset after it, so they apply to every kind of statement and leak into no other; the engine itself binds
 * parameter values, which never become part of the statement's text.
 */
class EngineSession {
  readonly #session: Session;
  readonly #baseline: ReadonlyMap<string, string>;
  #database = 'default';
  /** Assignments that reset the settings of the last request. */
  #leftover: readonly string[] = [];

  constructor(session: Session, baseline: ReadonlyMap<string, string>) {
    this.#session = session;
    this.#baseline = baseline;
  }

  /** Applies the session's default settings. */
  async prepare(): Promise<void> {
    const assignments = [...this.#baseline].map(([name, value]) => `${name}=${sqlString(value)}`);
    if (assignments.length > 0) await this.command(`SET ${assignments.join(', ')}`);
  }

  /** Runs one request. `mark` identifies the statement (`log_comment`) for a kill. */
  async run(request: EngineRequest, mark: string, signal: AbortSignal): Promise<EngineReply> {
    await this.#restore();
    await this.#useDatabase(request.database);
    this.#leftover = this.#restoring(request);
    try {
      await this.command(`SET ${assignments(request, mark).join(', ')}`);
      signal.throwIfAborted();
      return await this.#execute(request);
    } finally {
      // A failure here must not hide the result of the statement; the next request retries before it starts.
      await this.#restore().catch(() => undefined);
    }
  }

  /** An internal statement, without a result. */
  async command(sql: string): Promise<void> {
    await this.#session.queryAsync(sql, { format: 'Null' });
  }

  close(): void {
    this.#session.close();
  }

  async #execute(request: EngineRequest): Promise<EngineReply> {
    const { statement, data } = request;
    if (statement.insert === undefined) {
      const result = await this.#session.queryAsync(statement.sql, { format: request.format });
      const bytes = result.bytes();
      return {
        bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength),
        readRows: result.rowsRead,
        readBytes: result.bytesRead,
        writtenRows: 0,
        writtenBytes: 0,
      };
    }
    const { table, columns, format } = statement.insert;
    const summary = await this.#session.insert({
      table,
      values: data,
      format: format as 'JSONEachRow', // the engine's own list of formats decides
      ...(columns === undefined ? {} : { columns }),
    });
    const { rowsWritten, bytesWritten } = summary;
    return {
      bytes: Buffer.alloc(0),
      readRows: 0,
      readBytes: 0,
      writtenRows: rowsWritten,
      writtenBytes: bytesWritten,
    };
  }

  async #useDatabase(database: string): Promise<void> {
    if (this.#database === database) return;
    await this.command(`USE ${sqlName(database)}`);
    this.#database = database;
  }

  #restoring(request: EngineRequest): string[] {
    const settings = [...request.settings.keys()].map((name) => {
      const value = this.#baseline.get(name);
      return `${name}=${value === undefined ? 'DEFAULT' : sqlString(value)}`;
    });
    // A parameter cannot be unset. It is emptied, and statements with a placeholder but no value are refused earlier.
    const parameters = [...request.parameters.keys()].map((name) => `param_${name}=''`);
    // Never empty: the engine lists a statement as running until its session gets another one.
    return ["log_comment=''", ...settings, ...parameters];
  }

  async #restore(): Promise<void> {
    if (this.#leftover.length === 0) return;
    try {
      await this.command(`SET ${this.#leftover.join(', ')}`);
    } catch {
      for (const assignment of this.#leftover) await this.#restoreOne(assignment);
    }
    this.#leftover = [];
  }

  /** An unknown setting was never set, so there is nothing to reset. */
  async #restoreOne(assignment: string): Promise<void> {
    try {
      await this.command(`SET ${assignment}`);
    } catch (error) {
      if (engineErrors.code(error) !== 115) throw error;
    }
  }
}

function assignments(request: EngineRequest, mark: string): string[] {
  return [
    `log_comment=${sqlString(mark)}`,
    ...[...request.settings].map(([name, value]) => `${name}=${sqlString(value)}`),
    ...[...request.parameters].map(([name, value]) => `param_${name}=${sqlString(value)}`),
  ];
}

interface Waiting<T> {
  readonly resolve: (session: T) => void;
  readonly reject: (error: Error) => void;
}

/** Lends sessions, each to one caller at a time, in order of request. The queue of callers is bounded. */
export class SessionPool<T> {
  readonly #free: T[];
  readonly #waiting: Waiting<T>[] = [];
  readonly #maxWaiting: number;
  #busy = 0;
  #closed = false;
  #whenIdle: (() => void) | undefined;

  constructor(sessions: readonly T[], maxWaiting: number) {
    this.#free = [...sessions];
    this.#maxWaiting = maxWaiting;
  }

  /** Runs `work` with a session of its own. Throws an `EngineError` 202 when too many wait, or after `close`. */
  async use<R>(work: (session: T) => Promise<R>): Promise<R> {
    const session = await this.#take();
    try {
      return await work(session);
    } finally {
      this.#give(session);
    }
  }

  /** Refuses all waiting callers and resolves when the last caller is done. */
  close(): Promise<void> {
    this.#closed = true;
    for (const { reject } of this.#waiting.splice(0)) reject(stopping());
    if (this.#busy === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#whenIdle = resolve;
    });
  }

  #take(): Promise<T> {
    if (this.#closed) return Promise.reject(stopping());
    const session = this.#free.pop();
    if (session !== undefined) {
      this.#busy += 1;
      return Promise.resolve(session);
    }
    if (this.#waiting.length >= this.#maxWaiting) {
      const message = `${this.#maxWaiting} statements wait already. Try again later.`;
      return Promise.reject(new EngineError(202, 'TOO_MANY_SIMULTANEOUS_QUERIES', message));
    }
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  #give(session: T): void {
    const next = this.#waiting.shift();
    if (next !== undefined) return next.resolve(session);
    this.#free.push(session);
    this.#busy -= 1;
    if (this.#busy === 0) this.#whenIdle?.();
  }
}

function stopping(): EngineError {
  return new EngineError(439, 'CANNOT_SCHEDULE_TASK', 'The embedded engine is stopping.');
}

/** Settings for opening the engine. */
export interface EngineOptions {
  readonly directory: string;
  readonly memory: EngineMemory;
  /** Concurrent statements: raw inserts, and separately everything else. */
  readonly sessions: { readonly inserts: number; readonly queries: number };
  /** XML file with settings that the engine reads at its start only. */
  readonly configFile: string;
}

/** Memory limits of the engine, bytes. */
interface EngineMemory {
  /** All statements, merges and caches together. */
  readonly engine: number;
  /** One raw insert, and the default of one other statement. */
  readonly insert: number;
  readonly query: number;
}

/** The parts of the chdb package that are used. */
export interface ChdbModule {
  readonly Session: new (path: string, options: { connectionArgs: string[] }) => Session;
  readonly drainPending: () => Promise<void>;
}

interface Sessions {
  readonly control: readonly EngineSession[];
  readonly inserts: readonly EngineSession[];
  readonly queries: readonly EngineSession[];
}

const maxWaiting = 128;
const maxResultBytes = 128 * 1024 * 1024;
const killEveryMs = 200;

/**
 * The embedded engine: sessions on one data folder for raw inserts, others for queries, so that neither waits for the
 * other, and one more that kills abandoned statements.
 */
export class Engine {
  readonly #module: ChdbModule;
  readonly #sessions: readonly EngineSession[];
  readonly #inserts: SessionPool<EngineSession>;
  readonly #queries: SessionPool<EngineSession>;
  readonly #control: SessionPool<EngineSession>;
  readonly #stop = new AbortController();
  #serial = 0;

  private constructor(module: ChdbModule, sessions: Sessions) {
    this.#module = module;
    this.#sessions = [...sessions.inserts, ...sessions.queries, ...sessions.control];
    this.#inserts = new SessionPool(sessions.inserts, maxWaiting);
    this.#queries = new SessionPool(sessions.queries, maxWaiting);
    this.#control = new SessionPool(sessions.control, maxWaiting);
  }

  /** Opens the folder. Throws the engine's error when it is damaged or in use. */
  static async open(module: ChdbModule, options: EngineOptions): Promise<Engine> {
    const { directory, memory, configFile, sessions } = options;
    const connectionArgs = [`--config-file=${configFile}`, `--max_server_memory_usage=${memory.engine}`];
    const open = async (count: number, bytes: number): Promise<EngineSession[]> => {
      const baseline = new Map([
        ['max_execution_time', '60'],
        ['max_memory_usage', String(bytes)],
        ['max_result_bytes', String(maxResultBytes)],
        ['result_overflow_mode', 'throw'],
      ]);
      const opened = Array.from(
        { length: count },
        () => new EngineSession(new module.Session(directory, { connectionArgs }), baseline),
      );
      for (const session of opened) await session.prepare();
      return opened;
    };
    return new Engine(module, {
      control: await open(1, memory.query),
      inserts: await open(sessions.inserts, memory.insert),
      queries: await open(sessions.queries, memory.query),
    });
  }

  /** Runs one statement when a session is free. Aborting `signal` kills it, also inside the engine. */
  run(request: EngineRequest, signal: AbortSignal): Promise<EngineReply> {
    const pool = request.statement.insert === undefined ? this.#queries : this.#inserts;
    return pool.use(async (session) => {
      const ended = AbortSignal.any([signal, this.#stop.signal]);
      if (ended.aborted) throw cancelled();
      this.#serial += 1;
      const mark = `${request.queryId}/${this.#serial}`;
      let settled = false;
      const kill = (): void => void this.#kill(mark, () => settled);
      ended.addEventListener('abort', kill, { once: true });
      try {
        return await session.run(request, mark, ended);
      } catch (error) {
        throw ended.aborted && !(error instanceof EngineError) ? cancelled(error) : error;
      } finally {
        settled = true;
        ended.removeEventListener('abort', kill);
      }
    });
  }

  /** Lets running statements finish for `graceMs`, kills the others, and closes the folder. */
  async close(graceMs: number): Promise<void> {
    const grace = new AbortController();
    const idle = Promise.all([this.#inserts.close(), this.#queries.close()]).then(() => grace.abort());
    await delay(graceMs, undefined, { signal: grace.signal }).catch(() => undefined);
    this.#stop.abort();
    await idle;
    await this.#control.close();
    for (const session of this.#sessions) session.close();
    await this.#module.drainPending();
  }

  /** The statement may not be in the engine's list yet, hence more than one attempt. */
  async #kill(mark: string, isSettled: () => boolean): Promise<void> {
    while (!isSettled()) {
      const sql = `KILL QUERY WHERE Settings['log_comment'] = ${sqlString(mark)} ASYNC`;
      await this.#control.use((session) => session.command(sql)).catch(() => undefined);
      await delay(killEveryMs);
    }
  }
}

function cancelled(cause?: unknown): EngineError {
  const error = new EngineError(394, 'QUERY_WAS_CANCELLED', 'Query was cancelled.');
  error.cause = cause;
  return error;
}

/** A string literal of the engine. Only a backslash or quote could end it; NUL must not reach the C boundary. */
function sqlString(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'").replaceAll('\0', '\\0')}'`;
}

/** A quoted identifier of the engine. */
function sqlName(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`').replaceAll('\0', '\\0')}\``;
}
