import { setTimeout as delay } from 'node:timers/promises';
import type { Session } from 'chdb';
import { EngineError } from './engine-error.ts';
import { EngineSession, type EngineReply } from './engine-session.ts';
import type { EngineRequest } from './http-request.ts';
import { SessionPool } from './session-pool.ts';
import { sqlString } from './sql-literal.ts';

/** What opening the engine needs. */
export interface EngineOptions {
  readonly directory: string;
  readonly memory: EngineMemory;
  /** Statements that run at the same time: raw inserts, and apart from them everything else. */
  readonly sessions: { readonly inserts: number; readonly queries: number };
  /** XML file with settings that the engine takes at start only. */
  readonly configFile: string;
}

/** What the engine may take, bytes. */
export interface EngineMemory {
  /** All statements, merges and caches together. */
  readonly engine: number;
  /** One raw insert, and one other statement that says nothing else. */
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
 * The embedded engine: sessions on one data folder for raw inserts, others for queries, so that none waits for the
 * other, and one more that ends statements nobody waits for.
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

  /** Opens the folder. Throws what the engine throws when it is damaged or in use. */
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

  /** Runs one statement when a session is free. Aborting `signal` ends it, also inside the engine. */
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

  /** Lets running statements finish for `graceMs`, ends the others, and leaves the folder in order. */
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

  /** The statement may not have reached the engine's list yet, hence more than one attempt. */
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
