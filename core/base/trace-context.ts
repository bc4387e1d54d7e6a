import { sha256 } from './sha256.ts';

/** Where the span of a request stands, in the ids of W3C Trace Context. */
export interface SpanContext {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  /** Empty for the root of its trace. */
  readonly parentSpanId: string;
}

/** What a request said of its trace; empty for what it did not say. */
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

/**
 * The ids of a request's span: those that the request named where they have the standard's form, else ids made of them,
 * the same for the same text. `id` is the request id, a UUID; a request that names no trace is one of its own.
 */
export function spanContextOf({ traceId, spanId, parentSpanId }: TraceFacts, id: string): SpanContext {
  return {
    traceId: traceIdOf(traceId === '' ? id : traceId),
    spanId: spanId === '' ? spanIdOfRequest(id) : spanIdOf(spanId),
    parentSpanId: parentSpanId === '' ? '' : spanIdOf(parentSpanId),
  };
}

/** 16 hexadecimal digits of a random UUID, never all zero: it holds the digit of its version among its first ones. */
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

/** 13 hexadecimal digits: as many as a number holds exactly. */
const randomPart = 13;

/**
 * Whether the trace is recorded. The caller decides it for a request that came with a `traceparent`; of traces that begin
 * here a share is, chosen by the trace id, so that every gateway decides alike. False when nothing is sent.
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

/** What somebody who is asked on behalf of a request is told of its trace. */
export interface ToldTrace {
  /** The header `traceparent`: the span of the gateway is the parent. */
  readonly parent: string;
  /** The caller's `tracestate` holds for it: the trace did not begin here. */
  readonly keepsState: boolean;
}

/** The trace of a request as a provider is told it. */
export function toldTrace(facts: TraceFacts, id: string, otlp: TelemetrySettings['otlp']): ToldTrace {
  const { traceId, spanId } = spanContextOf(facts, id);
  const flags = isSampled(facts, traceId, otlp) ? '01' : '00';
  return { parent: `00-${traceId}-${spanId}-${flags}`, keepsState: facts.sampled !== undefined };
}

/** Where spans are sent, with everything filled in. Holds secrets: never log it whole. */
export interface OtlpSettings {
  /** Complete, path included. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly service_name: string;
  /** Attributes of the resource beside the name of the service. */
  readonly resource: Readonly<Record<string, string>>;
  /** 0 to 1: of traces that begin here. */
  readonly sample_ratio: number;
  /** Spans hold what was asked and answered. */
  readonly content: boolean;
  readonly timeout_ms: number;
  /** Most spans that wait. */
  readonly queue: number;
}

/** What other systems are told of requests. */
export interface TelemetrySettings {
  /** Providers are told the trace that a request belongs to. */
  readonly propagate: boolean;
  /** Undefined: no spans are sent. */
  readonly otlp: OtlpSettings | undefined;
  readonly metrics: {
    readonly labels: readonly string[];
    readonly max_label_values: number;
  };
}
