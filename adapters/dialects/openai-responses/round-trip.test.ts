import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { answerEvents } from '../../../core/dialects/canonical/answer-events.ts';
import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatMessage, ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { collectAnswer } from '../../../core/dialects/canonical/collect-answer.ts';
import { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import { type JsonObject, parseExactObject } from '../json-reading.ts';
import { openAiResponsesClient } from './index.ts';
import { openAiResponsesProvider } from './host.ts';
import {
  answerContext,
  clientCall,
  decodeContext,
  emptyRequest,
  hostFacts,
  readEvents,
} from './responses.test-support.ts';

const words = fc.string({ minLength: 1, maxLength: 12 });
const ids = fc.stringMatching(/^[a-z0-9]{4,12}$/);
const base64 = fc
  .uint8Array({ minLength: 1, maxLength: 12 })
  .map((bytes) => Buffer.from(bytes).toString('base64'));

const text: fc.Arbitrary<ChatPart> = words.map((said) => ({ type: 'text', text: said }));
const image: fc.Arbitrary<ChatPart> = fc.oneof(
  base64.map((data): ChatPart => ({
    type: 'image',
    source: { kind: 'base64', mediaType: 'image/png', data },
  })),
  ids.map((id): ChatPart => ({
    type: 'image',
    source: { kind: 'url', url: `https://x.example/${id}.png` },
    detail: 'low',
  })),
  ids.map((id): ChatPart => ({
    type: 'image',
    source: { kind: 'file-id', id, dialect: 'openai-responses' },
  })),
);
const file: fc.Arbitrary<ChatPart> = base64.map((data) => ({
  type: 'file',
  source: { kind: 'base64', mediaType: 'application/pdf', data },
  filename: 'a.pdf',
}));
const audio: fc.Arbitrary<ChatPart> = base64.map((data) => ({
  type: 'audio',
  source: { kind: 'base64', mediaType: 'audio/mpeg', data },
}));
const reasoning: fc.Arbitrary<ChatPart> = fc
  .record({ said: fc.oneof(fc.constant(''), words), id: ids, signature: ids })
  .map(({ said, id, signature }) => ({
    type: 'reasoning',
    text: said,
    summary: true,
    itemId: `rs_${id}`,
    signature,
  }));
const call: fc.Arbitrary<ChatPart> = fc
  .record({
    id: ids,
    item: ids,
    name: ids,
    args: fc.dictionary(ids, fc.jsonValue(), { noNullPrototype: true }),
    custom: fc.boolean(),
    input: words,
  })
  .map(({ id, item, name, args, custom, input }) => ({
    type: 'tool-call',
    id: `call_${id}`,
    itemId: `${custom ? 'ctc' : 'fc'}_${item}`,
    name,
    kind: custom ? ('custom' as const) : ('function' as const),
    arguments: custom ? input : JSON.stringify(args),
  }));
const refusal: fc.Arbitrary<ChatPart> = words.map((said) => ({ type: 'refusal', text: said }));
const search: fc.Arbitrary<ChatPart> = fc.record({ id: ids, query: words }).map(({ id, query }) => ({
  type: 'provider-tool',
  dialect: 'openai-responses',
  phase: 'call',
  id: `ws_${id}`,
  name: 'web_search',
  value: { id: `ws_${id}`, type: 'web_search_call', status: 'completed', action: { type: 'search', query } },
}));
const cited: fc.Arbitrary<ChatPart> = fc.record({ said: words, id: ids }).map(({ said, id }) => {
  const url = `https://x.example/${id}`;
  const value = { type: 'url_citation', url, title: id, start_index: 0, end_index: 1 };
  return {
    type: 'text',
    text: said,
    citations: [
      { kind: 'url', raw: { dialect: 'openai-responses', value }, url, title: id, start: 0, end: 1 },
    ],
  };
});
const result: fc.Arbitrary<ChatPart> = fc
  .record({ id: ids, content: fc.array(fc.oneof(text, image, file), { maxLength: 3 }), custom: fc.boolean() })
  .map(({ id, content, custom }) => ({
    type: 'tool-result',
    callId: `call_${id}`,
    kind: custom ? ('custom' as const) : ('function' as const),
    content: content as Extract<ChatPart, { type: 'tool-result' }>['content'],
  }));

const input = fc.array(fc.oneof(text, image, file, audio), { minLength: 1, maxLength: 3 });
const spoken = fc.array(fc.oneof(text, cited, reasoning, call, refusal, search), {
  minLength: 1,
  maxLength: 5,
});
const message: fc.Arbitrary<ChatMessage> = fc.oneof(
  input.map((parts) => ({ role: 'user' as const, parts })),
  fc.array(text, { minLength: 1, maxLength: 2 }).map((parts) => ({ role: 'developer' as const, parts })),
  fc.array(text, { minLength: 1, maxLength: 2 }).map((parts) => ({ role: 'system' as const, parts })),
  spoken.map((parts) => ({ role: 'assistant' as const, parts })),
  fc.array(result, { minLength: 1, maxLength: 3 }).map((parts) => ({ role: 'tool' as const, parts })),
);

/** What the wire cannot tell apart: two turns of the assistant, or two lists of results, one behind the other. */
function isOneTurnEach(messages: readonly ChatMessage[]): boolean {
  return messages.every(
    ({ role }, i) => messages[i - 1]?.role !== role || (role !== 'assistant' && role !== 'tool'),
  );
}

const tool = fc.oneof(
  fc.record({ name: ids, description: words, strict: fc.boolean() }).map((one) => ({
    type: 'function' as const,
    ...one,
    parameters: { type: 'object', properties: { a: { const: 2n ** 60n } } },
  })),
  fc.record({ name: ids }).map(({ name }) => ({ type: 'custom' as const, name, format: { type: 'text' } })),
  fc.constant({
    type: 'provider' as const,
    dialect: 'openai-responses' as const,
    purpose: 'web-search' as const,
    value: { type: 'web_search' },
  }),
);

const settings = fc.record(
  {
    maxOutputTokens: fc.nat(),
    temperature: fc.constantFrom(0, 0.5, 2),
    topP: fc.constantFrom(0.1, 1),
    parallelToolCalls: fc.boolean(),
    toolChoice: fc.constantFrom(
      { type: 'required' as const },
      { type: 'tool' as const, name: 'x', kind: 'custom' as const },
      { type: 'allowed' as const, mode: 'required' as const, names: ['a', 'b'] },
    ),
    responseFormat: fc.constantFrom(
      { type: 'json' as const },
      { type: 'json-schema' as const, name: 'n', description: 'd', schema: { type: 'object' }, strict: true },
    ),
    reasoning: fc.constantFrom({ effort: 'low' }, { effort: 'high', summary: 'auto' }),
    verbosity: fc.constantFrom('low', 'high'),
    user: words,
    safetyIdentifier: words,
    promptCacheKey: words,
    metadata: fc.dictionary(ids, words, { noNullPrototype: true }),
    serviceTier: fc.constantFrom('flex', 'default'),
    store: fc.boolean(),
    extras: fc.constantFrom({ 'openai-responses': { max_tool_calls: 3, truncation: 'auto' } }),
  },
  { requiredKeys: [] },
);

test('a conversation that goes to a provider can be read again as it was', () => {
  fc.assert(
    fc.property(
      fc.array(message, { maxLength: 6 }).filter(isOneTurnEach),
      fc.array(tool, { maxLength: 3 }),
      settings,
      (messages, tools, rest) => {
        const request: ChatRequest = {
          ...emptyRequest,
          ...rest,
          messages,
          tools,
          store: rest.store ?? false,
        };
        const report = new EncodeReport();
        const { body } = openAiResponsesProvider.encodeRequest(request, hostFacts(), report);
        assert.deepEqual(report.dropped, []);
        const again = openAiResponsesClient.decodeRequest(clientCall(parse(String(body))));
        assert.deepEqual(again, request);
      },
    ),
    { numRuns: 300 },
  );
});

const answer: fc.Arbitrary<ChatAnswer> = fc
  .record({
    parts: fc.array(fc.oneof(text, cited, reasoning, call, refusal, search), { maxLength: 6 }),
    finish: fc.constantFrom('stop', 'length', 'content-filter'),
    id: ids,
    numbers: fc.array(fc.nat(100_000), { minLength: 6, maxLength: 6 }),
  })
  .map(({ parts, finish, id, numbers }) => {
    const [promptTokens = 0, completionTokens = 0, cachedTokens = 0, cacheWriteTokens = 0] = numbers;
    const calls = parts.some(({ type }) => type === 'tool-call');
    const raw =
      { stop: 'completed', length: 'max_output_tokens', 'content-filter': 'content_filter' }[finish] ?? '';
    const reason = calls && finish === 'stop' ? 'tool-calls' : finish;
    return {
      id: `resp_${id}`,
      model: 'sea-1',
      createdAt: 1_763_700_001,
      choices: [{ index: 0, parts, finish: { reason: reason as 'stop', raw } }],
      usage: {
        promptTokens,
        completionTokens,
        totalTokens: promptTokens + completionTokens,
        cachedTokens,
        cacheWriteTokens,
        reasoningTokens: 0,
        inputAudioTokens: 0,
        outputAudioTokens: 0,
      },
    };
  });

test('an answer written for a client can be read again as it was', () => {
  fc.assert(
    fc.property(answer, (given) => {
      const body = openAiResponsesClient.encodeAnswer(given, answerContext());
      assert.deepEqual(openAiResponsesProvider.decodeAnswer(body, decodeContext()), given);
    }),
    { numRuns: 300 },
  );
});

test('a streamed answer, too, and both say the same', () => {
  fc.assert(
    fc.property(answer, fc.nat(), (given, cut) => {
      const writer = openAiResponsesClient.eventWriter(answerContext());
      const bytes = writer.write(answerEvents(given)) ?? Buffer.alloc(0);
      const at = cut % bytes.length;
      assert.deepEqual(collectAnswer(readEvents(bytes.subarray(0, at), bytes.subarray(at))), given);
    }),
    { numRuns: 300 },
  );
});

test('the final response of a stream is the complete answer', () => {
  fc.assert(
    fc.property(answer, (given) => {
      const bytes = openAiResponsesClient.eventWriter(answerContext()).write(answerEvents(given));
      const last = String(bytes).trim().split('\n\n').at(-1) ?? '';
      const { response } = parse(last.slice(last.indexOf('{'))) as { response: unknown };
      const whole = parse(String(openAiResponsesClient.encodeAnswer(given, answerContext())));
      assert.deepEqual(response, whole);
    }),
  );
});

test('signatures of other wires and redacted thoughts come back with the history', () => {
  const parts: ChatPart[] = [
    { type: 'reasoning', text: 'Hm.', signature: 'thought-proof' },
    { type: 'reasoning', text: '', redacted: 'secret' },
    { type: 'text', text: 'Look.', signature: 'text-proof' },
    {
      type: 'tool-call',
      id: 'call_a:1',
      name: 'f',
      kind: 'function',
      arguments: '{}',
      signature: 'call-proof',
    },
    { type: 'tool-call', id: 'call_b', name: 'g', kind: 'function', arguments: '{}' },
  ];
  const given = {
    id: '',
    model: 'm',
    choices: [{ index: 0, parts, finish: { reason: 'tool-calls' as const, raw: '' } }],
  };
  const { output } = parse(String(openAiResponsesClient.encodeAnswer(given, answerContext()))) as {
    output: unknown[];
  };
  const history = openAiResponsesClient.decodeRequest(
    clientCall({ input: [{ role: 'user', content: 'a' }, ...output] }),
  );
  const withoutIds = history.messages[1]?.parts.map((part) =>
    Object.fromEntries(Object.entries(part).filter(([name]) => name !== 'itemId' && name !== 'summary')),
  );
  assert.deepEqual(withoutIds, parts);
});

function parse(json: string): JsonObject {
  const object = parseExactObject(json);
  assert.ok(object !== undefined);
  return object;
}
