import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { definePlugin, GatewayError } from '../../core/pipeline/plugin.ts';
import { delta, done, finish, frame, pieces, role, said, usage } from '../../tests/kit/chat-stream-kit.ts';
import { startFakeProviders } from '../../tests/kit/fake-providers/fake-providers.ts';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import auth from '../auth/index.ts';
import cache from './index.ts';
import { begin, send, type Answering, type Received } from '../../tests/kit/http-kit.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import { asking, cachedGateway, completion, question } from '../../tests/kit/cache-kit.ts';

const streaming = { body: { stream: true } };
const withUsage = { body: { stream: true, stream_options: { include_usage: true } } };
const sse = { 'content-type': 'text/event-stream' };
const whole = [role, delta('one '), delta('two'), finish];

/** A provider that streams when it is asked to, with usage when it is asked for. */
const provider: Answering = (request, response) => {
  const { stream, stream_options: options } = JSON.parse(request.body.toString()) as Record<string, any>;
  if (!stream) {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(completion('one two')));
  } else pieces([...whole, ...(options?.include_usage ? [usage] : []), done])(request, response, {} as never);
};

const tokens = (json: any): unknown => json.usage?.total_tokens;

describe('an answer that was streamed', () => {
  test('is replayed as the very stream', async (t) => {
    const { ask, upstream } = await cachedGateway(t, { answer: provider });
    const first = await ask(streaming);
    const again = await ask(streaming);
    assert.equal(again.headers['x-service-cache-status'], 'HIT');
    assert.equal(again.headers['content-type'], 'text/event-stream');
    assert.equal(again.text, first.text);
    assert.equal(again.text, [...whole, done].join(''));
    assert.equal(upstream.requests.length, 1);
  });

  test('is one JSON answer for who asks for that, usage included', async (t) => {
    const { ask } = await cachedGateway(t, { answer: provider });
    await ask(streaming);
    const json = await ask();
    assert.equal(json.headers['x-service-cache-status'], 'HIT');
    assert.equal(json.headers['content-type'], 'application/json');
    assert.equal(json.json().choices[0].message.content, 'one two');
    assert.equal(json.json().object, 'chat.completion');
    assert.equal(tokens(json.json()), 7);
  });

  test('tells its usage to who asks for it, and only to them', async (t) => {
    const { ask } = await cachedGateway(t, { answer: provider });
    await ask(streaming);
    const asked = await ask(withUsage);
    assert.equal(asked.headers['x-service-cache-status'], 'HIT');
    assert.match(asked.text, /"total_tokens":7/);
    assert.ok(asked.text.endsWith(done));
    assert.equal(said(asked.text), 'one two');
  });

  test('keeps the usage that one asked for from one who did not', async (t) => {
    const { ask } = await cachedGateway(t, { answer: provider });
    const first = await ask(withUsage);
    assert.match(first.text, /"total_tokens":7/);
    const again = await ask(streaming);
    assert.equal(again.headers['x-service-cache-status'], 'HIT');
    assert.equal(again.text, [...whole, done].join(''));
    assert.equal((await ask(withUsage)).text, first.text);
  });

  test('costs no tokens when it is replayed', async (t) => {
    const { ask, gateway } = await cachedGateway(t, { answer: provider });
    await ask(streaming);
    await ask(streaming);
    const [first, { facts }] = [await gateway.untilSettled(1), await gateway.untilSettled(2)];
    assert.equal(first.facts.usage?.totalTokens, 7);
    assert.deepEqual([facts.usage, facts.stream, facts.cacheStatus], [undefined, true, 'HIT']);
    assert.deepEqual([facts.modelAnswered, facts.finishReason, facts.attempts], ['m-1', 'stop', 0]);
  });
});

test('a replayed stream passes the taps of the plugins in front, a refusal included', async (t) => {
  let refuses = false;
  const judging = definePlugin({
    name: 'judging',
    capabilities: { reads: ['response.text'], stream: 'window' },
    create: () => ({
      response: () => undefined,
      stream: () => ({
        event(event, emit) {
          if (refuses) throw new GatewayError('hooks_failed', 'No.');
          emit(event.type === 'text-delta' ? { ...event, text: event.text.toUpperCase() } : event);
        },
      }),
    }),
  });
  const { ask, upstream } = await cachedGateway(t, {
    answer: provider,
    plugins: [auth, judging, cache, providerPlugin({ default: 'up' })],
  });
  assert.equal(said((await ask(streaming)).text), 'ONE TWO');
  assert.equal(said((await ask(streaming)).text), 'ONE TWO');
  refuses = true;
  assert.equal((await ask(streaming)).status, 446);
  assert.equal(upstream.requests.length, 1);
});

describe('an answer in JSON', () => {
  test('is a stream for who asks for that', async (t) => {
    const { ask, upstream } = await cachedGateway(t, { answer: provider });
    await ask();
    const stream = await ask(streaming);
    assert.equal(stream.headers['x-service-cache-status'], 'HIT');
    assert.match(stream.headers['content-type'] ?? '', /^text\/event-stream/);
    assert.equal(said(stream.text), 'one two');
    assert.match(stream.text, /"finish_reason":"stop"/);
    assert.ok(stream.text.endsWith(done));
    assert.doesNotMatch(stream.text, /total_tokens/);
    assert.match((await ask(withUsage)).text, /"total_tokens":7/);
    assert.equal(upstream.requests.length, 1);
  });
});

