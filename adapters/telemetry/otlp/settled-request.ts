import type { Outcome, RequestContext } from '../../../core/pipeline/context.ts';
import type { Redaction } from '../../../core/redaction/redaction.ts';
import type { SpanContext } from '../../../core/base/trace-context.ts';

/** What was said, as attributes of a span have it; each is empty when there is nothing to tell. */
export interface SpanContent {
  readonly inputMessages: string;
  readonly outputMessages: string;
  readonly errorMessage: string;
}

/** A request that has settled, and where its span stands. */
export interface SettledRequest {
  readonly context: RequestContext;
  readonly outcome: Outcome;
  /** Monotonic clock at acceptance. */
  readonly acceptedAt: number;
  readonly ids: SpanContext;
  /** What its span may tell of what was asked and answered; undefined for nothing. */
  readonly content: SpanContent | undefined;
  /** What is taken out of the rest. */
  readonly redaction: Redaction | undefined;
}
