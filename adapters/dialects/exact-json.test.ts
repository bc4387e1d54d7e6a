import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { writeJson } from '../../core/base/json.ts';
import { EncodeReport } from '../../core/dialects/canonical/chat-codec.ts';
import type { ChatRequest } from '../../core/dialects/canonical/chat-request.ts';
import type { DialectName } from '../../core/dialects/endpoint.ts';
import { dialects, providerDialects } from './index.ts';
import { parseExactObject, stringifyExact } from './json-reading.ts';
import {
  answerContext,
  clientCall,
  host,
  plainRequest,
  readAll,
  sse,
} from './openai-chat/codec.test-support.ts';

test('integers beyond 2^53 keep their digits', () => {
  const text = '{"seed":-9223372036854775807,"list":[9007199254740993],"logprob":-0.317253053188324,"n":1}';
  const json = parseExactObject(text);
  assert.equal(json?.seed, -9223372036854775807n);
  assert.equal(json?.n, 1);
  assert.equal(stringifyExact(json ?? {}), text);
});

test('any object is read as it was written', () => {
  fc.assert(
    fc.property(
      fc.dictionary(
        fc.string().filter((name) => name !== '__proto__'),
        fc.jsonValue(),
      ),
      (value) => {
        const text = JSON.stringify(value);
        assert.deepEqual(JSON.parse(stringifyExact(parseExactObject(text) ?? {})), JSON.parse(text));
      },
    ),
  );
});

test('anything but an object is undefined', () => {
  for (const text of ['', '[1]', 'null', '9007199254740993', '{"a":9007199254740993']) {
    assert.equal(parseExactObject(text), undefined);
  }
});

describe('an integer beyond 2^53 where a wire wants text', () => {
  const digits = '9007199254740993';
  const big = BigInt(digits);
  const context = answerContext();
  const codecOf = (name: DialectName) => {
    const facts = {
      endpoint: 'messages',
      spoken: 'anthropic-messages',
      method: 'POST',
      path: '/messages',
    } as const;
    const plan = providerDialects.get(name)?.plan({ ...facts, query: '', stream: false, host: host() });
    assert.ok(plan?.kind === 'chat');
    return plan.codec;
  };
  const encoded = (name: DialectName, request: Partial<ChatRequest>): string =>
    codecOf(name)
      .encodeRequest({ ...plainRequest, ...request }, host(), new EncodeReport())
      .body.toString();

  test('is told to Gemini as one of the values of a tool’s member', () => {
    for (const schema of [{ enum: [big, 1] }, { const: big }]) {
      const parameters = { type: 'object', properties: { a: schema } };
      const body = encoded('google-gemini', { tools: [{ type: 'function', name: 't', parameters }] });
      assert.ok(body.includes(digits), body);
    }
  });

  test('is kept in the result of a tool that Responses does not know', () => {
    const chat = dialects.get('openai-responses')?.chat;
    const output = [{ type: 'unheard_of', count: big }];
    const request = chat?.decodeRequest(
      clientCall({ model: 'm', input: [{ type: 'function_call_output', call_id: 'c', output }] }),
    );
    assert.ok(writeJson(request).includes(digits));
  });

  test('is kept in what a model calls a tool with, and in what it answers in JSON mode', () => {
    const call = { id: 'c', type: 'function', function: { name: 't', arguments: { count: 7 } } };
    const message = { role: 'assistant', tool_calls: [call] };
    const cohere = JSON.stringify({ id: 'a', finish_reason: 'TOOL_CALL', message }).replace('7', digits);
    const answer = codecOf('cohere-v2').decodeAnswer(Buffer.from(cohere), context);
    assert.ok(writeJson(answer).includes(digits));
    const workers = Buffer.from(`{"result":{"response":[${digits}]},"success":true}`);
    assert.ok(writeJson(codecOf('workers-ai').decodeAnswer(workers, context)).includes(digits));
  });

  test('is passed on where Gemini has it in the place of a text', () => {
    const event = sse(`{"candidates":[{"content":{"parts":[{"text":${digits}}],"role":"model"}}]}`);
    const events = readAll(codecOf('google-gemini').eventReader('text/event-stream', context), [event]);
    const written = dialects.get('google-gemini')?.chat?.eventWriter(context).write(events);
    assert.ok(String(written).includes(`"text":${digits}`), String(written));
  });
});
