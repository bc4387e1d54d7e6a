import { isStorable } from '../../core/organisation/storable-text.ts';

/** The value of an attribute: texts, numbers and booleans as they are, lists and maps of them. */
export type AttributeValue =
  string | number | boolean | readonly AttributeValue[] | { readonly [key: string]: AttributeValue };
export type SpanAttributes = ReadonlyMap<string, AttributeValue>;

/** A span that somebody reported. */
export interface ReportedSpan {
  /** 32 hexadecimal digits in lower case. */
  readonly traceId: string;
  /** 16 hexadecimal digits in lower case. */
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly durationMs: number;
  readonly isError: boolean;
  readonly statusMessage: string;
  readonly attributes: SpanAttributes;
  readonly resource: SpanAttributes;
  readonly events: readonly { readonly name: string; readonly attributes: SpanAttributes }[];
  /** Of the instrumentation: `name version`. */
  readonly scope: string;
}

/** What an export holds, and what of it cannot be used, with the reason of the first. */
export interface ReadSpans {
  readonly spans: readonly ReportedSpan[];
  readonly rejected: number;
  readonly reason: string;
}

const maxAttributes = 256;
const maxEvents = 64;
const maxDepth = 16;

/** Reads the JSON mapping of `ExportTraceServiceRequest`. Undefined when it is something else; `most` spans are read. */
export function readSpans(body: unknown, most: number): ReadSpans | undefined {
  const resources = listOf(member(body, 'resourceSpans'));
  if (resources === undefined) return undefined;
  const spans: ReportedSpan[] = [];
  let rejected = 0;
  let reason = '';
  const reject = (why: string): void => {
    rejected++;
    reason ||= why;
  };
  for (const one of resources) {
    const resource = attributesOf(member(member(one, 'resource'), 'attributes'));
    for (const group of listOf(member(one, 'scopeSpans')) ?? []) {
      const scope = member(group, 'scope');
      const scopeName = [member(scope, 'name'), member(scope, 'version')].map(textOf).join(' ').trim();
      for (const span of listOf(member(group, 'spans')) ?? []) {
        if (spans.length >= most) reject(`an export may hold ${most} spans; send the rest in further ones`);
        else {
          const read = readSpan(span, resource, scopeName);
          if (typeof read === 'string') reject(read);
          else spans.push(read);
        }
      }
    }
  }
  return { spans, rejected, reason };
}

/** The span, or why it cannot be used. */
function readSpan(span: unknown, resource: SpanAttributes, scope: string): ReportedSpan | string {
  const traceId = textOf(member(span, 'traceId')).toLowerCase();
  const spanId = textOf(member(span, 'spanId')).toLowerCase();
  const parentSpanId = textOf(member(span, 'parentSpanId')).toLowerCase();
  if (!/^[0-9a-f]{32}$/.test(traceId) || /^0+$/.test(traceId))
    return 'a span has no traceId of 32 hexadecimal digits';
  if (!/^[0-9a-f]{16}$/.test(spanId) || /^0+$/.test(spanId))
    return 'a span has no spanId of 16 hexadecimal digits';
  const start = nanosOf(member(span, 'startTimeUnixNano'));
  const end = nanosOf(member(span, 'endTimeUnixNano'));
  if (start === undefined || end === undefined || end < start)
    return 'a span has no startTimeUnixNano and endTimeUnixNano, in nanoseconds and in that order';
  const status = member(span, 'status');
  const code = member(status, 'code');
  return {
    ...{ traceId, spanId, scope, resource },
    parentSpanId: /^[0-9a-f]{16}$/.test(parentSpanId) && !/^0+$/.test(parentSpanId) ? parentSpanId : '',
    name: textOf(member(span, 'name')),
    startedAt: Number(start / 1_000_000n),
    durationMs: Number(end - start) / 1e6,
    isError: Number(code) === 2 || code === 'STATUS_CODE_ERROR',
    statusMessage: textOf(member(status, 'message')),
    attributes: attributesOf(member(span, 'attributes')),
    events: (listOf(member(span, 'events')) ?? []).slice(0, maxEvents).map((event) => ({
      name: textOf(member(event, 'name')),
      attributes: attributesOf(member(event, 'attributes')),
    })),
  };
}

function attributesOf(value: unknown): SpanAttributes {
  const read = new Map<string, AttributeValue>();
  for (const one of (listOf(value) ?? []).slice(0, maxAttributes)) {
    const key = textOf(member(one, 'key'));
    const found = valueOf(member(one, 'value'), 0);
    if (key !== '' && found !== undefined) read.set(key, found);
  }
  return read;
}

function valueOf(value: unknown, depth: number): AttributeValue | undefined {
  const text = member(value, 'stringValue');
  if (typeof text === 'string') return storable(text);
  const flag = member(value, 'boolValue');
  if (typeof flag === 'boolean') return flag;
  const integer = member(value, 'intValue') ?? member(value, 'doubleValue');
  if (integer !== undefined) return Number.isFinite(Number(integer)) ? Number(integer) : undefined;
  if (depth >= maxDepth) return undefined;
  const items = listOf(member(member(value, 'arrayValue'), 'values'));
  if (items !== undefined) return items.flatMap((item) => valueOf(item, depth + 1) ?? []);
  const entries = listOf(member(member(value, 'kvlistValue'), 'values'));
  if (entries === undefined) return undefined;
  const pairs = entries.flatMap((entry): [string, AttributeValue][] => {
    const inner = valueOf(member(entry, 'value'), depth + 1);
    return inner === undefined ? [] : [[textOf(member(entry, 'key')), inner]];
  });
  return Object.fromEntries(pairs);
}

/** A text, a number or a big integer, as JSON's mapping allows them all. */
function nanosOf(value: unknown): bigint | undefined {
  if (typeof value === 'bigint') return value > 0n ? value : undefined;
  if (typeof value === 'number') return Number.isSafeInteger(value) && value > 0 ? BigInt(value) : undefined;
  return typeof value === 'string' && /^[1-9]\d{0,19}$/.test(value) ? BigInt(value) : undefined;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? storable(value) : '';
}

/** Without what no store takes. */
function storable(text: string): string {
  return isStorable(text) ? text : text.replaceAll('\0', '').replace(/\p{Surrogate}/gu, '\u{fffd}');
}

function listOf(value: unknown): readonly unknown[] | undefined {
  return Array.isArray(value) ? (value as unknown[]) : undefined;
}

function member(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as Record<string, unknown>)[name];
}
