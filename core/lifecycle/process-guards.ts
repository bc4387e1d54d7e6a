import type { Log } from '../ports/log.ts';
import type { Metrics } from '../ports/metrics.ts';
import { describeThrown, pluginErrors } from './plugin-errors.ts';

/** The part of `process` that the guards use. */
export interface GuardedProcess {
  on(event: 'unhandledRejection' | 'uncaughtException', listener: (thrown: unknown) => void): unknown;
  off(event: 'unhandledRejection' | 'uncaughtException', listener: (thrown: unknown) => void): unknown;
  readonly pid: number;
  exit(code?: number | string | null): never;
  abort(): never;
  kill(pid: number, signal?: string | number): true;
}

/** What the guards need. */
export interface ProcessGuardOptions {
  readonly process: GuardedProcess;
  readonly log: Log;
  readonly metrics: Metrics;
  /** The third-party plugin at fault, from the stack; undefined when it is none of them. */
  readonly attribute: (thrown: unknown) => string | undefined;
  /** Called for an uncaught exception of the gateway's own: drain and exit. */
  readonly onFatal: (thrown: unknown) => void;
}

/**
 * Keeps a third-party plugin from ending the process: what it throws or rejects with where nobody waits is logged
 * with its name and counted. Unhandled rejections are never fatal; an uncaught exception of nobody's plugin leaves
 * the process in an unknown state and goes to `onFatal`. A plugin that ends the process itself (`process.exit`,
 * `process.abort`, a signal to its own process, `Deno.exit`) gets an exception instead. Returns the function that takes
 * the guards away.
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
