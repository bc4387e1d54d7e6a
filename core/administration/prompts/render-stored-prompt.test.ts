import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { PromptData } from '../../ports/record-kinds.ts';
import { labelSlug, readReference } from './find-prompt.ts';
import { promptRequest } from './prompt-template.ts';

const data: PromptData = {
  template: '',
  parameters: { temperature: 1, stop: null, seed: 3 },
  virtualKey: 'vk',
  model: '@vk/gpt',
  functions: [],
  tools: [{ type: 'function' }],
  toolChoice: 'auto',
  metadata: {},
  isRawTemplate: false,
  defaultVersion: 1,
};

describe('the request of a prompt', () => {
  test('is its messages, its parameters, and what the caller says instead', () => {
    const rendered = { kind: 'messages' as const, messages: [{ role: 'user', content: 'x' }] };
    const sent = { variables: { a: 1 }, temperature: 0, seed: null, stream: true };
    assert.deepEqual(promptRequest(data, rendered, sent), {
      path: '/chat/completions',
      body: {
        messages: [{ role: 'user', content: 'x' }],
        model: 'gpt',
        temperature: 0,
        tools: [{ type: 'function' }],
        tool_choice: 'auto',
        stream: true,
      },
    });
  });

  test('with plain text is one message of a user, or the prompt of a completion', () => {
    const rendered = { kind: 'text' as const, text: 'x' };
    const chat = promptRequest(data, rendered, {});
    assert.deepEqual(
      [chat.path, chat.body['messages']],
      ['/chat/completions', [{ role: 'user', content: 'x' }]],
    );
    const completion = promptRequest({ ...data, metadata: { type: 'completion' } }, rendered, {});
    assert.deepEqual([completion.path, completion.body['prompt']], ['/completions', 'x']);
  });

  test('takes no messages from its caller', () => {
    const rendered = { kind: 'text' as const, text: 'x' };
    for (const name of ['messages', 'prompt'])
      assert.throws(() => promptRequest(data, rendered, { [name]: [] }), {
        code: 'invalid_request',
        param: name,
      });
  });
});

test('references name a version, or none', () => {
  const cases: readonly [string, unknown][] = [
    ['pp-a', { kind: 'default' }],
    ['pp-a@default', { kind: 'default' }],
    ['pp-a@12', { kind: 'number', number: 12 }],
    ['pp-a@latest', { kind: 'latest' }],
    ['pp-a@production', { kind: 'label', label: 'production' }],
  ];
  for (const [text, version] of cases) assert.deepEqual(readReference(text), { idOrSlug: 'pp-a', version });
  for (const text of ['', '@1', 'a@', 'a@b@c', 'a/b', 'a@b c']) assert.equal(readReference(text), undefined);
});

test('slugs of labels have what slugs may have, and differ where names do', () => {
  assert.equal(labelSlug('beta_1'), 'beta_1');
  assert.match(labelSlug('v1.2'), /^[a-zA-Z0-9_-]+$/);
  assert.notEqual(labelSlug('v1.2'), labelSlug('v1-2'));
});
