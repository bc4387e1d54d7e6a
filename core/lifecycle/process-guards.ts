import type { Log } from '../ports/log.ts';
import type { Metrics } from '../ports/metrics.ts';
import { describeThrown, pluginErrors } from './plugin-errors.ts';
import { Worker } from 'node:worker_threads';

/**
 * The exit code of a process that cannot continue and must be restarted (EX_SOFTWARE of sysexits.h): its event loop
 * stood still, or an exception of the gateway's own was not caught. `scripts/supervise.mjs`, the systemd unit and
 * compose start it again.
 */
export const restartExitCode = 70;

/** Options of the watchdog. */
interface WatchdogOptions {
  /** The event loop may stand still for this long, in milliseconds. */
  readonly limitMs: number;
  readonly log: Log;
  readonly metrics: Metrics;
  /** The third-party plugin at fault, from the stack; undefined when it is none of them. */
  readonly attribute: (thrown: unknown) => string | undefined;
  /** Ends the process at once, without any handler. */
  readonly exit: (code: number) => void;
}

const reportKey = Symbol.for('weir.watchdog.report');

/**
 * Ends the process when its event loop takes no turn for `limitMs`: a loop in a plugin would otherwise hold every
 * request, `/healthz` and SIGTERM for ever. A thread of its own counts turns, so a stopped or suspended process (all
 * threads stand still) does not count as a stall. It interrupts the loop through the runtime's inspector: the log names
 * the plugin and the stack. Where the runtime has no such inspector (Deno), or nothing answers within 2 s, the log says
 * only that the loop stood still, and the process ends by SIGKILL. Returns the function that stops the watchdog.
 */
export function startWatchdog(options: WatchdogOptions): () => void {
  const { limitMs, log, exit } = options;
  const count = pluginErrors(options.metrics);
  const turns = new Int32Array(new SharedArrayBuffer(4));
  const tickMs = Math.max(20, Math.min(500, Math.floor(limitMs / 20)));
  const report = (): void => {
    Error.stackTraceLimit = 50;
    const stalled = new Error(`the event loop has taken no turn for ${limitMs} ms`);
    const plugin = options.attribute(stalled);
    if (plugin !== undefined) count({ plugin, hook: 'event_loop' }).inc();
    log.error(
      `${plugin === undefined ? 'something' : `plugin "${plugin}"`} holds the event loop; the process ends and has to be started again`,
      { plugin, error: describeThrown(stalled) },
    );
    exit(restartExitCode);
  };
  Object.assign(globalThis, { [reportKey]: report });
  const worker = new Worker(watching, {
    eval: true,
    name: 'watchdog',
    execArgv: [],
    workerData: { turns, tickMs, limitMs },
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 },
  });
  worker.on('error', (error) =>
    log.warn('The watchdog has ended; a plugin that loops is not noticed', { error }),
  );
  worker.unref();
  const timer = setInterval(() => void Atomics.add(turns, 0, 1), tickMs);
  timer.unref();
  return () => {
    clearInterval(timer);
    Reflect.deleteProperty(globalThis, reportKey);
    void worker.terminate();
  };
}

/**
 * Reports to systemd that the event loop runs, as `WatchdogSec=` requires: three times within that time. Node cannot write
 * to systemd's datagram socket, so `systemd-notify` does. Without systemd nothing happens. Returns the function that
 * stops it.
 */
export function keepSystemdInformed(
  env: Readonly<Record<string, string | undefined>>,
  run: (program: string, args: readonly string[]) => void,
): () => void {
  const everyMs = Number(env['WATCHDOG_USEC']) / 3000;
  if (!(everyMs > 0) || env['NOTIFY_SOCKET'] === undefined) return () => undefined;
  const tell = (): void => run('systemd-notify', ['WATCHDOG=1']);
  const timer = setInterval(tell, everyMs);
  timer.unref();
  tell();
  return () => clearInterval(timer);
}

/**
 * Code of the thread. Plain JavaScript in a string: the same for sources, for builds, and on Deno. It interrupts after
 * `limitMs` worth of its own ticks without a turn of the main thread.
 */
