import { type Clock, systemClock } from '../ports/clock.ts';
import type { Log, LogLevel } from '../ports/log.ts';
import type { MetricDefinition, Metrics } from '../ports/metrics.ts';
import type { Services } from './scope.ts';

/** The clock of the machine. Its timers keep the process alive, so that a test waits, and hangs on one left behind. */
export const realClock: Clock = {
  now: () => systemClock.now(),
  monotonic: () => systemClock.monotonic(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

/** A line of the log. */
export interface Line {
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A log that keeps its lines. */
export function recordingLog(lines: Line[], fixed: Readonly<Record<string, unknown>> = {}): Log {
  const write =
    (level: LogLevel) =>
    (message: string, fields: Readonly<Record<string, unknown>> = {}): void =>
      void lines.push({ level, message, fields: { ...fixed, ...fields } });
  return {
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    child: (fields) => recordingLog(lines, { ...fixed, ...fields }),
  };
}

/** Metrics that keep their last values, by `name{label=value}`. */
export class RecordingMetrics implements Metrics {
  readonly values = new Map<string, number>();
  readonly scrapes = new Set<() => void>();

  counter<L extends string>(
    definition: MetricDefinition<L>,
  ): (labels: Record<L, string>) => { inc(by?: number): void } {
    return (labels) => {
      const key = seriesKey(definition.name, labels);
      return { inc: (by = 1) => void this.values.set(key, (this.values.get(key) ?? 0) + by) };
    };
  }

  gauge<L extends string>(
    definition: MetricDefinition<L>,
  ): (labels: Record<L, string>) => { set(value: number): void } {
    return (labels) => ({ set: (value) => void this.values.set(seriesKey(definition.name, labels), value) });
  }

  histogram(): () => { observe(): void } {
    return () => ({ observe: () => undefined });
  }

  onScrape(collect: () => void): () => void {
    this.scrapes.add(collect);
    return () => void this.scrapes.delete(collect);
  }

  render(): Promise<{ contentType: string; text: string }> {
    return Promise.resolve({ contentType: 'text/plain', text: '' });
  }
}

function seriesKey(name: string, labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}=${value}`);
  return pairs.length === 0 ? name : `${name}{${pairs.join(',')}}`;
}

/** Services that record their use; they have no stores. */
export function recordingServices(clock: Clock = realClock): {
  services: Services;
  lines: Line[];
  metrics: RecordingMetrics;
} {
  const lines: Line[] = [];
  const metrics = new RecordingMetrics();
  const present: Partial<Services> = { clock, metrics, log: recordingLog(lines) };
  return { services: present as Services, lines, metrics };
}
