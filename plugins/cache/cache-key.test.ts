import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { attemptContext, type TestAttempt } from '../../tests/kit/attempt-kit.ts';
import { cacheKeys } from './cache-key.ts';

const keyOf = async (attempt: TestAttempt): Promise<string | undefined> =>
  cacheKeys.of(await attemptContext(attempt));

const chat = { model: 'm', messages: [{ role: 'user', content: 'Hello' }] };
const plain: TestAttempt = { body: chat };
const spaced = (more: TestAttempt): TestAttempt => ({
  body: chat,
  ...more,
  headers: { 'x-service-cache-namespace': 'docs', ...more.headers },
});

describe('the key of an answer', () => {
  const different: readonly (readonly [string, TestAttempt])[] = [
    ['another organisation', { facts: { organisationId: 'org-2' } }],
    ['another workspace', { facts: { workspaceId: 'ws-2' } }],
    [
      'organisation and workspace that only look alike',
      { facts: { organisationId: 'org-1ws', workspaceId: '-1' } },
    ],
    ['another target', { target: 'target-2' }],
    ['metadata', { facts: { metadata: { team: 'a' } } }],
    ['another endpoint', { path: '/completions' }],
    ['another spelling of the path', { path: '/chat//completions' }],
    ['a query', { query: '?api-version=2' }],
    ['a version of the API', { headers: { 'anthropic-version': '2023-06-01' } }],
    ['a beta of the API', { headers: { 'OpenAI-Beta': 'x' } }],
    ['a header that the provider may read', { headers: { 'X-Tier': 'gold' } }],
    ['a cookie', { headers: { cookie: 'a=b' } }],
    ['other terms', { terms: 'loose report' }],
    ['a namespace', { headers: { 'x-service-cache-namespace': 'docs' } }],
    ['another end user', { body: { ...chat, user: 'u' } }],
    ['another seed', { body: { ...chat, seed: 1 } }],
    ['a member that nobody knows', { body: { ...chat, unknown: true } }],
  ];
  for (const [what, change] of different) {
    test(`is another one for ${what}`, async () => {
      assert.notEqual(await keyOf({ ...plain, ...change }), await keyOf(plain));
    });
  }

  const same: readonly (readonly [string, TestAttempt])[] = [
    ['a stream of it', { body: { ...chat, stream: true, stream_options: { include_usage: true } } }],
    ['members in another order', { body: { messages: chat.messages, model: 'm' } }],
    [
      'other headers',
      {
        headers: {
          'user-agent': 'x',
          'x-service-trace-id': 't',
          'x-service-metadata': '{}',
          accept: '*/*',
          'X-Stainless-Retry-Count': '1',
          'x-request-id': 'r',
          traceparent: '00',
          'x-forwarded-for': '::1',
          via: '1.1 a',
          'sec-fetch-mode': 'cors',
          'idempotency-key': 'k',
        },
      },
    ],
    ['another key of the workspace', { facts: { apiKeyId: 'key-2' } }],
    ['an empty namespace', { headers: { 'x-service-cache-namespace': '' } }],
  ];
  for (const [what, change] of same) {
    test(`is the same for ${what}`, async () => {
      assert.equal(await keyOf({ ...plain, ...change }), await keyOf(plain));
    });
  }

  test('is the same for metadata in another order', async () => {
    assert.equal(
      await keyOf({ facts: { metadata: { a: '1', b: '2' } } }),
      await keyOf({ facts: { metadata: { b: '2', a: '1' } } }),
    );
    assert.notEqual(
      await keyOf({ facts: { metadata: { a: '1', b: '2' } } }),
      await keyOf({ facts: { metadata: { a: '2', b: '1' } } }),
    );
  });

  for (const length of [10, 1900, 2100, 20_000]) {
    test(`is the same for a body of about ${length} bytes that is remembered, and another one for its like`, async () => {
      const ask = (last: string): TestAttempt => ({
        body: { model: 'm', messages: [{ role: 'user', content: 'x'.repeat(length) + last }] },
      });
      const context = await attemptContext(ask('a'));
      const key = cacheKeys.of(context);
      cacheKeys.rememberBody(context);
      assert.equal(await keyOf(ask('a')), key);
      assert.equal(
        await keyOf({ body: { messages: (ask('a').body as typeof chat).messages, model: 'm' } }),
        key,
      );
      assert.notEqual(await keyOf(ask('b')), key);
      const other = await keyOf({ ...ask('a'), facts: { workspaceId: 'ws-2' } });
      assert.notEqual(other, key, 'what is remembered of a body is not the key');
    });
  }

  test('a remembered body of one form is not one of the other where the form counts', async () => {
    const embed = { path: '/embeddings', body: { model: 'm', input: 'Hello' } };
    const context = await attemptContext(embed);
    cacheKeys.rememberBody(context);
    const streamed = { ...embed, body: { ...embed.body, stream: true } };
    assert.notEqual(await keyOf(streamed), cacheKeys.of(context));
  });

  test('is a digest that tells nothing', async () => {
    const key = await keyOf(spaced({ facts: { metadata: { secret: 'Hello' } } }));
    assert.match(key ?? '', /^[A-Za-z0-9_-]{43}$/);
  });
});

