/** A real Redis server for tests: on loopback, with a folder of its own, keeping nothing. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Clock } from '../../core/ports/clock.ts';
import { freePort } from './free-port.ts';
import { eventually } from './process-kit.ts';

const required = process.env['WEIR_REQUIRE_SERVERS'] === '1';
const absence =
  spawnSync('redis-server', ['--version']).status === 0
    ? false
    : 'redis-server is not installed (Debian package redis-server)';

/** Why suites that need the server are skipped; false when it is there, or when WEIR_REQUIRE_SERVERS=1 forbids skipping. */
export const redisMissing: string | false = required ? false : absence;

/**
 * The machine's clock, slowed down: a bound of 50 ms is one of 50 ms × `factor`, so that a busy machine misses none
 * that the test is not about.
 */
export function patientClock(factor = 100): Clock {
  return {
    now: () => Date.now(),
    monotonic: () => performance.now() / factor,
    after(ms, run) {
      const timer = setTimeout(run, ms * factor);
      return () => clearTimeout(timer);
    },
  };
}

/** Time of this process alone: however busy the machine is, a bound is one on the time in which it could do something. */
export class FreeTime {
  #passed = 0;
  #at = performance.now();
  readonly #timer = setInterval(() => {
    const now = performance.now();
    // A tick, and a late one: the rest was the machine's.
    this.#passed += Math.min(now - this.#at, 30);
    this.#at = now;
  }, 10);

  /** Milliseconds since it was made. */
  now(): number {
    return this.#passed;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

/** One server. */
export interface RedisServer {
  readonly port: number;
  /** `redis://127.0.0.1:PORT`. */
  readonly url: string;
  /** Hangs the process: it takes connections and answers nothing. */
  pause(): void;
  resume(): void;
  /** Ends the process at once. */
  kill(): Promise<void>;
  /** Starts it again, empty, on the same port. */
  start(): Promise<void>;
  /** Ends the process and deletes its folder. */
  stop(): Promise<void>;
}

const alive = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of alive) child.kill('SIGKILL');
});

/**
 * Starts a server with more arguments (`--requirepass`, …), which may depend on the port. Fails with its output when
 * it does not come up.
 */
export async function startRedis(
  args: readonly string[] | ((port: number) => readonly string[]) = [],
): Promise<RedisServer> {
  if (absence !== false) throw new Error(`${absence}, and WEIR_REQUIRE_SERVERS=1 lets no suite be skipped.`);
  const folder = mkdtempSync(path.join(os.tmpdir(), 'weir-redis-'));
  const port = await freePort();
  const more = typeof args === 'function' ? args(port) : args;
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    const fixed = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder];
    const started = spawn('redis-server', [...fixed, '--save', '', '--appendonly', 'no', ...more], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child = started;
    alive.add(started);
    started.once('exit', () => alive.delete(started));
    started.once('error', () => alive.delete(started));
    let output = '';
    started.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
    started.stderr.setEncoding('utf8').on('data', (text: string) => (output += text));
    await eventually(
      () => (output.includes('Ready to accept connections') ? true : undefined),
      () => `a Redis server on port ${port}; it said:\n${output}`,
    );
  }

  async function kill(): Promise<void> {
    if (child === undefined || !alive.has(child)) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  async function stop(): Promise<void> {
    await kill();
    rmSync(folder, { recursive: true, force: true });
  }

  await start().catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    kill,
    start,
    stop,
    pause: () => void child?.kill('SIGSTOP'),
    resume: () => void child?.kill('SIGCONT'),
  };
}
