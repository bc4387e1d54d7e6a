import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { describeFieldPath, type FieldPath, parseFieldPath } from './field-path.ts';

describe('the path of a field', () => {
  const cases: readonly [text: string, path: FieldPath | undefined][] = [
    ['metadata.user', ['metadata', 'user']],
    ['metadata._user-id', ['metadata', '_user-id']],
    ['metadata["a.b"]', ['metadata', 'a.b']],
    ['metadata["say \\"hi\\""]', ['metadata', 'say "hi"']],
    ['metadata["*"]', ['metadata', '*']],
    ['params.model', ['params', 'model']],
    ['params.tools[0].function.name', ['params', 'tools', 0, 'function', 'name']],
    ['params.grid[1][2]', ['params', 'grid', 1, 2]],
    ['params[0]', ['params', 0]],
    ['params.a["b.c"].d', ['params', 'a', 'b.c', 'd']],
    ['params.constructor', ['params', 'constructor']],
    ['url.pathname', ['url', 'pathname']],
    ['trace_id', ['trace_id']],
    ['api_key', ['api_key']],
    ['api_key.id', ['api_key', 'id']],
    ['', undefined],
    ['.', undefined],
    ['.metadata.user', undefined],
    ['metadata', undefined],
    ['metadata.', undefined],
    ['metadata..user', undefined],
    ['metadata.a.b', undefined],
    ['metadata[0]', undefined],
    ['metadata.*', undefined],
    ['metadatauser', undefined],
    ['metadata["a"', undefined],
    ['metadata["\\q"]', undefined],
    ['params', undefined],
    ['params.messages[*]', undefined],
    ['params.messages[-1]', undefined],
    ['params.messages[1e3]', undefined],
    ['params.messages[1234567890]', undefined],
    ['params.messages[]', undefined],
    ['params.messages]', undefined],
    ['url', undefined],
    ['url.host', undefined],
    ['url.pathname.x', undefined],
    ['trace_id.x', undefined],
    ['api_key.secret', undefined],
    ['headers.x', undefined],
    ['Params.model', undefined],
    ['__proto__.x', undefined],
  ];
  for (const [text, path] of cases)
    it(`${JSON.stringify(text)} is ${path === undefined ? 'none' : JSON.stringify(path)}`, () => {
      assert.deepEqual(parseFieldPath(text), path);
    });

  it('has at most 32 parts', () => {
    assert.equal(parseFieldPath(`params${'.a'.repeat(31)}`)?.length, 32);
    assert.equal(parseFieldPath(`params${'.a'.repeat(32)}`), undefined);
  });

  it('is described by the text that reads as it', () => {
    const part = fc.oneof(fc.string({ unit: 'binary' }), fc.nat(999_999_999));
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 31 }), (parts) => {
        const path = ['params', ...parts];
        assert.deepEqual(parseFieldPath(describeFieldPath(path)), path);
      }),
    );
  });

  it('never throws', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        for (const root of ['', 'params', 'metadata.']) parseFieldPath(root + text);
      }),
    );
  });
});
