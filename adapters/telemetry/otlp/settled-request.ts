import type { Outcome, RequestContext } from '../../../core/pipeline/context.ts';
import type { SpanContext } from '../../../core/ports/trace-context.ts';

/** A request that has settled, and where its span stands. */
export interface SettledRequest {
  readonly context: RequestContext;
  readonly outcome: Outcome;
  /** Monotonic clock at acceptance. */
  readonly acceptedAt: number;
  readonly ids: SpanContext;
  /** The spans hold what was asked and answered. */
  readonly content: boolean;
}
