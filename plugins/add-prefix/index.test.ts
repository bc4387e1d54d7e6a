import type { EndpointId } from '../../core/dialects/endpoint.ts';
import type { JsonValue } from '../../core/pipeline/context.ts';
import { subject } from '../guardrails/checks/subject.test-support.ts';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { optionErrors, TestContext, testScope, type TestRequest } from '../../tests/kit/plugin-kit.ts';
import addPrefix, { type AddPrefixOptions } from './index.ts';

/** The body that leaves, as text. */
async function prefixed(options: Partial<AddPrefixOptions>, request: TestRequest): Promise<string> {
  const hooks = await addPrefix.create({ prefix: 'P: ', ...options }, testScope().scope);
  const context = new TestContext(request);
  await hooks.request?.(context);
  await context.body.load();
  return context.body.text;
}

const user = (content: unknown) => ({ role: 'user', content });
const system = (content: unknown) => ({ role: 'system', content });
const assistant = (content: unknown) => ({ role: 'assistant', content });
const text = (value: string, type = 'text') => ({ type, text: value });
const image = { type: 'image_url', image_url: { url: 'https://example.test/a.png' } };

describe('add-prefix: chat messages', () => {
  // Options, messages as sent, messages as they leave.
  const cases: [string, Partial<AddPrefixOptions>, unknown[], unknown[]][] = [
    [
      'the last user message',
      {},
      [user('one'), assistant('x'), user('two')],
      [user('one'), assistant('x'), user('P: two')],
    ],
    [
      'the user message before the assistant spoke',
      {},
      [user('one'), assistant('x')],
      [user('P: one'), assistant('x')],
    ],
    [
      'the first text part',
      {},
      [user([image, text('a'), text('b')])],
      [user([image, text('P: a'), text('b')])],
    ],
    ['a message of images alone', {}, [user([image])], [user([image, text('P: ')])]],
    ['no user message', {}, [system('s')], [system('s')]],
    ['no messages', {}, [], []],
    ['messages that are none', {}, [null, 'x', 1], [null, 'x', 1]],

    ['the system message', { applyToRole: 'system' }, [system('s'), user('u')], [system('P: s'), user('u')]],
    [
      'a developer message',
      { applyToRole: 'system' },
      [{ role: 'developer', content: 's' }],
      [{ role: 'developer', content: 'P: s' }],
    ],
    ['a system message that is missing', { applyToRole: 'system' }, [user('u')], [system('P: '), user('u')]],
    [
      'an assistant message',
      { applyToRole: 'assistant' },
      [assistant('a'), user('u')],
      [assistant('P: a'), user('u')],
    ],
    [
      'an assistant message without content',
      { applyToRole: 'assistant' },
      [assistant(null)],
      [assistant('P: ')],
    ],

    [
      'a message of its own',
      { addToExisting: false },
      [user('one'), user('two')],
      [user('one'), user('P: '), user('two')],
    ],
    [
      'a message of its own where there was none',
      { addToExisting: false, applyToRole: 'assistant' },
      [user('u')],
      [user('u'), assistant('P: ')],
    ],
    [
      'a system message of its own',
      { addToExisting: false, applyToRole: 'system' },
      [{ role: 'developer', content: 's' }],
      [
        { role: 'developer', content: 'P: ' },
        { role: 'developer', content: 's' },
      ],
    ],

    ['onlyIfEmpty and a text', { onlyIfEmpty: true }, [user('hi')], [user('hi')]],
    ['onlyIfEmpty and spaces', { onlyIfEmpty: true }, [user(' \n')], [user('P:  \n')]],
    [
      'onlyIfEmpty and a text in a later part',
      { onlyIfEmpty: true },
      [user([text(''), text('b')])],
      [user([text(''), text('b')])],
    ],
    ['onlyIfEmpty and empty parts', { onlyIfEmpty: true }, [user([text('')])], [user([text('P: ')])]],
    [
      'onlyIfEmpty and a missing system message',
      { onlyIfEmpty: true, applyToRole: 'system' },
      [user('u')],
      [system('P: '), user('u')],
    ],
    [
      'onlyIfEmpty, a message of its own and a text',
      { onlyIfEmpty: true, addToExisting: false },
      [user('hi')],
      [user('hi')],
    ],
    [
      'onlyIfEmpty, a message of its own and no text',
      { onlyIfEmpty: true, addToExisting: false },
      [user('')],
      [user('P: '), user('')],
    ],
  ];
  for (const [name, options, sent, expected] of cases) {
    test(name, async () => {
      const leaves = await prefixed(options, { body: { model: 'm', messages: sent } });
      assert.deepEqual(JSON.parse(leaves), { model: 'm', messages: expected });
    });
  }
});

