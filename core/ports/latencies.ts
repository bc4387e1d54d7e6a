/** Latencies of targets that several processes measure: each tells what it has measured, and hears what all know. */

/** Measurements of one target by one process since it told last. */
export interface LatencyReport {
  /** Of the target. */
  readonly id: string;
  /** Sum of the times to the first token, milliseconds. */
  readonly sumMs: number;
  /** Number of these times. */
  readonly count: number;
  readonly failures: number;
}

/** Average latency of one target, as all processes know it. */
export interface TargetLatency {
  readonly id: string;
  readonly ms: number;
  /** Time since the last measurement, milliseconds: clocks of processes differ. */
  readonly ageMs: number;
}

/** What one process knows. */
export interface OwnLatencies {
  /** From now on measurements are kept to be told. `run` is called when there are some and there were none before. */
  onMeasured(run: () => void): void;
  /** Measurements since the last call, of at most `max` targets; those of others stay. */
  take(max: number): readonly LatencyReport[];
  /**
   * Takes over what all processes know; what was measured here and is not in it counts on. `isAnswer`: it holds what
   * was taken last.
   */
  learn(known: readonly TargetLatency[], isAnswer: boolean): void;
}

/** What all processes know. */
export interface MergedLatencies {
  merge(reports: readonly LatencyReport[]): void;
  /** Of these targets, but for those that are forgotten. */
  of(ids: Iterable<string>): readonly TargetLatency[];
  /** Of the `max` targets that were measured last, within the last ten minutes. */
  recent(max: number): readonly TargetLatency[];
}
