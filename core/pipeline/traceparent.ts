/** Where a request stands in somebody else's trace. */
export interface TraceParent {
  readonly traceId: string;
  readonly parentId: string;
  /** Whoever sent it records the trace. */
  readonly sampled: boolean;
}

const form = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const zeros = /^0+$/;

/**
 * Reads the header `traceparent` of W3C Trace Context. Undefined for one that the standard says to ignore: another form,
 * capitals, an id of zeros, version `ff`, more than four fields in version `00`.
 */
export function readTraceParent(header: string): TraceParent | undefined {
  const match = form.exec(header);
  if (match === null) return undefined;
  const [, version, traceId = '', parentId = '', flags = '', rest] = match;
  if (version === 'ff' || (version === '00' && rest !== undefined)) return undefined;
  if (zeros.test(traceId) || zeros.test(parentId)) return undefined;
  return { traceId, parentId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}
