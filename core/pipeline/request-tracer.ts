import type { Outcome, RequestContext } from './context.ts';

/** Tells another system of each request that has settled. */
export interface RequestTracer {
  /** `acceptedAt` is the monotonic clock at acceptance, milliseconds. Never waits and never throws. */
  settled(context: RequestContext, outcome: Outcome, acceptedAt: number): void;
  /** Sends what waits, within the deadline (milliseconds), and ends. */
  close(deadlineMs: number): Promise<void>;
}
