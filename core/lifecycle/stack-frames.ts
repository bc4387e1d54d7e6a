import { fileURLToPath } from 'node:url';

/** A line of a stack trace that names a file. */
export interface StackFrame {
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
export function stackFrames(thrown: unknown): StackFrame[] {
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
