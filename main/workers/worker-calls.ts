/** The functions that a parent and a worker call of each other, beside those of the stores. */
import type { CollectedMetrics } from '../../adapters/telemetry/prometheus.ts';
import type { CanaryReport } from '../../core/http/canary-gate.ts';
import type { LatencyCalls, LoanCalls, ParentCalls } from '../../storage/parent/parent-calls.ts';

/** Texts of a configuration by absolute path: a worker serves exactly what its parent has read. */
export type ConfigTexts = ReadonlyMap<string, Uint8Array>;

/** What a worker needs to start. */
interface WorkerTask {
  readonly texts: ConfigTexts;
  /** Its own folder: it has the lock, and the journal in it. */
  readonly folder: string;
  /** Number of journals of this gateway. */
  readonly journals: number;
  /** Socket of the parent's gateway. */
  readonly controlPlane: string;
}

/** State of a worker, for `/status`. */
export interface WorkerState {
  readonly generation: string;
  readonly active_requests: number;
  readonly buffered_bytes: number;
  readonly retiring_generations: number;
  readonly uptime_seconds: number;
}

/** Offered by the parent. */
export type CallsOfParent = ParentCalls & {
  'worker.begin': (slot: number) => WorkerTask;
  /** The worker listens on this port. */
  'worker.ready': (port: number) => void;
  /** A sentence why it cannot start. */
  'worker.failed': (reason: string) => void;
};

/** Offered by each worker. */
export type CallsOfWorker = LoanCalls &
  LatencyCalls & {
    /** Builds the next generation; resolves with the reasons why it cannot, empty for none. */
    prepare: (texts: ConfigTexts) => readonly string[];
    commit: () => void;
    abandon: () => void;
    /** Builds a canary of the configuration and gives it its share; resolves with the reasons why it cannot. */
    'canary.begin': (texts: ConfigTexts, share: number) => readonly string[];
    /** Sets its share; resolves with what was counted since the last call. Undefined where there is none. */
    'canary.watch': (share: number) => CanaryReport | undefined;
    'canary.end': () => void;
    /** Resolves when the worker has read the changes of the store. */
    refresh: () => void;
    metrics: () => CollectedMetrics;
    state: () => WorkerState;
    /** As `Journal.settle`. */
    settle: (timeoutMs: number) => boolean;
    /** Serves for `drainDelayMs` more, ends its requests within the deadline, and exits. */
    stop: (drainDelayMs: number) => void;
    /** Stops without further waits. */
    hurry: () => void;
  };

/** Variables in the environment of a worker. */
export const slotVariable = 'WEIR_WORKER_SLOT';
export const socketVariable = 'WEIR_PARENT_SOCKET';