test('is the same whether the body is remembered or not, whatever it came with last', async () => {
  const body = { ...chat, user: 'remembered' };
  const attempts: readonly TestAttempt[] = [
    {},
    { facts: { organisationId: 'org-2' } },
    { facts: { workspaceId: 'ws-2' } },
    { path: '/completions' },
    { path: '/chat//completions' },
    { query: '?a=1' },
    { target: 'target-2' },
    { facts: { metadata: { team: 'a' } } },
    { facts: { metadata: { team: 'b' } } },
    { headers: { 'anthropic-version': '2023-06-01' } },
    spaced({}),
    { headers: { 'x-service-cache-namespace': 'docs2' } },
    spaced({ facts: { organisationId: 'org-2' } }),
    spaced({ facts: { workspaceId: 'ws-2' } }),
    spaced({ path: '/completions' }),
  ].map((one) => ({ ...one, body }));
  const cold = await Promise.all(attempts.map(keyOf));
  assert.equal(new Set(cold).size, attempts.length);
  cacheKeys.rememberBody(await attemptContext({ body }));
  for (const [i, one] of attempts.entries()) {
    for (const [j, other] of attempts.entries()) {
      assert.equal(await keyOf(one), cold[i]);
      assert.equal(await keyOf(other), cold[j]);
    }
  }
});

test('is another one for a body that looks like a remembered one and differs in any character', async () => {
  const content = 'abcdefghij'.repeat(12);
  const withContent = (text: string): TestAttempt => ({ body: { ...chat, messages: [], content: text } });
  const keys = new Set<string | undefined>();
  cacheKeys.rememberBody(await attemptContext(withContent(content)));
  keys.add(await keyOf(withContent(content)));
  for (let i = 0; i < content.length; i++) {
    const other = withContent(`${content.slice(0, i)}-${content.slice(i + 1)}`);
    const key = await keyOf(other);
    assert.ok(!keys.has(key), `the character at ${i}`);
    keys.add(key);
    // Both are known by now, or the one is in the place of the other.
    cacheKeys.rememberBody(await attemptContext(other));
    assert.equal(await keyOf(other), key);
    assert.ok(keys.has(await keyOf(withContent(content))));
  }
});

describe('the key of an answer within a namespace', () => {
  const ignored: readonly (readonly [string, TestAttempt])[] = [
    ['metadata', { facts: { metadata: { team: 'a' } } }],
    ['a version of the API', { headers: { 'anthropic-version': '2023-06-01' } }],
    ['a header that the provider may read', { headers: { 'x-tier': 'gold' } }],
  ];
  for (const [what, change] of ignored) {
    test(`ignores ${what}`, async () => assert.equal(await keyOf(spaced(change)), await keyOf(spaced({}))));
  }

  const different: readonly (readonly [string, TestAttempt])[] = [
    ['another namespace', { headers: { 'x-service-cache-namespace': 'docs2' } }],
    ['another organisation', { facts: { organisationId: 'org-2' } }],
    ['another workspace', { facts: { workspaceId: 'ws-2' } }],
    ['another body', { body: { ...chat, seed: 1 } }],
    ['another endpoint', { path: '/completions' }],
    ['another target', { target: 'target-2' }],
    ['other terms', { terms: 'loose report' }],
  ];
  for (const [what, change] of different) {
    test(`is another one for ${what}`, async () => {
      assert.notEqual(await keyOf(spaced(change)), await keyOf(spaced({})));
    });
  }
});

describe('no key', () => {
  const cases: readonly (readonly [string, TestAttempt])[] = [
    ['no JSON', { body: 'text' }],
    ['no object', { body: [1] }],
    ['a call in the background', { path: '/responses', body: { input: 'x', background: true } }],
    ['a conversation that grows', { path: '/responses', body: { input: 'x', conversation: 'conv_1' } }],
    ['a container that is used', { path: '/messages', body: { messages: [], container: 'c_1' } }],
  ];
  for (const [what, attempt] of cases) {
    test(`for ${what}`, async () => assert.equal(await keyOf(attempt), undefined));
  }
  test('but one where such a member says nothing', async () => {
    assert.ok(
      await keyOf({ path: '/responses', body: { input: 'x', background: false, conversation: null } }),
    );
  });
});

test('both forms of an answer have one key in every wire, wherever it says which', async () => {
  for (const path of ['/responses', '/messages', '/completions']) {
    const ask = { path, body: { model: 'm', input: 'x' } };
    assert.equal(await keyOf(ask), await keyOf({ path, body: { ...ask.body, stream: true } }), path);
  }
  const body = { contents: [] };
  const whole = await keyOf({ path: '/v1beta/models/a:generateContent', body });
  const path = '/v1beta/models/a:streamGenerateContent';
  assert.equal(await keyOf({ path, body }), whole);
  assert.equal(await keyOf({ path, body, query: '?alt=sse' }), whole);
  assert.notEqual(await keyOf({ path, body, query: '?alt=sse&x=1' }), whole);
  assert.notEqual(await keyOf({ path: path.replace('/a:', '/b:'), body }), whole);
  assert.notEqual(await keyOf({ path: path.replace('v1beta', 'v1'), body }), whole);
});

test('an endpoint whose answers have one form keeps different bodies apart', async () => {
  const ask = { path: '/embeddings', body: { model: 'm', input: 'x' } };
  assert.notEqual(await keyOf(ask), await keyOf({ ...ask, body: { ...ask.body, stream: true } }));
});
