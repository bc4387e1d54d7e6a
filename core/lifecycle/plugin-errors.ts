import type { Counter, Metrics } from '../ports/metrics.ts';
import { fileURLToPath } from 'node:url';

/** A line of a stack trace that names a file. */
interface StackFrame {
  /** Absolute path. */
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

const frameExpression = /^\s+at (?:.*? \()?(?:async )?(.+?):(\d+):(\d+)\)?$/;
const deepestCause = 8;

/**
 * The frames of an error and, behind them, of its causes, innermost first; none when it has no stack. Never
 * throws, whatever was thrown.
 */
function stackFrames(thrown: unknown): StackFrame[] {
  const frames: StackFrame[] = [];
  let current: unknown = thrown;
  for (let depth = 0; depth < deepestCause && current instanceof Error; depth += 1) {
    frames.push(...framesOf(current));
    current = current.cause;
  }
  return frames;
}

function framesOf(error: Error): StackFrame[] {
  const stack: unknown = error.stack;
  if (typeof stack !== 'string') return [];
  return stack.split('\n').flatMap((text) => {
    const [, location = '', line, column] = frameExpression.exec(text) ?? [];
    const file = pathOf(location);
    return file === undefined ? [] : [{ file, line: Number(line), column: Number(column) }];
  });
}

function pathOf(location: string): string | undefined {
  if (location === '' || location.startsWith('node:')) return undefined;
  if (!location.startsWith('file:')) return location;
  try {
    return fileURLToPath(location);
  } catch {
    return undefined;
  }
}

/** Maps files to their plugins, to find the plugin at fault from a stack trace. */
export class PluginOrigins {
  readonly #owners = new Map<string, Set<string>>();

  /** Notes that these files (a bundle and its sources, absolute paths) belong to a plugin. */
  record(pluginName: string, files: readonly string[]): void {
    for (const file of files) {
      const owners = this.#owners.get(file);
      if (owners === undefined) this.#owners.set(file, new Set([pluginName]));
      else owners.add(pluginName);
    }
  }

  /**
   * The third-party plugin whose code threw the value, or undefined when its stack names none. A file that
   * several plugins share counts only when no other frame decides.
   */
  attribute(thrown: unknown): string | undefined {
    const owners = stackFrames(thrown).flatMap((frame) => this.#owners.get(frame.file) ?? []);
    const decisive = owners.find((names) => names.size === 1) ?? owners[0];
    return decisive?.values().next().value;
  }
}

/** The innermost frame of an error that lies in one of these files, or undefined. */
export function frameWithin(thrown: unknown, files: readonly string[]): StackFrame | undefined {
  return stackFrames(thrown).find((frame) => files.includes(frame.file));
}

/** Counts errors that plugins throw outside of awaited calls: `weir_plugin_errors_total{plugin,hook}`. */
export function pluginErrors(metrics: Metrics): (labels: { plugin: string; hook: string }) => Counter {
  return metrics.counter({
    name: 'weir_plugin_errors_total',
    help: 'Errors raised by plugins, by plugin and hook.',
    labels: ['plugin', 'hook'],
  });
}

/** Text for the log about a thrown value: its stack where it has one. Never throws. */
export function describeThrown(thrown: unknown): string {
  try {
    if (thrown instanceof Error) return thrown.stack ?? thrown.message;
    return String(thrown);
  } catch {
    return 'a value that cannot be shown';
  }
}