describe('a stream that is not kept', () => {
  const cases: readonly (readonly [string, Answering])[] = [
    ['without its end marker', pieces(whole)],
    ['that was cut off', pieces([role, delta('one')], {}, 'cut')],
    ['with an error in it', pieces([role, frame({ error: { message: 'broke' } }), finish, done])],
    ['that does not say how it ended', pieces([role, delta('one'), done])],
    [
      'with another status',
      (_request, response) => response.writeHead(202, sse).end([...whole, done].join('')),
    ],
    ['that is too long', pieces([...whole.slice(0, 2), delta('x'.repeat(4096)), finish, done])],
    ['that is compressed', pieces([...whole, done], { 'content-encoding': 'zstd' })],
  ];
  for (const [name, answer] of cases) {
    test(name, async (t) => {
      const { ask, upstream } = await cachedGateway(t, { answer, cache: { max_value_bytes: 2048 } });
      const first = await ask(withUsage);
      const second = await ask(withUsage);
      assert.equal(second.headers['x-service-cache-status'], 'MISS');
      assert.equal(second.text, first.text);
      assert.equal(upstream.requests.length, 2);
    });
  }

  test('because its client left', async (t) => {
    const { gateway, told, upstream } = await cachedGateway(t, {
      answer: (request, response, message) =>
        upstream.requests.length === 1
          ? pieces([role, delta('one')], {}, 'hang')(request, response, message)
          : response
              .writeHead(200, { 'content-type': 'application/json' })
              .end(JSON.stringify(completion('answer 2'))),
    });
    const { request } = await begin(gateway.url, asking(streaming));
    request.destroy();
    await gateway.untilSettled(1);
    assert.equal(await told(), 'MISS answer 2');
  });
});

describe('in every dialect of clients', () => {
  const contents = [{ role: 'user', parts: [{ text: 'x' }] }];
  const gemini = '/v1beta/models/m:';
  const wires = [
    {
      name: 'responses',
      whole: { path: '/v1/responses', body: { model: 'm', input: 'x' } },
      streams: [{ path: '/v1/responses', body: { model: 'm', input: 'x', stream: true } }],
    },
    {
      name: 'messages',
      whole: { path: '/v1/messages', body: { model: 'm', max_tokens: 9, messages: question.messages } },
      streams: [
        {
          path: '/v1/messages',
          body: { model: 'm', max_tokens: 9, messages: question.messages, stream: true },
        },
      ],
    },
    {
      name: 'gemini',
      whole: { path: `${gemini}generateContent`, body: { contents } },
      streams: [
        { path: `${gemini}streamGenerateContent?alt=sse`, body: { contents } },
        { path: `${gemini}streamGenerateContent`, body: { contents } },
      ],
    },
  ];
  const dialectOf = {
    responses: 'openai-responses',
    messages: 'anthropic-messages',
    gemini: 'google-gemini',
  };
  for (const { name, whole: json, streams } of wires) {
    const forms = [json, ...streams];
    for (const target of ['openai-chat', dialectOf[name as keyof typeof dialectOf]]) {
      test(`${name} at ${target}: each form is made of each`, async (t) => {
        const providers = await startFakeProviders(t);
        const base = { 'openai-chat': '/openai/v1', 'openai-responses': '/openai/v1' } as const;
        const root =
          target === 'anthropic-messages' ? '/anthropic/v1' : (base[target as keyof typeof base] ?? '');
        const start = () =>
          startTestGateway(t, {
            plugins: [auth, cache, providerPlugin({ default: 'up' })],
            keys: { wk_one: testKey() },
            providers: {
              up: { dialect: target as 'openai-chat', base_url: `${providers.url}${root}`, api_key: 'k' },
            },
            security: { trusted_hosts: [`127.0.0.1:${providers.port}`] },
          });
        for (const first of forms) {
          const gateway = await start();
          providers.play({ fixture: 'grid-text' });
          const told = (form: object) =>
            send(gateway.url, { ...form, headers: { 'x-service-api-key': 'wk_one' } });
          await told(first);
          for (const form of forms) {
            const answer = await told(form);
            assert.equal(answer.headers['x-service-cache-status'], 'HIT', answer.text);
            assert.match(textIn(answer), /^The Danube flows through Vienna, Budapest and Belgrade. 🌊/);
            const type = answer.headers['content-type']?.split(';')[0];
            const isEvents = form !== json && !/streamGenerateContent$/.test(form.path);
            assert.equal(type, isEvents ? 'text/event-stream' : 'application/json');
            const isArray = form !== json && !isEvents;
            assert.equal(answer.text.startsWith('['), isArray, answer.text);
          }
          assert.equal(providers.seen.length, 1);
        }
      });
    }
  }
});

/** Every text of an answer, in one: of the deltas of a stream, else of the whole. */
function textIn({ text }: Received): string {
  const objects = text.startsWith('{') || text.startsWith('[') ? [text] : text.match(/(?<=^data: )\{.*$/gm);
  const texts: string[] = [];
  const collect = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    for (const [name, inner] of Object.entries(value)) {
      if (typeof inner === 'string' && (name === 'text' || name === 'delta')) texts.push(inner);
      else if (name !== 'response' && name !== 'item' && name !== 'part') collect(inner);
    }
  };
  for (const json of objects ?? []) {
    const object = JSON.parse(json) as { type?: string };
    if (object.type?.endsWith('.done') !== true) collect(object);
  }
  return texts.join('');
}

test('a long replayed stream arrives whole at a client that reads slowly', async (t) => {
  const long = [role, ...Array.from({ length: 400 }, () => delta('x'.repeat(2000))), finish, done];
  const { gateway, ask, upstream } = await cachedGateway(t, { answer: pieces([long.join('')]) });
  await ask(withUsage);
  const { response } = await begin(gateway.url, asking(withUsage));
  assert.equal(response.headers['x-service-cache-status'], 'HIT');
  let text = '';
  for await (const chunk of response) {
    text += String(chunk);
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(text, long.join(''));
  assert.equal(upstream.requests.length, 1);
});
