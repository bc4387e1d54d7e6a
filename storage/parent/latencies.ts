/** Latencies of targets over all processes of a gateway: the parent merges what each of them has measured. */
import type { Clock } from '../../core/ports/clock.ts';
import type {
  LatencyReport,
  MergedLatencies,
  OwnLatencies,
  TargetLatency,
} from '../../core/ports/latencies.ts';

/** Time from a measurement to its report, and from a report until the others hear of it. Milliseconds. */
const tickMs = 500;
/** Targets in one message. More are told with the next one. */
const maxTargets = 1000;
/** Targets that wait to be told to one process; beyond, the others are told with their next measurement. */
const maxUntold = 10_000;

/** One process, in the view of the parent. */
interface Listener {
  readonly untold: Set<string>;
  /** Resolves when the process has heard. */
  readonly tell: (known: readonly TargetLatency[]) => Promise<void>;
  isHearing: boolean;
}

/** The parent's side, of one process. */
interface LatencyMember {
  /** Merges measurements; returns what all know of these targets then. */
  report(reports: readonly LatencyReport[]): readonly TargetLatency[];
  /** What a process that starts should know. */
  recent(): readonly TargetLatency[];
  end(): void;
}

/** Passes on what each process measures to all others, at most twice a second. */
export class LatencyExchange {
  readonly #merged: MergedLatencies;
  readonly #clock: Clock;
  readonly #listeners = new Set<Listener>();
  #isTicking = false;

  constructor(merged: MergedLatencies, clock: Clock) {
    this.#merged = merged;
    this.#clock = clock;
  }

  /** A further process. Its `tell` gets what the others have measured. */
  join(tell: Listener['tell']): LatencyMember {
    const member: Listener = { untold: new Set(), tell, isHearing: false };
    this.#listeners.add(member);
    return {
      report: (reports) => {
        this.#merged.merge(reports);
        const ids = reports.map(({ id }) => id);
        for (const { untold } of this.#others(member))
          for (const id of ids) if (untold.size < maxUntold) untold.add(id);
        for (const id of ids) member.untold.delete(id);
        this.#tick();
        return this.#merged.of(ids);
      },
      recent: () => this.#merged.recent(maxTargets),
      end: () => void this.#listeners.delete(member),
    };
  }

  #others(member: Listener): readonly Listener[] {
    return [...this.#listeners].filter((one) => one !== member);
  }

  #tick(): void {
    if (this.#isTicking) return;
    if (![...this.#listeners].some(({ untold }) => untold.size > 0)) return;
    this.#isTicking = true;
    this.#clock.after(tickMs, () => {
      this.#isTicking = false;
      for (const listener of this.#listeners) if (!listener.isHearing) this.#tell(listener);
      this.#tick();
    });
  }

  #tell(listener: Listener): void {
    const ids = [...listener.untold].slice(0, maxTargets);
    if (ids.length === 0) return;
    for (const id of ids) listener.untold.delete(id);
    listener.isHearing = true;
    const heard = (): void => void (listener.isHearing = false);
    // A process that does not hear has ended, or asks when it starts.
    listener.tell(this.#merged.of(ids)).then(heard, heard);
  }
}

/** Sends a report to the parent; the answer is taken before any later message of the parent. */
type SendReport = (
  reports: readonly LatencyReport[],
  onAnswer: (known: readonly TargetLatency[]) => void,
  onError: (error: unknown) => void,
) => void;

/** Tells the parent what this process measures, at most twice a second and one report at a time. */
export function tellLatencies(own: OwnLatencies, clock: Clock, send: SendReport): void {
  let isTicking = false;
  const begin = (): void => {
    if (isTicking) return;
    isTicking = true;
    clock.after(tickMs, tell);
  };
  const tell = (): void => {
    isTicking = false;
    const reports = own.take(maxTargets);
    if (reports.length === 0) return;
    isTicking = true;
    const heard = (known: readonly TargetLatency[]): void => {
      own.learn(known, true);
      isTicking = false;
      // Targets that had no room, or were measured meanwhile.
      begin();
    };
    send(reports, heard, () => heard([]));
  };
  own.onMeasured(begin);
}
