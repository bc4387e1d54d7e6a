import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import OpenAI from 'openai';
import { answerEvents } from '../../../core/dialects/canonical/answer-events.ts';
import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import { ChatEventBuilder } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import { openAiResponsesClient } from './index.ts';
import { answerContext } from './responses.test-support.ts';

const answer: ChatAnswer = {
  id: 'msg_foreign',
  model: 'sea-1',
  choices: [
    {
      index: 0,
      parts: [
        { type: 'reasoning', text: 'It is far.', signature: 'proof' },
        { type: 'text', text: 'Look ', citations: [{ kind: 'url', url: 'https://x.example', title: 'X' }] },
        { type: 'text', text: 'there.' },
        { type: 'refusal', text: 'No.' },
        {
          type: 'tool-call',
          id: 'call_1',
          name: 'find',
          kind: 'function',
          arguments: '{"a":1}',
          signature: 's',
        },
        { type: 'tool-call', id: 'call_2', name: 'write', kind: 'custom', arguments: 'SELECT 1' },
        { type: 'image', source: { kind: 'base64', mediaType: 'image/png', data: 'AAAA' } },
        {
          type: 'provider-tool',
          dialect: 'openai-responses',
          phase: 'call',
          id: 'ws_1',
          name: 'web_search',
          value: {
            type: 'web_search_call',
            id: 'ws_1',
            status: 'completed',
            action: { type: 'search', query: 'q' },
          },
        },
      ],
      finish: { reason: 'tool-calls', raw: 'tool_use' },
    },
  ],
};

/** A host that answers each request with what the codec writes of these events. */
async function withHost(events: readonly ChatEvent[], use: (client: OpenAI) => Promise<void>): Promise<void> {
  const server = createServer((request, reply) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      if ((JSON.parse(body) as { stream?: boolean }).stream !== true) {
        reply.setHeader('content-type', 'application/json');
        reply.end(openAiResponsesClient.encodeAnswer(answer, answerContext()));
        return;
      }
      const writer = openAiResponsesClient.eventWriter(answerContext());
      reply.setHeader('content-type', writer.contentType);
      for (const event of events) {
        const bytes = writer.write([event]);
        if (bytes !== undefined) reply.write(bytes);
      }
      reply.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  try {
    await use(new OpenAI({ apiKey: 'k', baseURL: `http://127.0.0.1:${port}`, maxRetries: 0 }));
  } finally {
    server.close();
  }
}

/** Without what the SDK adds to an item. */
function asSent(output: unknown): unknown {
  return JSON.parse(
    JSON.stringify(output, (name, value: unknown) => (name.startsWith('parsed') ? undefined : value)),
  );
}

const question = { model: 'sea-1', input: 'Where?' };

test('the official SDK adds a stream up to the complete answer', async () => {
  await withHost(answerEvents(answer), async (client) => {
    const names: string[] = [];
    const stream = client.responses.stream(question);
    stream.on('event', (event) => names.push(event.type));
    const streamed = await stream.finalResponse();
    const whole = await client.responses.create(question);
    assert.equal(streamed.output_text, 'Look there.');
    assert.equal(whole.output_text, 'Look there.');
    assert.deepEqual(asSent(streamed.output), asSent(whole.output));
    assert.deepEqual(
      whole.output.map(({ type }) => type),
      [
        'reasoning',
        'message',
        'function_call',
        'reasoning',
        'custom_tool_call',
        'image_generation_call',
        'web_search_call',
      ],
    );
    assert.deepEqual(names.slice(0, 9), [
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.reasoning_summary_part.added',
      'response.reasoning_summary_text.delta',
      'response.reasoning_summary_text.done',
      'response.reasoning_summary_part.done',
      'response.output_item.done',
      'response.output_item.added',
    ]);
    assert.equal(names.at(-1), 'response.completed');
  });
});

test('what the SDK adds up from the deltas alone is the same', async () => {
  const untilEnd = answerEvents(answer).filter(({ type }) => type !== 'end' && type !== 'finish');
  await withHost(untilEnd, async (client) => {
    const streamed = await client.responses.stream(question).finalResponse();
    assert.equal(streamed.output_text, 'Look there.');
    assert.equal(streamed.status, 'in_progress');
  });
});

test('an error in the middle of a stream is an error for the SDK', async () => {
  const builder = new ChatEventBuilder();
  builder.start({ id: '', model: 'm' });
  builder.open(0, 'a', { type: 'text', text: '' });
  builder.text(0, 'a', 'Half');
  builder.error({ status: 529, message: 'Too busy.', type: 'overloaded_error' });
  await withHost(builder.take(), async (client) => {
    await assert.rejects(client.responses.stream(question).finalResponse(), /Too busy\./);
  });
});