describe('add-prefix: other endpoints', () => {
  const toolResult = { type: 'tool_result', tool_use_id: 't', content: 'done' };
  const cases: [string, string, Partial<AddPrefixOptions>, object, object][] = [
    ['completions', '/completions', {}, { prompt: 'a' }, { prompt: 'P: a' }],
    ['several prompts', '/completions', {}, { prompt: ['a', 'b'] }, { prompt: ['P: a', 'P: b'] }],
    [
      'several prompts, the empty one only',
      '/completions',
      { onlyIfEmpty: true },
      { prompt: ['a', ''] },
      { prompt: ['a', 'P: '] },
    ],
    ['a prompt of tokens', '/completions', {}, { prompt: [1, 2] }, { prompt: [1, 2] }],
    [
      'completions have no system',
      '/completions',
      { applyToRole: 'system' },
      { prompt: 'a' },
      { prompt: 'a' },
    ],
    [
      'a text has no message of its own',
      '/completions',
      { addToExisting: false },
      { prompt: 'a' },
      { prompt: 'P: a' },
    ],
    ['responses, a text', '/responses', {}, { input: 'a' }, { input: 'P: a' }],
    [
      'responses, messages',
      '/responses',
      {},
      { input: [user([text('a', 'input_text')])] },
      { input: [user([text('P: a', 'input_text')])] },
    ],
    [
      'responses, an image alone',
      '/responses',
      {},
      { input: [user([image])] },
      { input: [user([image, text('P: ', 'input_text')])] },
    ],
    [
      'responses, instructions',
      '/responses',
      { applyToRole: 'system' },
      { input: 'a', instructions: 'i' },
      { input: 'a', instructions: 'P: i' },
    ],
    [
      'responses, instructions that are missing',
      '/responses',
      { applyToRole: 'system' },
      { input: 'a' },
      { input: 'a', instructions: 'P: ' },
    ],
    ['messages', '/messages', {}, { messages: [user('a')] }, { messages: [user('P: a')] }],
    [
      'messages, system text',
      '/messages',
      { applyToRole: 'system' },
      { system: 's', messages: [] },
      { system: 'P: s', messages: [] },
    ],
    [
      'messages, system parts',
      '/messages',
      { applyToRole: 'system' },
      { system: [text('s')] },
      { system: [text('P: s')] },
    ],
    [
      'messages, no system',
      '/messages',
      { applyToRole: 'system' },
      { messages: [] },
      { messages: [], system: 'P: ' },
    ],
    [
      'tool results are no user input',
      '/messages',
      {},
      { messages: [user('a'), user([toolResult])] },
      { messages: [user('P: a'), user([toolResult])] },
    ],
    [
      'tool results stay first',
      '/messages',
      {},
      { messages: [user([toolResult, image])] },
      { messages: [user([toolResult, image, text('P: ')])] },
    ],
    ['embeddings', '/embeddings', {}, { input: 'a' }, { input: 'a' }],
    ['moderations', '/moderations', {}, { input: 'a' }, { input: 'a' }],
    ['an unmodelled path', '/images/generations', {}, { prompt: 'a' }, { prompt: 'a' }],
  ];
  for (const [name, path, options, sent, expected] of cases) {
    test(name, async () =>
      assert.deepEqual(JSON.parse(await prefixed(options, { path, body: sent })), expected),
    );
  }
});

test('add-prefix: every other byte stays as it was sent', async () => {
  const body = '{ "seed":9223372036854775807, "messages":[ {"role":"user" , "content":"hi"} ],"t":1.0 }';
  const leaves = await prefixed({ prefix: 'say "please"\n' }, { body });
  assert.equal(leaves, body.replace('"hi"', '"say \\"please\\"\\nhi"'));
});

