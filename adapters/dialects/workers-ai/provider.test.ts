import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { collectAnswer } from '../../../core/dialects/canonical/collect-answer.ts';
import { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { everySplit } from '../../framing/split-bytes.test-support.ts';
import type { JsonObject } from '../json-reading.ts';
import {
  answerContext,
  host,
  plainRequest,
  readAll,
  sse,
  usageOf,
} from '../openai-chat/codec.test-support.ts';
import { workersAiEmbeddings, workersAiProvider } from './host.ts';

const model = '@cf/meta/river 1?';

test('a request runs a model: its path, flat tools and a bare schema', () => {
  const report = new EncodeReport();
  const request: ChatRequest = {
    ...plainRequest,
    stream: true,
    messages: [
      { role: 'user', parts: [{ type: 'text', text: 'Hi' }] },
      {
        role: 'assistant',
        parts: [{ type: 'tool-call', id: 'c', name: 'a', kind: 'function', arguments: '{}' }],
      },
    ],
    tools: [{ type: 'function', name: 'a', description: 'A', parameters: { type: 'object' } }],
    maxOutputTokens: 5,
    topK: 3,
    stop: ['x'],
    user: 'ann',
    modalities: ['text', 'audio'],
    responseFormat: { type: 'json-schema', schema: { type: 'object' } },
    extras: { 'workers-ai': { raw: true }, 'openai-chat': { prediction: {} } },
  };
  const { path, body } = workersAiProvider.encodeRequest(request, host(model), report);
  assert.equal(path, '/run/@cf/meta/river%201%3F');
  assert.deepEqual(JSON.parse(body.toString()), {
    messages: [
      { role: 'user', content: 'Hi' },
      {
        role: 'assistant',
        content: '',
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'a', arguments: '{}' } }],
      },
    ],
    tools: [{ name: 'a', description: 'A', parameters: { type: 'object' } }],
    max_tokens: 5,
    top_k: 3,
    response_format: { type: 'json_schema', json_schema: { type: 'object' } },
    stream: true,
    raw: true,
  });
  assert.deepEqual(report.dropped, ['stop', 'user', 'modalities', 'prediction']);
});

test('a model cannot lead out of its place in the path', () => {
  assert.throws(
    () => workersAiProvider.encodeRequest(plainRequest, host('../../tokens'), new EncodeReport()),
    (error) => GatewayError.is(error) && error.code === 'invalid_request' && error.param === 'model',
  );
});

test("answers are read in the wire's own words and in those of newer models", () => {
  const decode = (result: unknown): unknown => {
    const body = JSON.stringify({ result, success: true, errors: [], messages: [] });
    const { choices, usage } = workersAiProvider.decodeAnswer(Buffer.from(body), answerContext());
    return [choices[0]?.parts, choices[0]?.finish.reason, usage];
  };
  const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
  const text = [{ type: 'text', text: 'Hi' }];
  const call = [{ type: 'tool-call', id: 'call_1', name: 'a', kind: 'function', arguments: '{"x":1}' }];
  assert.deepEqual(decode({ response: 'Hi', usage }), [text, 'stop', usageOf(3, 2)]);
  assert.deepEqual(decode({ response: null, tool_calls: [{ name: 'a', arguments: { x: 1 } }] }), [
    call,
    'tool-calls',
    undefined,
  ]);
  assert.deepEqual(decode({ response: { x: 1 } }), [[{ type: 'text', text: '{"x":1}' }], 'stop', undefined]);
  assert.deepEqual(
    decode({ id: 'c', choices: [{ index: 0, message: { content: 'Hi' }, finish_reason: 'length' }], usage }),
    [text, 'length', usageOf(3, 2)],
  );
});

test('what is no answer is upstream_invalid', () => {
  for (const body of ['', '{"result":{}}', '{"success":false,"errors":[{"message":"No."}]}', '[]']) {
    assert.throws(
      () => workersAiProvider.decodeAnswer(Buffer.from(body), answerContext()),
      (error) => GatewayError.is(error) && error.code === 'upstream_invalid',
    );
  }
});

test('a stream says the same wherever it is cut, and ends at its marker', () => {
  const bytes = readFileSync(new URL('../../../tests/fixtures/wire/workers-ai/tools.sse', import.meta.url));
  for (const chunks of everySplit(bytes)) {
    const events = readAll(workersAiProvider.eventReader('text/event-stream', answerContext()), chunks);
    assert.deepEqual(collectAnswer(events), {
      id: '',
      model: '',
      choices: [
        {
          index: 0,
          parts: [
            { type: 'text', text: 'Höhe 7' },
            {
              type: 'tool-call',
              id: 'call_1',
              name: 'depth',
              kind: 'function',
              arguments: '{"river":"Elbe"}',
            },
          ],
          finish: { reason: 'tool-calls', raw: 'stop' },
        },
      ],
      usage: usageOf(9, 4),
    });
    assert.equal(events.at(-1)?.type, 'end');
  }
});

test('a stream of a newer model keeps its finish reason; a torn one and a failure are errors', () => {
  const read = (...events: readonly (JsonObject | string)[]): ReturnType<typeof readAll> =>
    readAll(workersAiProvider.eventReader('text/event-stream', answerContext()), [sse(...events)]);
  const newer = read(
    { id: 'c', choices: [{ index: 0, delta: { content: 'Hi' } }] },
    { id: 'c', choices: [{ index: 0, delta: {}, finish_reason: 'length' }] },
    '[DONE]',
  );
  assert.equal(collectAnswer(newer).choices[0]?.finish.reason, 'length');
  assert.equal(read({ response: 'Ha' }).at(-1)?.type, 'error');
  const failed = read(
    { response: 'Ha' },
    { success: false, errors: [{ code: 7, message: 'Out of memory' }] },
    '[DONE]',
  ).at(-1);
  assert.deepEqual(failed, { type: 'error', error: { status: 502, message: 'Out of memory', code: '7' } });
});

test("embeddings come in OpenAI's shape, packed for a client that wants them so", () => {
  const report = new EncodeReport();
  const { path, body } = workersAiEmbeddings.encodeRequest(
    { model: 'x', input: 'Hi', dimensions: 2, encoding_format: 'base64' },
    host('@cf/baai/bge'),
    report,
  );
  assert.deepEqual([path, body, report.dropped], ['/run/@cf/baai/bge', '{"text":["Hi"]}', ['dimensions']]);
  const answer = Buffer.from('{"result":{"shape":[2,2],"data":[[1,0.5],[0,-2]]},"success":true,"errors":[]}');
  const plain = workersAiEmbeddings.decodeAnswer(answer, 'application/json', { model: 'x', input: 'Hi' });
  assert.deepEqual(plain, {
    model: 'x',
    body: {
      object: 'list',
      data: [
        { object: 'embedding', index: 0, embedding: [1, 0.5] },
        { object: 'embedding', index: 1, embedding: [0, -2] },
      ],
      model: 'x',
      usage: { prompt_tokens: 0, total_tokens: 0 },
    },
  });
  const packed = workersAiEmbeddings.decodeAnswer(answer, 'application/json', {
    input: 'Hi',
    encoding_format: 'base64',
  });
  const [first] = (packed.body as { data: { embedding: string }[] }).data;
  const bytes = Buffer.from(first?.embedding ?? '', 'base64');
  assert.deepEqual([bytes.readFloatLE(0), bytes.readFloatLE(4)], [1, 0.5]);
  assert.throws(() => workersAiEmbeddings.encodeRequest({ input: [1, 2] }, host(), report), /token numbers/);
});
