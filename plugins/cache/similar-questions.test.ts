import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { attemptContext, type TestAttempt } from '../../tests/kit/attempt-kit.ts';
import { questionOf, type Question, type QuestionRules } from './similar-questions.ts';

const rules: QuestionRules = { ignoreSystemPrompt: false, space: 'openai small' };
const ask = async (
  attempt: TestAttempt,
  change: Partial<QuestionRules> = {},
): Promise<Question | undefined> => questionOf(await attemptContext(attempt), { ...rules, ...change });

const user = (content: unknown) => ({ role: 'user', content });
const system = { role: 'system', content: 'Be brief.' };
const chat = (messages: readonly object[], more: object = {}): TestAttempt => ({
  body: { model: 'm', messages, ...more },
});

describe('what is embedded', () => {
  const gemini = '/v1beta/models/gemini:generateContent';
  const table: readonly (readonly [string, TestAttempt, string])[] = [
    ['a chat', chat([user('Hello')]), 'Hello'],
    ['a chat without its instructions', chat([system, user('Hello')]), 'Hello'],
    [
      'a chat with several turns',
      chat([user('a'), { role: 'assistant', content: 'b' }, user([{ type: 'text', text: 'c' }])]),
      'user: a\n\nassistant: b\n\nuser: c',
    ],
    ['messages', { path: '/messages', body: { model: 'm', system: 'x', messages: [user('Hi')] } }, 'Hi'],
    ['responses', { path: '/responses', body: { model: 'm', instructions: 'x', input: 'Hi' } }, 'Hi'],
    ['a list of responses', { path: '/responses', body: { model: 'm', input: [user('Hi')] } }, 'Hi'],
    ['a completion', { path: '/completions', body: { model: 'm', prompt: 'Hi' } }, 'Hi'],
    [
      'Gemini',
      {
        path: gemini,
        body: { systemInstruction: { parts: [{ text: 'x' }] }, contents: [{ parts: [{ text: 'Hi' }] }] },
      },
      'Hi',
    ],
  ];
  for (const [what, attempt, text] of table) {
    test(what, async () => assert.equal((await ask(attempt))?.text, text));
  }
});

describe('what is not compared by similarity', () => {
  const turns = (count: number) => Array.from({ length: count }, (_, at) => user(`turn ${at}`));
  const table: readonly (readonly [string, TestAttempt, boolean])[] = [
    ['four messages are', chat(turns(4)), true],
    ['instructions do not count', chat([system, ...turns(4), { role: 'developer', content: 'x' }]), true],
    ['five messages', chat(turns(5)), false],
    ['five, of which one holds no text', chat([...turns(4), user([{ type: 'image_url' }])]), false],
    ['no message of a user', chat([system, { role: 'assistant', content: 'Hello' }]), false],
    ['only spaces', chat([user(' \n')]), false],
    ['8,190 tokens are', chat([user('a'.repeat(4 * 8190))]), true],
    ['more than 8,190 tokens', chat([user('a'.repeat(4 * 8190 + 1))]), false],
    ['and in bytes', chat([user('ü'.repeat(2 * 8190 + 1))]), false],
    ['embeddings', { path: '/embeddings', body: { model: 'm', input: 'Hello' } }, false],
    ['moderations', { path: '/moderations', body: { model: 'm', input: 'Hello' } }, false],
    ['what no wire knows', { body: { model: 'm', messages: 'Hello' } }, false],
  ];
  for (const [what, attempt, is] of table) {
    test(what, async () => assert.equal((await ask(attempt)) !== undefined, is));
  }
});

