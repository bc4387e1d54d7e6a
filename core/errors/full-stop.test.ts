import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withFullStop, withoutFullStop } from './gateway-error.ts';

test('a text ends like a sentence, once', () => {
  for (const [text, wanted] of [
    ['there is no provider', 'there is no provider.'],
    ['it ends.', 'it ends.'],
    ['did you mean "openai"?', 'did you mean "openai"?'],
    ['stop!', 'stop!'],
    ['and so on …', 'and so on ….'],
    ['', ''],
  ] as const)
    assert.equal(withFullStop(text), wanted);
  assert.equal(withoutFullStop('It ends.'), 'It ends');
  assert.equal(withoutFullStop('Did it?'), 'Did it?');
});
