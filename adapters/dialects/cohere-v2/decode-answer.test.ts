import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { decodeContext, fixture } from './cohere.test-support.ts';
import { cohereV2Provider } from './index.ts';

function decode(answer: unknown) {
  const body = Buffer.from(typeof answer === 'string' ? answer : JSON.stringify(answer));
  return cohereV2Provider.decodeAnswer(body, decodeContext());
}

describe('an answer of Cohere', () => {
  it('is read whole', () => {
    const { choices, ...answer } = decode(fixture('answer.json'));
    assert.deepEqual(answer, {
      id: '8d2a44c7-6f52-4d2b-b3f3-0fb0f1e1e303',
      model: 'asked',
      usage: {
        promptTokens: 800,
        completionTokens: 33,
        totalTokens: 833,
        cachedTokens: 512,
        cacheWriteTokens: 0,
        reasoningTokens: 0,
        inputAudioTokens: 0,
        outputAudioTokens: 0,
      },
      extras: {
        'cohere-v2': {
          billed_units: { input_tokens: 20, output_tokens: 9 },
          citations: [{ start: 0, end: 6, text: 'I will', sources: [], type: 'PLAN' }],
        },
      },
    });
    const [choice] = choices;
    assert.deepEqual(choice?.finish, { reason: 'tool-calls', raw: 'TOOL_CALL' });
    assert.deepEqual(choice.logprobs, [{ token: 'Reading', logprob: -0.75, top: [] }]);
    const [plan, thought, text, ...calls] = choice.parts;
    assert.deepEqual(plan, {
      type: 'reasoning',
      text: 'I will read the gauge.',
      extras: { 'cohere-v2': { tool_plan: true } },
    });
    assert.deepEqual(thought, { type: 'reasoning', text: 'The gauge first.' });
    assert.ok(text?.type === 'text');
    const [first, second] = text.citations ?? [];
    assert.deepEqual([first?.kind, first?.start, first?.end], ['document', 15, 20]);
    assert.equal(text.text.slice(first?.start, first?.end), 'gauge');
    const { raw, ...said } = second ?? { kind: 'file' };
    assert.deepEqual(said, {
      kind: 'url',
      url: 'https://example.org/gauges',
      title: 'Gauges',
      quote: 'A gauge is read',
      document: 2,
      start: 15,
      end: 20,
    });
    assert.equal(raw?.dialect, 'cohere-v2');
    assert.equal((raw.value.sources as unknown[]).length, 1);
    assert.deepEqual(calls, [
      {
        type: 'tool-call',
        kind: 'function',
        id: 'gauge_1',
        name: 'gauge',
        arguments: '{"id":12345678901234567890}',
      },
      { type: 'tool-call', kind: 'function', id: 'now_1', name: 'now', arguments: '{}' },
    ]);
  });

  const finishes = [
    ['COMPLETE', 'stop'],
    ['STOP_SEQUENCE', 'stop'],
    ['MAX_TOKENS', 'length'],
    ['TOOL_CALL', 'stop'],
    ['ERROR', 'error'],
    ['TIMEOUT', 'error'],
    ['ERROR_TOXIC', 'content-filter'],
    ['NEWER', 'unknown'],
    ['toString', 'unknown'],
  ] as const;
  for (const [raw, reason] of finishes) {
    it(`ends with ${raw}, which is ${reason} without calls`, () => {
      const [choice] = decode({ id: 'a', message: { role: 'assistant' }, finish_reason: raw }).choices;
      assert.deepEqual(choice?.finish, { reason, raw });
    });
  }

  it('waits for tools when it calls some, whatever it says', () => {
    const tool_calls = [{ id: 'x', type: 'function', function: { name: 'f', arguments: '' } }];
    const [choice] = decode({ message: { tool_calls }, finish_reason: 'COMPLETE' }).choices;
    assert.deepEqual(choice?.finish, { reason: 'tool-calls', raw: 'COMPLETE' });
  });

  for (const given of ['', 'null', ' null ', null, undefined, {}]) {
    it(`has no arguments when they are ${JSON.stringify(given)}`, () => {
      const tool_calls = [{ function: { name: 'f', arguments: given } }];
      const [choice] = decode({ message: { tool_calls } }).choices;
      assert.deepEqual(choice?.parts, [
        { type: 'tool-call', kind: 'function', id: 'call_0', name: 'f', arguments: '{}' },
      ]);
    });
  }

  it('may be a bare string, and may hold blocks that are not known', () => {
    assert.deepEqual(decode({ message: { content: 'Hi' } }).choices[0]?.parts, [
      { type: 'text', text: 'Hi' },
    ]);
    const block = { type: 'hologram', data: 1 };
    assert.deepEqual(decode({ message: { content: [block, 5] } }).choices[0]?.parts, [
      { type: 'opaque', dialect: 'cohere-v2', value: block },
    ]);
  });

  it('counts billed units where there is nothing better', () => {
    const usage = { billed_units: { input_tokens: 3, output_tokens: 2 } };
    const answer = decode({ message: {}, usage });
    assert.deepEqual([answer.usage?.promptTokens, answer.usage?.totalTokens], [3, 5]);
    assert.equal(decode({ message: {}, usage: {} }).usage, undefined);
  });

  it('keeps members that are not known', () => {
    assert.deepEqual(decode({ message: {}, region: 'eu' }).extras, { 'cohere-v2': { region: 'eu' } });
  });

  for (const broken of ['', '<html>', '[]', '{"id":"a"}', '{"message":"no such model"}', '{"mess']) {
    it(`is none: ${broken}`, () => {
      assert.throws(
        () => decode(broken),
        (error) => GatewayError.is(error) && error.code === 'upstream_invalid',
      );
    });
  }
});

describe('an error of Cohere', () => {
  const bodies: readonly (readonly [number, string, object])[] = [
    [400, '{"id":"1","message":"invalid request: no model"}', { message: 'invalid request: no model' }],
    [422, '{"message":["one",{"msg":"two"}]}', { message: 'one; two' }],
    [422, '{"errors":[{"message":"three"}]}', { message: 'three' }],
    [498, '{"message":"token is bad"}', { message: 'token is bad', type: 'invalid_token' }],
    [499, '{"message":"request cancelled"}', { message: 'request cancelled', type: 'request_cancelled' }],
    [429, '{"error":"slow down"}', { message: 'slow down' }],
    [
      403,
      '{"error":{"message":"no","type":"forbidden","code":"c"}}',
      { message: 'no', type: 'forbidden', code: 'c' },
    ],
    [404, '{"detail":"Not Found"}', { message: 'Not Found' }],
    [502, '<html><title>Bad</title></html>', { message: 'The provider answered 502: Bad' }],
    [503, '', { message: 'The provider answered 503 without a body.' }],
    [500, '{"message":', { message: 'The provider answered 500: {"message":' }],
    [500, '{"id":"1"}', { message: 'The provider answered 500: {"id":"1"}' }],
  ];
  for (const [status, body, expected] of bodies) {
    it(`is read from ${status} ${body}`, () => {
      assert.deepEqual(cohereV2Provider.decodeError(status, Buffer.from(body)), { status, ...expected });
    });
  }
});
