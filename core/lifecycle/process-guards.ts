import type { Log } from '../ports/log.ts';
import type { Metrics } from '../ports/metrics.ts';
import { describeThrown, pluginErrors } from './plugin-errors.ts';

/** The part of `process` that the guards use. */
export interface GuardedProcess {
  on(event: 'unhandledRejection' | 'uncaughtException', listener: (thrown: unknown) => void): unknown;
  off(event: 'unhandledRejection' | 'uncaughtException', listener: (thrown: unknown) => void): unknown;
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
 * the process in an unknown state and goes to `onFatal`. Returns the function that takes the guards away.
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
  return () => {
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
