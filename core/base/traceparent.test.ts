import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readTraceParent } from './trace-context.ts';

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const parentId = '00f067aa0ba902b7';
const read = { traceId, parentId, sampled: true };
const unsampled = { ...read, sampled: false };
const cases: readonly [name: string, header: string, read: object | undefined][] = [
  ['version 00', `00-${traceId}-${parentId}-01`, read],
  ['other flags', `00-${traceId}-${parentId}-ff`, read],
  ['not sampled', `00-${traceId}-${parentId}-00`, unsampled],
  ['another flag alone', `00-${traceId}-${parentId}-02`, unsampled],
  ['a later version', `01-${traceId}-${parentId}-00`, unsampled],
  ['a later version with more fields', `cc-${traceId}-${parentId}-01-what-the-future-will-be`, read],
  ['a later version with something else behind it', `cc-${traceId}-${parentId}-01.what`, undefined],
  ['version 00 with more fields', `00-${traceId}-${parentId}-01-more`, undefined],
  ['version ff', `ff-${traceId}-${parentId}-01`, undefined],
  ['no version', `${traceId}-${parentId}-01`, undefined],
  ['no flags', `00-${traceId}-${parentId}`, undefined],
  ['short flags', `00-${traceId}-${parentId}-1`, undefined],
  ['a trace id of zeros', `00-${'0'.repeat(32)}-${parentId}-01`, undefined],
  ['a parent id of zeros', `00-${traceId}-${'0'.repeat(16)}-01`, undefined],
  ['capitals', `00-${traceId.toUpperCase()}-${parentId}-01`, undefined],
  ['a short trace id', `00-${traceId.slice(1)}-${parentId}-01`, undefined],
  ['a long parent id', `00-${traceId}-${parentId}0-01`, undefined],
  ['no hexadecimal', `00-${'g'.repeat(32)}-${parentId}-01`, undefined],
  ['two headers in one', `00-${traceId}-${parentId}-01, 00-${traceId}-${parentId}-01`, undefined],
  ['nothing', '', undefined],
];
for (const [name, header, expected] of cases) {
  test(`traceparent: ${name}`, () => assert.deepEqual(readTraceParent(header), expected));
}
