import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { ChatEvent } from './chat-event.ts';
import { SequentialParts } from './sequential-parts.ts';

const label = (event: ChatEvent) => ('part' in event ? `${event.type}:${event.part}` : event.type);
const begin = (part: number): ChatEvent => ({
  type: 'part-start',
  choice: 0,
  part,
  head: { type: 'text', text: '' },
});
const say = (part: number, text = 'x'): ChatEvent => ({ type: 'text-delta', choice: 0, part, text });
const end = (part: number): ChatEvent => ({ type: 'part-end', choice: 0, part });

test('interleaved parts come out one behind the other', () => {
  const parts = new SequentialParts();
  const given = [begin(0), begin(1), say(1), say(0), begin(2), end(2), end(0), say(1), end(1)];
  assert.deepEqual(given.flatMap((event) => parts.push(event)).map(label), [
    ...['part-start:0', 'text-delta:0', 'part-end:0'],
    ...['part-start:1', 'text-delta:1', 'text-delta:1', 'part-end:1'],
    ...['part-start:2', 'part-end:2'],
  ]);
});

test('other choices do not pass, events of the whole answer do', () => {
  const parts = new SequentialParts();
  assert.deepEqual(parts.push({ ...begin(0), choice: 1 } as ChatEvent), []);
  assert.deepEqual(parts.push({ type: 'end' }), [{ type: 'end' }]);
});

test('any interleaving: nothing is lost, no two parts overlap, each keeps its order', () => {
  const order = fc.shuffledSubarray([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2], { minLength: 12, maxLength: 12 });
  fc.assert(
    fc.property(order, (turns) => {
      const steps = [0, 1, 2].map((part) => [begin(part), say(part, 'a'), say(part, 'b'), end(part)]);
      const given = turns.map((part) => steps[part]?.shift() as ChatEvent);
      const parts = new SequentialParts();
      const out = given.flatMap((event) => parts.push(event));
      assert.equal(out.length, 12);
      for (let i = 0; i < 12; i += 4) {
        const part = (out[i] as { part: number }).part;
        assert.deepEqual(out.slice(i, i + 4), [begin(part), say(part, 'a'), say(part, 'b'), end(part)]);
      }
    }),
  );
});

test('what waits is bounded', () => {
  const parts = new SequentialParts();
  parts.push(begin(0));
  parts.push(begin(1));
  assert.throws(() => parts.push(say(1, 'x'.repeat(17 * 1024 * 1024))), RangeError);
});
