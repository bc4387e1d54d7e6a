import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseFieldPath, readField, type RequestFields } from './field-path.ts';

const fields: RequestFields = {
  metadata: { user: 'ada', 'a.b': 'dotted' },
  params: {
    model: 'gpt-4o',
    temperature: 0,
    user: null,
    seed: 2n ** 60n,
    tools: [{ function: { name: 'search' } }],
    byNumber: { 0: 'zero' },
  },
  url: { pathname: '/v1/chat/completions' },
  traceId: 'trace-1',
  apiKeyId: 'key-1',
};

describe('reading a field', () => {
  const cases: readonly [path: string, value: unknown][] = [
    ['metadata.user', 'ada'],
    ['metadata["a.b"]', 'dotted'],
    ['metadata.other', undefined],
    ['metadata.constructor', undefined],
    ['metadata.__proto__', undefined],
    ['params.model', 'gpt-4o'],
    ['params.temperature', 0],
    ['params.user', null],
    ['params.user.id', undefined],
    ['params.seed', 2n ** 60n],
    ['params.tools[0].function.name', 'search'],
    ['params.tools[1].function.name', undefined],
    ['params.tools.length', undefined],
    ['params.tools.0', undefined],
    ['params.byNumber[0]', undefined],
    ['params.byNumber.0', 'zero'],
    ['params.model[0]', undefined],
    ['params.model.length', undefined],
    ['params.constructor', undefined],
    ['params.toString.name', undefined],
    ['url.pathname', '/v1/chat/completions'],
    ['trace_id', 'trace-1'],
    ['api_key', 'key-1'],
    ['api_key.id', 'key-1'],
  ];
  for (const [text, value] of cases)
    it(`${text} is ${String(value)}`, () => {
      const path = parseFieldPath(text);
      assert.ok(path);
      assert.equal(readField(fields, path), value);
    });

  it('finds nothing in a body that is no JSON, and no identity where there is none', () => {
    const bare: RequestFields = { ...fields, params: undefined, traceId: '', apiKeyId: '' };
    for (const path of [['params', 'model'], ['trace_id'], ['api_key', 'id'], ['headers', 'x'], []])
      assert.equal(readField(bare, path), undefined);
  });

  it('reads a body that is a list', () => {
    assert.equal(readField({ ...fields, params: ['a', { b: 1 }] }, ['params', 1, 'b']), 1);
  });
});