describe('the partition', () => {
  const base = chat([system, user('Hello')]);
  const digest = async (attempt: TestAttempt, change: Partial<QuestionRules> = {}) =>
    (await ask(attempt, change))?.partition.digest;
  const image = { type: 'image_url', image_url: { url: 'https://a' } };

  const same: readonly (readonly [string, TestAttempt])[] = [
    ['another text', chat([system, user('Good morning')])],
    ['a stream', chat([system, user('Hello')], { stream: true, stream_options: { include_usage: true } })],
    [
      'another order of members',
      { body: { messages: [system, { content: 'x', role: 'user' }], model: 'm' } },
    ],
  ];
  for (const [what, attempt] of same) {
    test(`is the same for ${what}`, async () => assert.equal(await digest(attempt), await digest(base)));
  }

  const different: readonly (readonly [string, TestAttempt])[] = [
    ['other instructions', chat([{ ...system, content: 'Be long.' }, user('Hello')])],
    ['no instructions', chat([user('Hello')])],
    ['a turn more', chat([system, user('Hello'), user('there')])],
    ['another role', chat([system, { role: 'assistant', content: 'x' }, user('Hello')])],
    ['text in parts', chat([system, user([{ type: 'text', text: 'Hello' }])])],
    ['a picture', chat([system, user([{ type: 'text', text: 'Hello' }, image])])],
    ['a name', chat([system, { ...user('Hello'), name: 'ann' }])],
    ['another model', chat([system, user('Hello')], { model: 'm-2' })],
    ['a parameter', chat([system, user('Hello')], { temperature: 0 })],
    ['tools', chat([system, user('Hello')], { tools: [{ type: 'function' }] })],
    ['what a tool said', chat([system, user('Hello'), { role: 'tool', content: '42' }])],
    ['a large number', chat([system, user('Hello')], { seed: 1 })],
    ['metadata', { ...base, facts: { metadata: { team: 'a' } } }],
    ['another target', { ...base, target: 'target-2' }],
    ['another workspace', { ...base, facts: { workspaceId: 'ws-2' } }],
    ['another organisation', { ...base, facts: { organisationId: 'org-2' } }],
    ['a namespace', { ...base, headers: { 'x-service-cache-namespace': 'docs' } }],
    ['a version of the API', { ...base, headers: { 'anthropic-version': '1' } }],
  ];
  for (const [what, attempt] of different) {
    test(`is another one for ${what}`, async () => {
      assert.ok(await digest(attempt));
      assert.notEqual(await digest(attempt), await digest(base));
    });
  }

  test('what tools said must be the same', async () => {
    const said = (content: string) => chat([user('Hello'), { role: 'tool', tool_call_id: 'c', content }]);
    assert.notEqual(await digest(said('42')), await digest(said('43')));
  });

  test('members that look like a prototype count', async () => {
    const body = (value: number) => ({
      body: `{"model":"m","messages":[{"role":"user","content":"x"}],"__proto__":{"a":${value}}}`,
      headers: { 'content-type': 'application/json' },
    });
    assert.notEqual(await digest(body(1)), await digest(body(2)));
  });

  test('vectors of different models are never compared', async () => {
    assert.notEqual(await digest(base, { space: 'openai large' }), await digest(base));
  });

  test('the request’s body stays as it is', async () => {
    const context = await attemptContext(base);
    const before = JSON.stringify(context.json);
    questionOf(context, { ...rules, ignoreSystemPrompt: true });
    assert.equal(JSON.stringify(context.json), before);
  });
});

describe('ignore_system_prompt', () => {
  const ignoring = { ignoreSystemPrompt: true };
  const pairs: readonly (readonly [string, TestAttempt, TestAttempt])[] = [
    ['a chat', chat([system, user('x')]), chat([{ ...system, content: 'Be long.' }, user('x')])],
    ['a chat, and none at all', chat([system, user('x')]), chat([user('x')])],
    ['a chat with a developer', chat([{ role: 'developer', content: 'y' }, user('x')]), chat([user('x')])],
    [
      'messages',
      { path: '/messages', body: { messages: [user('x')], system: [{ type: 'text', text: 'a' }] } },
      { path: '/messages', body: { messages: [user('x')] } },
    ],
    [
      'responses',
      {
        path: '/responses',
        body: { instructions: 'a', input: [{ role: 'developer', content: 'b' }, user('x')] },
      },
      { path: '/responses', body: { input: [user('x')] } },
    ],
  ];
  for (const [what, one, other] of pairs) {
    test(what, async () => {
      const [a, b] = [await ask(one, ignoring), await ask(other, ignoring)];
      assert.ok(a);
      assert.deepEqual(a.partition, b?.partition);
      assert.notDeepEqual((await ask(one))?.partition, (await ask(other))?.partition);
    });
  }
});
