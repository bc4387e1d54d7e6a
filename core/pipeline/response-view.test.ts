import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openAiChat } from '../../adapters/dialects/openai-chat/index.ts';
import { withoutHeader } from '../ports/header-list.ts';
import { EditableResponse } from './held-answer.ts';

const wire = { dialect: openAiChat, endpoint: { id: 'chat.completions' } } as const;
const view = (text: string, headers: readonly string[] = []) =>
  new EditableResponse({ status: 200, headers, bytes: Buffer.from(text) }, 'provider', wire);

describe('an answer under the eyes of a hook', () => {
  it('keeps its very bytes until it is changed', () => {
    const bytes = Buffer.from('{"a":1}');
    const answer = new EditableResponse({ status: 200, headers: [], bytes }, 'provider', wire);
    assert.deepEqual(answer.json, { a: 1 });
    answer.remove(['b']);
    answer.set(['a'], 1);
    assert.equal(answer.bytes, bytes);
    answer.set(['a'], 2);
    assert.deepEqual([answer.bytes.toString(), answer.text, answer.json], ['{"a":2}', '{"a":2}', { a: 2 }]);
  });

  it('is changed before anybody has looked at it', () => {
    const answer = view('{"a":1,"b":2}');
    answer.remove(['a']);
    assert.equal(answer.text, '{"b":2}');
  });

  it('that is no JSON: set refuses, remove has nothing to do', () => {
    const answer = view('<html>');
    assert.equal(answer.json, undefined);
    assert.throws(() => answer.set(['a'], 1), { code: 'upstream_invalid' });
    answer.remove(['a']);
    assert.equal(answer.text, '<html>');
  });

  it('headers are set and removed whatever their case, all of a name', () => {
    const answer = view('', ['X-A', '1', 'x-b', '2', 'x-a', '3']);
    answer.setHeader('X-a', '4');
    assert.deepEqual(answer.headers, ['x-b', '2', 'X-a', '4']);
    answer.removeHeader('X-B');
    answer.removeHeader('x-never');
    assert.deepEqual(answer.headers, ['X-a', '4']);
  });

  it('withoutHeader leaves the list alone that it was given', () => {
    const headers = ['A', '1', 'b', '2'];
    assert.deepEqual(withoutHeader(headers, 'a'), ['b', '2']);
    assert.deepEqual(headers, ['A', '1', 'b', '2']);
  });
});
