import { sha256 } from './bytes.ts';

/** Position of a request's span, in the ids of W3C Trace Context. */
export interface SpanContext {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  /** Empty for the root of its trace. */
  readonly parentSpanId: string;
}

/** Trace fields of a request; empty when absent. */
interface TraceFacts {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly sampled: boolean | undefined;
}

const traceIdForm = /^[0-9a-f]{32}$/;
const spanIdForm = /^[0-9a-f]{16}$/;
const uuidForm = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const zeros = /^0+$/;

/** Parent of a request in its caller's trace. */
interface TraceParent {
  readonly traceId: string;
  readonly parentId: string;
  /** Its sender records the trace. */
  readonly sampled: boolean;
}

const parentForm = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/**
 * Reads the header `traceparent` of W3C Trace Context. Undefined for one that the standard says to ignore: another form,
 * capitals, an id of zeros, version `ff`, more than four fields in version `00`.
 */
export function readTraceParent(header: string): TraceParent | undefined {
  const match = parentForm.exec(header);
  if (match === null) return undefined;
  const [, version, traceId = '', parentId = '', flags = '', rest] = match;
  if (version === 'ff' || (version === '00' && rest !== undefined)) return undefined;
  if (zeros.test(traceId) || zeros.test(parentId)) return undefined;
  return { traceId, parentId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/**
 * Ids of a request's span: those of the request where they have the standard's form, else ids derived from them, the
 * same for the same text. `id` is the request id, a UUID; a request without a trace starts its own.
 */
export function spanContextOf({ traceId, spanId, parentSpanId }: TraceFacts, id: string): SpanContext {
  return {
    traceId: traceIdOf(traceId === '' ? id : traceId),
    spanId: spanId === '' ? spanIdOfRequest(id) : spanIdOf(spanId),
    parentSpanId: parentSpanId === '' ? '' : spanIdOf(parentSpanId),
  };
}

/** 16 hexadecimal digits of a random UUID, never all zero: the first ones include its version digit. */
export function spanIdOfRequest(id: string): string {
  return id.slice(0, 8) + id.slice(9, 13) + id.slice(14, 18);
}

function traceIdOf(text: string): string {
  if (traceIdForm.test(text) && !zeros.test(text)) return text;
  return uuidForm.test(text) ? text.replaceAll('-', '') : sha256(text, 'hex').slice(0, 32);
}

function spanIdOf(text: string): string {
  return spanIdForm.test(text) && !zeros.test(text) ? text : sha256(text, 'hex').slice(0, 16);
}

/** 13 hexadecimal digits: as many as a number represents exactly. */
const randomPart = 13;

/**
 * Whether the trace is recorded. For a request with a `traceparent` the caller decides; of traces that begin here a
 * share is sampled by the trace id, so that every gateway decides alike. False when no spans are sent.
 */
export function isSampled(
  { sampled }: TraceFacts,
  traceId: string,
  otlp: TelemetrySettings['otlp'],
): boolean {
  if (sampled !== undefined) return sampled;
  if (otlp === undefined) return false;
  if (otlp.sample_ratio >= 1) return true;
  return Number.parseInt(traceId.slice(-randomPart), 16) / 16 ** randomPart < otlp.sample_ratio;
}

/** Trace headers for an outgoing request on behalf of a request. */
export interface ForwardedTrace {
  /** Header `traceparent`: the gateway's span is the parent. */
  readonly parent: string;
  /** Whether the caller's `tracestate` is forwarded: the trace did not begin here. */
  readonly keepsState: boolean;
}

/** Trace headers of a request for a provider. */
export function forwardedTrace(
  facts: TraceFacts,
  id: string,
  otlp: TelemetrySettings['otlp'],
): ForwardedTrace {
  const { traceId, spanId } = spanContextOf(facts, id);
  const flags = isSampled(facts, traceId, otlp) ? '01' : '00';
  return { parent: `00-${traceId}-${spanId}-${flags}`, keepsState: facts.sampled !== undefined };
}

/** Destination of spans, with all defaults. Holds secrets: never log it whole. */
export interface OtlpSettings {
  /** Complete, path included. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly service_name: string;
  /** Resource attributes in addition to the name of the service. */
  readonly resource: Readonly<Record<string, string>>;
  /** 0 to 1, for traces that begin here. */
  readonly sample_ratio: number;
  /** Whether spans contain request and answer content. */
  readonly content: boolean;
  readonly timeout_ms: number;
  /** Upper bound of waiting spans. */
  readonly queue: number;
}

/** Telemetry sent to other systems. */
export interface TelemetrySettings {
  /** Whether providers receive the trace of a request. */
  readonly propagate: boolean;
  /** Undefined: no spans are sent. */
  readonly otlp: OtlpSettings | undefined;
  readonly metrics: {
    readonly labels: readonly string[];
    readonly max_label_values: number;
  };
}
