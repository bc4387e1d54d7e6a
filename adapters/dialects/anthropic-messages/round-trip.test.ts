import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { answerEvents } from '../../../core/dialects/canonical/answer-events.ts';
import type { ChatAnswer, Finish } from '../../../core/dialects/canonical/chat-answer.ts';
import type { CacheMarker, ChatPart, MediaSource } from '../../../core/dialects/canonical/chat-part.ts';
import type {
  ChatMessage,
  ChatRequest,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import { collectAnswer } from '../../../core/dialects/canonical/collect-answer.ts';
import { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import { parseExactObject } from '../json-reading.ts';
import { chatContext, hostOf } from './chat-setting.test-support.ts';
import { anthropicClient } from './index.ts';
import { anthropicProvider } from './host.ts';

const word = fc.string({ minLength: 1, maxLength: 12 }).filter((text) => text.trim() !== '');
const name = fc.stringMatching(/^[a-zA-Z0-9_-]{1,12}$/);
const cache: fc.Arbitrary<CacheMarker> = fc.constantFrom({}, { ttl: '1h' });
const jsonText = fc
  .dictionary(name, fc.oneof(fc.integer(), word, fc.boolean(), fc.bigInt({ min: 2n ** 60n, max: 2n ** 63n })))
  .map((value) =>
    JSON.stringify(value, (_name, member: unknown) => (typeof member === 'bigint' ? `#${member}#` : member))
      .replaceAll('"#', '')
      .replaceAll('#"', ''),
  )
  .filter((text) => parseExactObject(text) !== undefined && !text.includes('__proto__'));

const media: fc.Arbitrary<MediaSource> = fc.oneof(
  fc.webUrl().map((url) => ({ kind: 'url', url }) as const),
  fc.constant({ kind: 'base64', mediaType: 'image/png', data: 'AAAA' } as const),
  name.map((id) => ({ kind: 'file-id', id, dialect: 'anthropic-messages' }) as const),
);
/** Members that may be there or not. */
function some<T extends object>(members: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<Partial<T>> {
  return fc.record(members, { requiredKeys: [] }).map((value) => value as Partial<T>);
}

const text: fc.Arbitrary<ChatPart> = fc
  .tuple(word, some({ cache }))
  .map(([value, more]) => ({ type: 'text', text: value, ...more }));
const image: fc.Arbitrary<ChatPart> = fc
  .tuple(media, some({ cache }))
  .map(([source, more]) => ({ type: 'image', source, ...more }));
const file: fc.Arbitrary<ChatPart> = fc
  .tuple(
    fc.oneof(
      word.map((value) => ({ kind: 'text', text: value }) as const),
      fc.constant({ kind: 'base64', mediaType: 'application/pdf', data: 'JVBE' } as const),
    ),
    some({ cache, filename: word, context: word, citations: fc.boolean() }),
  )
  .map(([source, more]) => ({ type: 'file', source, ...more }));
const signed: fc.Arbitrary<ChatPart> = fc.oneof(
  fc
    .tuple(fc.string(), name)
    .map(([value, signature]) => ({ type: 'reasoning', text: value, signature }) as const),
  name.map((redacted) => ({ type: 'reasoning', text: '', redacted }) as const),
);
const serverTool: fc.Arbitrary<ChatPart> = name.map((id) => ({
  type: 'provider-tool',
  dialect: 'anthropic-messages',
  phase: 'call',
  id,
  name: 'web_search',
  value: { type: 'server_tool_use', id, name: 'web_search', input: { query: id } },
}));
const opaque: fc.Arbitrary<ChatPart> = name.map((id) => ({
  type: 'opaque',
  dialect: 'anthropic-messages',
  value: { type: 'container_upload', file_id: id },
}));
const call: fc.Arbitrary<ChatPart> = fc
  .tuple(name, name, jsonText)
  .map(([id, tool, given]) => ({ type: 'tool-call', kind: 'function', id, name: tool, arguments: given }));
const result: fc.Arbitrary<ChatPart> = fc
  .tuple(
    name,
    fc.array(fc.oneof(text, image, file), { maxLength: 3 }),
    some({ isError: fc.boolean(), cache }),
  )
  .map(
    ([callId, content, more]) =>
      ({ type: 'tool-result', kind: 'function', callId, content, ...more }) as ChatPart,
  );

/** Turns as the wire keeps them: neighbours differ, results stand before what the user says. */
const conversation: fc.Arbitrary<readonly ChatMessage[]> = fc
  .tuple(
    fc.array(text, { maxLength: 2 }),
    fc.array(
      fc.record({
        results: fc.array(result, { maxLength: 2 }),
        user: fc.array(fc.oneof(text, image, file, opaque), { minLength: 1, maxLength: 3 }),
        assistant: fc.array(fc.oneof(signed, call, serverTool, text), { minLength: 1, maxLength: 4 }),
      }),
      { minLength: 1, maxLength: 3 },
    ),
    fc.array(text, { minLength: 1, maxLength: 1 }),
  )
  .map(([system, rounds, last]) => [
    ...(system.length === 0 ? [] : [{ role: 'system', parts: system } as const]),
    ...rounds.flatMap(({ results, user, assistant }): ChatMessage[] => [
      ...(results.length === 0 ? [] : [{ role: 'tool', parts: results } as const]),
      { role: 'user', parts: user },
      { role: 'assistant', parts: assistant },
    ]),
    { role: 'user', parts: last },
  ]);

const tools: fc.Arbitrary<readonly ToolDefinition[]> = fc.array(
  fc.oneof(
    fc
      .tuple(name, some({ description: word, strict: fc.boolean(), cache }))
      .map(([tool, more]): ToolDefinition => ({
        type: 'function',
        name: tool,
        parameters: { type: 'object', properties: {} },
        ...more,
      })),
    fc.constant<ToolDefinition>({
      type: 'provider',
      dialect: 'anthropic-messages',
      purpose: 'web-search',
      value: { type: 'web_search_20250305', name: 'web_search' },
    }),
  ),
  { minLength: 1, maxLength: 3 },
);

const requests: fc.Arbitrary<ChatRequest> = fc
  .record({
    messages: conversation,
    tools,
    more: some<Partial<ChatRequest>>({
      temperature: fc.constantFrom(0, 0.5, 1),
      topK: fc.integer({ min: 1, max: 40 }),
      stop: fc.array(word, { minLength: 1, maxLength: 2 }),
      user: word,
      serviceTier: fc.constantFrom('auto', 'default'),
      toolChoice: fc.constantFrom<ChatRequest['toolChoice']>({ type: 'auto' }, { type: 'required' }),
      responseFormat: fc.constant({
        type: 'json-schema',
        strict: true,
        schema: { type: 'object', properties: {}, additionalProperties: false },
      } as const),
      extras: fc.constant({ 'anthropic-messages': { container: 'c' } }),
    }),
    maxOutputTokens: fc.integer({ min: 1, max: 9000 }),
    stream: fc.boolean(),
  })
  .map(({ more, ...request }) => ({ model: 'claude-sonnet-4-5', ...request, ...more }));

test('an arbitrary request survives encoding and decoding', () => {
  fc.assert(
    fc.property(requests, (request) => {
      const report = new EncodeReport();
      const { body } = anthropicProvider.encodeRequest(request, hostOf('claude-sonnet-4-5'), report);
      const json = parseExactObject(String(body)) ?? {};
      const decoded = anthropicClient.decodeRequest({
        body: json,
        model: request.model,
        stream: request.stream,
        query: '',
        header: () => undefined,
      });
      assert.deepEqual(canonical(decoded), canonical(request));
      assert.deepEqual([report.dropped, report.emulated], [[], []]);
    }),
    { numRuns: 150 },
  );
});

const cited: fc.Arbitrary<ChatPart> = word.map((value) => ({
  type: 'text',
  text: value,
  citations: [
    {
      kind: 'url',
      url: 'https://x.example',
      quote: 'q',
      raw: {
        dialect: 'anthropic-messages',
        value: { type: 'web_search_result_location', url: 'https://x.example', cited_text: 'q' },
      },
    },
  ],
}));
const plain: fc.Arbitrary<ChatPart> = word.map((value) => ({ type: 'text', text: value }));
const finishes: fc.Arbitrary<Finish> = fc.constantFrom<Finish>(
  { reason: 'length', raw: 'max_tokens' },
  { reason: 'pause', raw: 'pause_turn' },
  { reason: 'content-filter', raw: 'refusal' },
  { reason: 'stop', raw: 'stop_sequence', stopSequence: 'END' },
);
const answers: fc.Arbitrary<ChatAnswer> = fc
  .record({
    parts: fc.array(fc.oneof(plain, cited, signed, call, serverTool, opaque), { maxLength: 5 }),
    finish: finishes,
    counts: fc.array(fc.nat(1000), { minLength: 5, maxLength: 5 }),
    more: some<Partial<ChatAnswer>>({
      serviceTier: fc.constantFrom('default', 'priority'),
      extras: fc.constant({
        'anthropic-messages': {
          container: { id: 'c' },
          usage: { server_tool_use: { web_search_requests: 2 } },
        },
      }),
    }),
  })
  .map(({ parts, finish, counts, more }) => {
    const [fresh = 0, cachedTokens = 0, cacheWriteTokens = 0, shown = 0, reasoningTokens = 0] = counts;
    const promptTokens = fresh + cachedTokens + cacheWriteTokens;
    const completionTokens = shown + reasoningTokens;
    return {
      id: 'msg_1',
      model: 'm',
      choices: [{ index: 0, parts, finish }],
      usage: {
        promptTokens,
        completionTokens,
        totalTokens: promptTokens + completionTokens,
        cachedTokens,
        cacheWriteTokens,
        reasoningTokens,
        inputAudioTokens: 0,
        outputAudioTokens: 0,
      },
      ...more,
    };
  });

test('an arbitrary answer survives encoding and decoding, whole and streamed', () => {
  fc.assert(
    fc.property(answers, (answer) => {
      const context = chatContext();
      const whole = anthropicProvider.decodeAnswer(anthropicClient.encodeAnswer(answer, context), context);
      assert.deepEqual(canonical(whole), canonical(answer));
      const bytes = anthropicClient.eventWriter(context).write(answerEvents(answer)) ?? Buffer.alloc(0);
      const reader = anthropicProvider.eventReader('text/event-stream', context);
      const events = [...reader.push(bytes), ...reader.finish()];
      assert.deepEqual(canonical(collectAnswer(events)), canonical(answer));
    }),
    { numRuns: 150 },
  );
});

/** Comparable: arguments without white space, long numbers as text. */
function canonical(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (member, inner: unknown) => {
      if (typeof inner === 'bigint') return `${inner}n`;
      return member === 'arguments' ? JSON.stringify(comparable(inner)) : inner;
    }),
  );
}

function comparable(text: unknown): unknown {
  const json = parseExactObject(String(text)) ?? {};
  return Object.fromEntries(
    Object.entries(json).map(([key, value]) => [key, typeof value === 'bigint' ? `${value}n` : value]),
  );
}