const watching = `
const { workerData: { turns, tickMs, limitMs } } = require('node:worker_threads');
const { writeSync } = require('node:fs');
let seen = Atomics.load(turns, 0);
let missed = 0;
const timer = setInterval(() => {
  const now = Atomics.load(turns, 0);
  missed = now === seen ? missed + 1 : 0;
  seen = now;
  if (missed * tickMs < limitMs) return;
  clearInterval(timer);
  interrupt();
}, tickMs);
function interrupt() {
  setTimeout(() => {
    try {
      writeSync(2, 'The event loop has taken no turn for ' + limitMs + ' ms and cannot be interrupted; the process is killed.\\n');
    } finally {
      process.kill(process.pid, 'SIGKILL');
    }
  }, 2000);
  try {
    const { Session } = require('node:inspector');
    const session = new Session();
    session.connectToMainThread();
    session.on('Debugger.paused', ({ params: { callFrames: [frame] } }) => {
      const expression = "globalThis[Symbol.for('weir.watchdog.report')]()";
      session.post('Debugger.evaluateOnCallFrame', { callFrameId: frame.callFrameId, expression });
    });
    session.post('Debugger.enable', () => session.post('Debugger.pause'));
  } catch {
    // No inspector for other threads in this runtime: the time-out above ends the process.
  }
}
`;

/** The part of `process` that the guards use. */
interface GuardedProcess {
  on(event: 'unhandledRejection' | 'uncaughtException', listener: (thrown: unknown) => void): unknown;
  off(event: 'unhandledRejection' | 'uncaughtException', listener: (thrown: unknown) => void): unknown;
  readonly pid: number;
  exit(code?: number | string | null): never;
  abort(): never;
  kill(pid: number, signal?: string | number): true;
}

/** Dependencies of the guards. */
interface ProcessGuardOptions {
  readonly process: GuardedProcess;
  readonly log: Log;
  readonly metrics: Metrics;
  /** The third-party plugin at fault, from the stack; undefined when it is none of them. */
  readonly attribute: (thrown: unknown) => string | undefined;
  /** Called for an uncaught exception of the gateway's own: drain and exit. */
  readonly onFatal: (thrown: unknown) => void;
}

/**
 * Keeps a third-party plugin from ending the process: its errors and rejections outside of awaited calls are logged
 * with its name and counted. Unhandled rejections are never fatal; an uncaught exception that comes from no plugin
 * leaves the process in an unknown state and goes to `onFatal`. A plugin that ends the process itself (`process.exit`,
 * `process.abort`, a signal to its own process, `Deno.exit`) gets an exception instead. Returns the function that
 * removes the guards.
 */
export function installProcessGuards(options: ProcessGuardOptions): () => void {
  const { process, log, attribute, onFatal } = options;
  const count = pluginErrors(options.metrics);
  const onRejection = (thrown: unknown): void => {
    const plugin = attribute(thrown);
    count({ plugin: plugin ?? 'unknown', hook: 'unhandled_rejection' }).inc();
    log.error(`${subject(plugin)} left a rejected promise unhandled`, details(plugin, thrown));
  };
  const onException = (thrown: unknown): void => {
    const plugin = attribute(thrown);
    if (plugin === undefined) {
      log.error('an exception was not caught; the gateway cannot go on safely', details(plugin, thrown));
      onFatal(thrown);
      return;
    }
    count({ plugin, hook: 'uncaught_exception' }).inc();
    log.error(
      `${subject(plugin)} threw where nothing catches, in a callback or timer of its own`,
      details(plugin, thrown),
    );
  };
  process.on('unhandledRejection', onRejection);
  process.on('uncaughtException', onException);
  const guard = (name: string): void => {
    const thrown = new Error(`${name} is not for plugins: the gateway goes on. Throw an error instead.`);
    const plugin = attribute(thrown);
    if (plugin === undefined) return;
    count({ plugin, hook: 'process_exit' }).inc();
    log.error(`${subject(plugin)} called ${name}, which was refused`, details(plugin, thrown));
    throw thrown;
  };
  const { exit, abort, kill } = process;
  const deno = (globalThis as { Deno?: { exit(code?: number): never } }).Deno;
  const denoExit = deno?.exit;
  process.exit = (code) => {
    guard('process.exit()');
    return exit.call(process, code);
  };
  process.abort = () => {
    guard('process.abort()');
    return abort.call(process);
  };
  process.kill = (pid, signal) => {
    if ((pid === process.pid || pid === 0) && signal !== 0) guard('process.kill() on the gateway');
    return kill.call(process, pid, signal);
  };
  if (deno !== undefined && denoExit !== undefined)
    deno.exit = (code) => {
      guard('Deno.exit()');
      return denoExit.call(deno, code);
    };
  return () => {
    Object.assign(process, { exit, abort, kill });
    if (deno !== undefined && denoExit !== undefined) deno.exit = denoExit;
    process.off('unhandledRejection', onRejection);
    process.off('uncaughtException', onException);
  };
}

function subject(plugin: string | undefined): string {
  return plugin === undefined ? 'something' : `plugin "${plugin}"`;
}

function details(plugin: string | undefined, thrown: unknown): Record<string, unknown> {
  return { ...(plugin === undefined ? {} : { plugin }), error: describeThrown(thrown) };
}
