// Composition root: the configuration and the analytics store for one command.
import { createLog } from '../adapters/telemetry/line-log.ts';
import type { LoadResult } from '../core/config/load-config.ts';
import { formatProblem } from '../core/config/problem.ts';
import type { GatewayConfig } from '../core/config/schema.ts';
import { UndoStack } from '../core/lifecycle/undo-stack.ts';
import type { Analytics } from '../core/ports/analytics.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Log } from '../core/ports/log.ts';
import { lockData } from '../storage/embedded/data-lock.ts';
import { openAnalytics } from './open-analytics.ts';

/** Dependencies of command tools; `configFile` resolves the named file, or the default one. */
export interface ToolParts {
  readonly configFile: (named: string | undefined) => string;
  readonly load: (file: string) => Promise<LoadResult>;
  readonly clock: Clock;
  readonly print: (text: string) => void;
  readonly complain: (text: string) => void;
}

/** Location of the store, and its requirements. */
interface AnalyticsPlace {
  /** Path of the configuration as named; undefined for the default one. */
  readonly config: string | undefined;
  /** The data folder. */
  readonly data: string;
  /** True when the data folder must be locked. Throws when the store cannot be used. */
  needsLock(config: GatewayConfig): boolean;
}

/** The configuration of a command, with the resources that it opens. */
export interface CommandPlace {
  readonly config: GatewayConfig;
  /** The configuration's file. */
  readonly file: string;
  readonly log: Log;
  /** Resources to close. */
  readonly opened: UndoStack;
}

/** Loads the configuration, and closes the resources of `use` when it has settled. Rejects with the fault. */
export async function useConfiguration<T>(
  { configFile, load, clock }: Pick<ToolParts, 'configFile' | 'load' | 'clock'>,
  named: string | undefined,
  use: (place: CommandPlace) => Promise<T>,
): Promise<T> {
  const file = configFile(named);
  const loaded = await load(file);
  if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join('\n'));
  const write = (line: string): void => void process.stderr.write(line);
  const log = createLog({ level: 'warn', format: 'text', write, clock });
  const opened = new UndoStack({
    clock,
    timeoutMs: 20_000,
    onError: (error) => log.error('A part could not be closed', { error }),
  });
  try {
    return await use({ config: loaded.config, file, log, opened });
  } finally {
    await opened.dispose();
  }
}

/** Opens the analytics store of the configuration, and closes it when `use` has settled. Rejects with the reason. */
export function useAnalytics<T>(
  parts: ToolParts,
  { config: named, data, needsLock }: AnalyticsPlace,
  use: (analytics: Analytics, place: CommandPlace) => Promise<T>,
): Promise<T> {
  const { clock } = parts;
  return useConfiguration(parts, named, async (place) => {
    const { config, file, log, opened } = place;
    if (needsLock(config)) {
      const lock = await lockData(data, { clock });
      opened.push(() => lock.release());
    }
    return use(await openAnalytics({ config, file, data, log, clock, opened }), place);
  });
}

/** The signal aborts at the first interrupt; a second one ends the process at once. */
export async function untilInterrupted<T>(use: (stop: AbortSignal) => Promise<T>): Promise<T> {
  const stop = new AbortController();
  const end = (): void => stop.abort();
  process.once('SIGINT', end).once('SIGTERM', end);
  try {
    return await use(stop.signal);
  } finally {
    process.off('SIGINT', end).off('SIGTERM', end);
  }
}
