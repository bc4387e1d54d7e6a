import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noUsage } from '../../core/dialects/usage.ts';
import { type StoredAnswer, storedForm } from './stored-answer.ts';

const plain: StoredAnswer = {
  form: 'json',
  headers: ['content-type', 'application/json'],
  body: Buffer.from('{"says":"ä\n\\"}'),
  model: 'model-1',
  finishReason: 'stop',
  usage: { ...noUsage, promptTokens: 42, completionTokens: 97, totalTokens: 139 },
  tellsUsage: true,
  askedAt: 1000,
  storedAt: 2000,
};

/** Each differs from the first one in one thing. */
const answers: readonly StoredAnswer[] = [
  plain,
  { ...plain, form: 'stream' },
  { ...plain, headers: [] },
  { ...plain, headers: ['content-type', 'application/json; charset=utf-8'] },
  { ...plain, headers: [...plain.headers, 'content-language', 'de'] },
  { ...plain, model: 'a "model"\n\u{1f600}' },
  { ...plain, finishReason: '' },
  { ...plain, tellsUsage: false },
  { ...plain, usage: undefined },
  { ...plain, usage: { ...noUsage, promptTokens: 1 } },
  { ...plain, askedAt: 1001 },
  { ...plain, body: Buffer.alloc(0) },
  { ...plain, body: Buffer.alloc(100_000, 'long ') },
];

test('an answer is read as it was written, whatever was written before it', () => {
  for (const before of answers) {
    for (const answer of answers) {
      storedForm.encode(before);
      // The bytes are good until the next call.
      const bytes = new Uint8Array(storedForm.encode(answer));
      assert.deepEqual(storedForm.decode(bytes, answer.storedAt), answer);
    }
  }
});

test('what nobody here wrote is no answer', () => {
  const lines = ['', '{}', '{}\n', 'x\n', '{"form":"json"}\n{}', '[]\n{}', 'null\n', '{"form":"json"'];
  for (const line of lines) assert.equal(storedForm.decode(Buffer.from(line), 0), undefined, line);
});
