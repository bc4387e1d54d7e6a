/** The configuration file as its text is edited: secrets that stand in it are never shown. */

/** The text of the configuration's main file. */
export interface ConfigText {
  /** Its name, without folders. */
  readonly name: string;
  /**
   * With each literal secret replaced by a mask (`"***1***"`); undefined when the file is not readable or no valid YAML,
   * so that nobody can tell its secrets: `reason` says so.
   */
  readonly text: string | undefined;
  readonly reason: string | undefined;
  /** Number of masks. */
  readonly masked: number;
  /** Changes with every change of the file. */
  readonly version: string;
}

/** A fault of a text, at its place; the file is named as messages name it. */
export interface ConfigFault {
  readonly file: string;
  /** From 1; 0 when the place is unknown. In the text as given, masks included. */
  readonly line: number;
  readonly column: number;
  /** One sentence with the fault and the remedy, without a final period. */
  readonly message: string;
  readonly severity: 'error' | 'warning' | 'note';
}

/** What became of a written text. */
interface WrittenConfig {
  /** `failed`: it did not start; the file has its former text again. */
  readonly outcome: 'swapped' | 'unchanged' | 'failed';
  readonly faults: readonly ConfigFault[];
  /** Of the file now. */
  readonly version: string;
  /** A sentence when a change takes effect only after a restart. */
  readonly restartNeeded: string | undefined;
}

/** A text that somebody wants to write, and the version that it was made from. */
export interface ConfigDraftText {
  readonly text: string;
  readonly version: string;
}

/** Reads, checks and writes the configuration's main file. One write at a time. */
export interface ConfigFileEditor {
  /** Lets a text serve some of the requests before it is written. Absent: nothing does. */
  readonly canaries?: ConfigCanaries;
  read(): Promise<ConfigText>;
  /** The JSON Schema (draft 2020-12) of the file, with the options of the plugins that come with the gateway. */
  schema(): Readonly<Record<string, unknown>>;
  /**
   * Every fault of the text with the files that it includes; masks stand for the secrets of the file. Code of plugins that
   * do not come with the gateway is not run. Throws `version_mismatch` when the file has changed since.
   */
  check(draft: ConfigDraftText): Promise<readonly ConfigFault[]>;
  /**
   * Checks the text wholly, replaces the file, calls `written`, and reloads. Throws `invalid_config` for a text with
   * faults, `version_mismatch` when the file has changed since, `resource_conflict` when it cannot be replaced. When
   * `written` rejects, the file has its former text again.
   */
  write(draft: ConfigDraftText, written: () => Promise<void>): Promise<WrittenConfig>;
}

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
