import type { SpanContext } from '../../../core/base/trace-context.ts';

/** Kinds of spans, as OTLP counts them. */
export const spanKind = { server: 2, client: 3 } as const;

/** A span that has ended. */
export interface Span {
  readonly ids: SpanContext;
  readonly name: string;
  readonly kind: number;
  /** The caller's `tracestate`. */
  readonly state: string | undefined;
  /** Milliseconds since the epoch. */
  readonly startMs: number;
  readonly endMs: number;
  /** JSON. */
  readonly attributes: string;
  /** Undefined: it is no error. */
  readonly error: string | undefined;
}

/** The span as JSON of OTLP. */
export function spanJson(span: Span): string {
  const { traceId, spanId, parentSpanId } = span.ids;
  const parent = parentSpanId === '' ? '' : `,"parentSpanId":"${parentSpanId}"`;
  const state =
    span.state === undefined || span.state === ''
      ? ''
      : `,"traceState":${JSON.stringify(span.state.slice(0, 512))}`;
  const message =
    span.error === undefined || span.error === ''
      ? ''
      : `,"message":${JSON.stringify(span.error.slice(0, 1024))}`;
  const status = span.error === undefined ? '' : `,"status":{"code":2${message}}`;
  return (
    `{"traceId":"${traceId}","spanId":"${spanId}"${parent}${state},"name":${JSON.stringify(span.name)}` +
    `,"kind":${span.kind},"startTimeUnixNano":"${nanos(span.startMs)}"` +
    `,"endTimeUnixNano":"${nanos(Math.max(span.startMs, span.endMs))}","attributes":${span.attributes}${status}}`
  );
}

/** Nanoseconds of milliseconds since the epoch, as text: a number would not hold them. */
function nanos(ms: number): string {
  const whole = Math.floor(ms);
  const micros = Math.min(999, Math.floor((ms - whole) * 1000));
  return `${whole}${String(micros).padStart(3, '0')}000`;
}

/** Operation and model, as the conventions name spans. */
export function spanName(operation: string, model: string): string {
  return model === '' ? operation : `${operation} ${model.slice(0, 512)}`;
}
