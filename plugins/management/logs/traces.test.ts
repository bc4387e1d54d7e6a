import assert from 'node:assert/strict';
import { test } from 'node:test';
import { requestRow, storedTime, dayStart } from '../../../tests/conformance/analytics-rows.ts';
import { traceTree, type TraceNode } from './traces.ts';

const row = (span_id: string, parent_span_id: string, ms = 0, given = {}) =>
  requestRow({ span_id, parent_span_id, created_at: storedTime(dayStart + ms), ...given });

/** The tree in brackets: `a(b,c)`. */
const drawn = (nodes: readonly TraceNode[]): string =>
  nodes
    .map((node) => `${node.span_id}${node.children.length === 0 ? '' : `(${drawn(node.children)})`}`)
    .join(',');

test('requests stand below those that they came from', () => {
  assert.equal(drawn(traceTree([row('a', ''), row('b', 'a'), row('c', 'b'), row('d', 'a')])), 'a(b(c),d)');
});

test('a child may have come first', () => {
  assert.equal(drawn(traceTree([row('b', 'a'), row('a', '')])), 'a(b)');
});

test('without a parent that is there, at the root', () => {
  const [orphan, alone, ...others] = traceTree([row('a', 'gone'), row('', ''), row('', 'a')]);
  assert.deepEqual([orphan?.children.length, alone?.children.length, others.length], [1, 0, 0]);
});

test('circles end', () => {
  assert.equal(drawn(traceTree([row('a', 'a')])), 'a');
  assert.equal(drawn(traceTree([row('a', 'b'), row('b', 'a')])), 'b(a)');
  assert.equal(drawn(traceTree([row('a', 'c'), row('b', 'a'), row('c', 'b'), row('d', 'c')])), 'c(a(b),d)');
});

test('of two with one span id the oldest has the children', () => {
  const [first, second] = traceTree([row('a', ''), row('a', ''), row('b', 'a')]);
  assert.deepEqual([first?.children.length, second?.children.length], [1, 0]);
});

test('a long chain', () => {
  const rows = Array.from({ length: 1000 }, (_, index) =>
    row(`s${index}`, index === 0 ? '' : `s${index - 1}`),
  );
  let depth = 0;
  for (let at = traceTree(rows)[0]; at !== undefined; at = at.children[0]) depth += 1;
  assert.equal(depth, 1000);
});

test('what a node says', () => {
  const given = {
    span_name: 'plan',
    latency_ms: 5.5,
    cost: '0.250000000000',
    status: 502,
    is_success: false,
  };
  const [, node] = traceTree([row('a', ''), row('b', '', 1500, given)]);
  assert.deepEqual(
    [node?.name, node?.start_ms, node?.duration_ms, node?.cost, node?.status, node?.total_tokens],
    ['plan', 1500, 5.5, 0.25, 502, 30],
  );
  assert.equal(traceTree([row('a', '')])[0]?.name, 'chat.completions');
  assert.deepEqual(traceTree([]), []);
});
