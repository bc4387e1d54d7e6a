/** A collector for tests: takes OTLP over HTTP on a real socket, and answers what the test says. */
import type { ServerResponse } from 'node:http';
import { startUpstream, type Ending, type ReceivedRequest, type Upstream } from './http-kit.ts';

/** A span as the collector received it, its attributes by name. */
interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly traceState: string | undefined;
  readonly name: string;
  readonly kind: number;
  readonly startMs: number;
  readonly endMs: number;
  readonly status: { readonly code?: number; readonly message?: string } | undefined;
  readonly attributes: Readonly<Record<string, unknown>>;
}

/** A collector that listens. */
export interface TestCollector extends Upstream {
  /** All spans of the batches that were taken, in their order. */
  spans(): ReceivedSpan[];
  /** The resource of the first batch. */
  resource(): Readonly<Record<string, unknown>>;
  /** This many batches have come. */
  untilBatches(count: number): Promise<void>;
}

/** Starts a collector; it ends with the test. `answer` is for each batch in turn, by default 200 for all. */
export async function startCollector(
  t: Ending,
  answer: (response: ServerResponse, batch: number, request: ReceivedRequest) => void = (response) =>
    void response.end('{}'),
): Promise<TestCollector> {
  const taken: Export[] = [];
  const waiting: { readonly count: number; readonly resolve: () => void }[] = [];
  let batches = 0;
  const upstream = await startUpstream(t, (request, response) => {
    batches++;
    response.on('finish', () => {
      if (response.statusCode < 300) taken.push(JSON.parse(request.body.toString('utf8')) as Export);
    });
    answer(response, batches, request);
    for (const one of waiting.splice(0)) {
      if (batches >= one.count) setImmediate(one.resolve);
      else waiting.push(one);
    }
  });
  return Object.assign(upstream, {
    spans: () =>
      taken.flatMap((one) =>
        one.resourceSpans.flatMap(({ scopeSpans }) =>
          scopeSpans.flatMap(({ spans }) => spans.map((span) => readSpan(span))),
        ),
      ),
    resource: () => readAttributes(taken[0]?.resourceSpans[0]?.resource.attributes ?? []),
    untilBatches: (count: number) =>
      batches >= count
        ? Promise.resolve()
        : new Promise<void>((resolve) => void waiting.push({ count, resolve })),
  });
}

interface Export {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly RawSpan[] }[];
  }[];
}

interface Attribute {
  readonly key: string;
  readonly value: {
    readonly stringValue?: string;
    readonly intValue?: string;
    readonly doubleValue?: number;
    readonly boolValue?: boolean;
    readonly arrayValue?: { readonly values: readonly Attribute['value'][] };
  };
}

interface RawSpan extends Omit<ReceivedSpan, 'attributes' | 'startMs' | 'endMs'> {
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly Attribute[];
}

/** A span of OTLP's JSON, its attributes by name. */
export function readSpan(span: RawSpan | string): ReceivedSpan {
  const {
    startTimeUnixNano: start,
    endTimeUnixNano: end,
    attributes,
    parentSpanId,
    traceState,
    status,
    ...rest
  } = typeof span === 'string' ? (JSON.parse(span) as RawSpan) : span;
  return {
    ...rest,
    parentSpanId,
    traceState,
    status,
    startMs: millis(start),
    endMs: millis(end),
    attributes: readAttributes(attributes),
  };
}

/** A number would not hold the nanoseconds since the epoch. */
function millis(nanos: string): number {
  return Number(nanos.slice(0, -6)) + Number(nanos.slice(-6)) / 1e6;
}

function readAttributes(attributes: readonly Attribute[]): Record<string, unknown> {
  const names = attributes.map(({ key }) => key);
  if (new Set(names).size !== names.length) throw new Error(`An attribute stands twice: ${names.join(', ')}`);
  return Object.fromEntries(attributes.map(({ key, value }) => [key, readValue(value)]));
}

function readValue(value: Attribute['value']): unknown {
  if (value.intValue !== undefined) return Number(value.intValue);
  if (value.arrayValue !== undefined) return value.arrayValue.values.map(readValue);
  return value.stringValue ?? value.doubleValue ?? value.boolValue;
}