test('add-prefix: a message of its own keeps the digits of long integers beside it', async () => {
  const body = '{"messages":[{"role":"user","content":"hi","tag":9223372036854775807}]}';
  const leaves = await prefixed({ addToExisting: false }, { body });
  assert.match(leaves, /"tag":9223372036854775807/);
});

test('add-prefix: bodies that it cannot read pass unchanged, and others are not even read', async () => {
  for (const body of ['', 'no json', '[]', '"text"', '{"messages":{"role":"user"}}', '{"messages":null}']) {
    assert.equal(await prefixed({}, { body }), body);
  }
  const hooks = await addPrefix.create({ prefix: 'P' }, testScope().scope);
  const upload = new TestContext({ path: '/files', body: 'data' });
  await hooks.request?.(upload);
  assert.equal(upload.body.loaded, false);
});

test('add-prefix: many prompts take linear time, in one change', async () => {
  const hooks = await addPrefix.create({ prefix: 'P' }, testScope().scope);
  const context = new TestContext({
    path: '/completions',
    body: { prompt: Array<string>(20_000).fill('a') },
  });
  await context.body.load();
  let changes = 0;
  const set = context.body.set.bind(context.body);
  context.body.set = (path, value) => {
    changes += 1;
    set(path, value);
  };
  await hooks.request?.(context);
  assert.equal(changes, 1);
  assert.ok(context.body.text.startsWith('{"prompt":["Pa","Pa"'));
});

test('add-prefix: exactly one text grows, by exactly the prefix, whatever the conversation', async () => {
  const message = fc.record({
    role: fc.constantFrom('user', 'assistant', 'system', 'tool'),
    content: fc.oneof(
      fc.string(),
      fc.array(fc.record({ type: fc.constant('text'), text: fc.string() }), { minLength: 1 }),
    ),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(message), fc.string({ minLength: 1 }), async (messages, prefix) => {
      const length = (list: typeof messages) =>
        list
          .flatMap(({ content }) =>
            typeof content === 'string' ? [content] : content.map((part) => part.text),
          )
          .join('').length;
      const leaves = JSON.parse(await prefixed({ prefix }, { body: { messages } })) as {
        messages: typeof messages;
      };
      const applies = messages.some(({ role }) => role === 'user');
      assert.equal(length(leaves.messages) - length(messages), applies ? prefix.length : 0);
      assert.deepEqual(
        leaves.messages.map(({ role }) => role),
        messages.map(({ role }) => role),
      );
    }),
    { numRuns: 100 },
  );
});

test('add-prefix: options', () => {
  const full = { prefix: 'P', applyToRole: 'system', addToExisting: false, onlyIfEmpty: true };
  assert.equal(optionErrors(addPrefix, full), '');
  assert.match(optionErrors(addPrefix, {}), /'prefix'/);
  assert.match(optionErrors(addPrefix, { prefix: '' }), /fewer than 1/);
  assert.match(optionErrors(addPrefix, { prefix: 'P', applyToRole: 'tool' }), /applyToRole/);
  assert.match(optionErrors(addPrefix, { prefix: 'P', role: 'user' }), /additional/);
});

test('add-prefix: as a check of guardrails', async () => {
  const [check] = addPrefix.offers ?? [];
  const judge = check!.create({ prefix: 'Be kind. ' }, testScope().scope);
  let set: unknown;
  const said = async (endpoint: EndpointId, json: JsonValue | undefined) => {
    const judged = subject({ endpoint, json });
    const { verdict } = await judge(judged);
    if (verdict === 'passed') set = judged.values;
    return verdict;
  };
  assert.equal(await said('chat.completions', { messages: [{ role: 'user', content: 'hi' }] }), 'passed');
  assert.deepEqual(set, [[['messages', 0, 'content'], 'Be kind. hi']]);
  assert.equal(await said('embeddings', { input: 'hi' }), 'skipped');
  assert.equal(await said('chat.completions', undefined), 'skipped');
});
