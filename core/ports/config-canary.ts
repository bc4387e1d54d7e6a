/** A new configuration that serves a share of the requests for a while, before it becomes the configuration. */

/** When a canary ends, and what it may make worse. Percentages are of requests, rises percentage points over the old one. */
export interface CanaryRules {
  /** Largest share of requests, percent. */
  readonly share: number;
  readonly duration_s: number;
  /** Percentage points. */
  readonly max_error_rise: number;
  readonly max_refusal_rise: number;
  /** Percent of the old configuration's median. */
  readonly max_latency_rise: number;
  /** Requests that it has to serve before it is judged well. */
  readonly min_requests: number;
}

/** What a configuration has served since the canary began. */
export interface CanaryFigures {
  readonly requests: number;
  /** Answers with 5xx, and those that broke off. */
  readonly errors: number;
  /** Answers with 4xx, but for clients that left. */
  readonly refusals: number;
  /** Median, milliseconds, within a tenth; undefined without requests. */
  readonly medianMs: number | undefined;
}

/** `running`, or how it ended. */
export type CanaryPhase = 'running' | 'completed' | 'reverted' | 'aborted';

/** A canary, running or the last one. */
export interface CanaryState {
  readonly id: string;
  readonly phase: CanaryPhase;
  /** One sentence; empty while it runs. */
  readonly reason: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  /** When it is to end, or has ended. */
  readonly endsAt: number;
  /** Share of the requests that it gets now, percent. */
  readonly share: number;
  readonly rules: CanaryRules;
  /** Name of the key that has started it. */
  readonly startedBy: string;
  readonly before: CanaryFigures;
  readonly after: CanaryFigures;
}

/** Key and organisation of the request that starts or ends one. */
export interface CanaryCaller {
  readonly organisationId: string;
  readonly name: string;
}

/** Runs at most one canary at a time, over all processes of this gateway. */
export interface ConfigCanaries {
  /** The one that runs, else the last one since this process began; undefined for none. */
  state(): CanaryState | undefined;
  /**
   * Checks the text, builds it and lets it serve. Rules that are left out are those of the serving configuration. Throws
   * `invalid_config` for a text with faults, `version_mismatch` when the file has changed since, `resource_conflict` while
   * another one runs or when nothing would change.
   */
  start(
    draft: { readonly text: string; readonly version: string },
    rules: Partial<CanaryRules>,
    caller: CanaryCaller,
  ): Promise<CanaryState>;
  /** Ends the one that runs; the old configuration serves on. Throws `resource_not_found` when none runs. */
  abort(caller: CanaryCaller): Promise<CanaryState>;
}
