import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clientWires, contextOf, providerWires } from '../../tests/fuzz/samples.ts';
import { plainRequest } from './openai-chat/codec.test-support.ts';

/** JSON that has no text of its own: `String` throws at it. */
const odd = { toString: 1 };

/** Every place of the value, with the odd one in it. */
function* spoiled(value: unknown): Generator<unknown> {
  if (typeof value !== 'object' || value === null) return;
  for (const [name, member] of Object.entries(value)) {
    const replaced = (by: unknown): unknown =>
      Array.isArray(value)
        ? value.map((item: unknown, at) => (String(at) === name ? by : item))
        : { ...value, [name]: by };
    yield replaced(odd);
    for (const inner of spoiled(member)) yield replaced(inner);
  }
}

for (const wire of providerWires) {
  test(`an object in place of any name or text of an answer or event of ${wire.name} (${wire.host.model}) throws nothing`, () => {
    const context = contextOf(plainRequest, false);
    const answers = wire.answers.filter((_, at) => at % 3 === 0);
    for (const answer of answers.flatMap((one) => [...spoiled(one)])) {
      for (const { dialect, endpoint } of clientWires)
        assert.doesNotThrow(() => dialect.decodeAnswerTexts(endpoint, answer), JSON.stringify(answer));
      const bytes = Buffer.from(JSON.stringify(answer));
      assert.doesNotThrow(() => wire.chat.decodeError(500, bytes));
      try {
        wire.chat.decodeAnswer(bytes, context);
      } catch (error) {
        assert.equal((error as { code?: string }).code, 'upstream_invalid', JSON.stringify(answer));
      }
    }
    for (const events of wire.streams.filter((_, at) => at % 3 === 0))
      for (const [at, event] of events.entries())
        for (const other of spoiled(event)) {
          const reader = wire.chat.eventReader(wire.streamType, context);
          const all = events.map((one, index) => wire.frame(index === at ? other : one));
          assert.doesNotThrow(() => reader.push(Buffer.concat(all)), JSON.stringify(other));
        }
  });
}
