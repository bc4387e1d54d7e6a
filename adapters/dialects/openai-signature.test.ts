import assert from 'node:assert/strict';
import { it } from 'node:test';
import { isOpenAiSignature } from './openai-shapes.ts';

it('tells OpenAI’s encrypted reasoning from the signatures of others', () => {
  assert.ok(isOpenAiSignature('gAAAAABpEm2kq1'));
  assert.ok(!isOpenAiSignature('EqQBCkgIChABGAIqQ'));
  assert.ok(!isOpenAiSignature(''));
});
