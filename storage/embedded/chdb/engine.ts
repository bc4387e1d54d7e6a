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
  /** Memory that all statements together may take, bytes. */
  readonly memoryBytes: number;
  /** XML file with settings that the engine takes at start only. */
  readonly configFile: string;
}

/** The parts of the chdb package that are used. */
export interface ChdbModule {
  readonly Session: new (path: string, options: { connectionArgs: string[] }) => Session;
  readonly drainPending: () => Promise<void>;
}

const sessionCount = 4;
const maxWaiting = 128;
const maxResultBytes = 128 * 1024 * 1024;
const killEveryMs = 200;

/** The embedded engine: a few sessions on one data folder, and one more that ends statements nobody waits for. */
export class Engine {
  readonly #module: ChdbModule;
  readonly #sessions: readonly EngineSession[];
  readonly #pool: SessionPool<EngineSession>;
  readonly #control: SessionPool<EngineSession>;
  readonly #stop = new AbortController();
  #serial = 0;

  private constructor(module: ChdbModule, sessions: readonly EngineSession[]) {
    this.#module = module;
    this.#sessions = sessions;
    this.#pool = new SessionPool(sessions.slice(1), maxWaiting);
    this.#control = new SessionPool(sessions.slice(0, 1), maxWaiting);
  }

  /** Opens the folder. Throws what the engine throws when it is damaged or in use. */
  static async open(module: ChdbModule, options: EngineOptions): Promise<Engine> {
    const connectionArgs = [
      `--config-file=${options.configFile}`,
      `--max_server_memory_usage=${options.memoryBytes}`,
      '--mark_cache_size=33554432',
      '--primary_index_cache_size=33554432',
    ];
    const baseline = new Map([
      ['max_execution_time', '60'],
      ['max_memory_usage', String(Math.floor(options.memoryBytes * 0.6))],
      ['max_result_bytes', String(maxResultBytes)],
      ['result_overflow_mode', 'throw'],
    ]);
    const sessions = Array.from(
      { length: sessionCount + 1 },
      () => new EngineSession(new module.Session(options.directory, { connectionArgs }), baseline),
    );
    for (const session of sessions) await session.prepare();
    return new Engine(module, sessions);
  }

  /** Runs one statement when a session is free. Aborting `signal` ends it, also inside the engine. */
  run(request: EngineRequest, signal: AbortSignal): Promise<EngineReply> {
    return this.#pool.use(async (session) => {
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
    const idle = this.#pool.close().then(() => grace.abort());
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
