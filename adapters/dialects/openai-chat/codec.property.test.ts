import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { answerEvents } from '../../../core/dialects/canonical/answer-events.ts';
import type { ChatAnswer, FinishReason } from '../../../core/dialects/canonical/chat-answer.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type {
  ChatMessage,
  ChatRequest,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import { collectAnswer } from '../../../core/dialects/canonical/collect-answer.ts';
import { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import { type JsonObject, parseExactObject } from '../json-reading.ts';
import { openAiChatClient } from './index.ts';
import { answerContext, clientCall, host, plainRequest, readAll, usageOf } from './codec.test-support.ts';
import { requestMember } from '../request-members.ts';
import { openAiChatProvider } from './host.ts';

const word = fc.stringMatching(/^[a-z][a-z0-9_]{0,8}$/);
const said = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 });
const base64 = fc
  .uint8Array({ minLength: 3, maxLength: 9 })
  .map((bytes) => Buffer.from(bytes).toString('base64'));
const cache = fc.constantFrom({}, { ttl: '1h' });

function record<T extends object>(members: {
  readonly [name: string]: fc.Arbitrary<unknown>;
}): fc.Arbitrary<T> {
  return fc.record(members).map((value) => requestMember.given<T>(value as never));
}

function maybe<T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> {
  return fc.option(value, { nil: undefined });
}

const text = record<ChatPart>({ type: fc.constant('text'), text: said, cache: maybe(cache) });
const media: fc.Arbitrary<ChatPart> = fc.oneof(
  base64.map((data): ChatPart => ({
    type: 'image',
    source: { kind: 'base64', mediaType: 'image/png', data },
  })),
  word.map((name): ChatPart => ({
    type: 'image',
    source: { kind: 'url', url: `https://a.example/${name}` },
    detail: 'low',
  })),
  base64.map((data): ChatPart => ({
    type: 'audio',
    source: { kind: 'base64', mediaType: 'audio/mpeg', data },
  })),
  fc.tuple(word, base64).map(([name, data]): ChatPart => ({
    type: 'file',
    filename: `${name}.pdf`,
    source: { kind: 'base64', mediaType: 'application/pdf', data },
  })),
);
const call: fc.Arbitrary<ChatPart> = fc
  .tuple(word, word, fc.boolean(), maybe(said))
  .map(([id, name, custom, signature]): ChatPart =>
    requestMember.given<ChatPart>({
      type: 'tool-call',
      id,
      name,
      kind: custom ? 'custom' : 'function',
      arguments: custom ? 'select' : `{"x":${JSON.stringify(name)}}`,
      signature,
    } as never),
  );
const message: fc.Arbitrary<ChatMessage> = fc.oneof(
  fc
    .array(fc.oneof(text, media), { minLength: 1, maxLength: 3 })
    .map((parts): ChatMessage => ({ role: 'user', parts })),
  fc
    .tuple(fc.constantFrom('system' as const, 'developer' as const), text)
    .map(([role, part]) => ({ role, parts: [part] })),
  // Reasoning, one text, then calls: the order in which the wire has them.
  fc
    .tuple(maybe(said), maybe(said), fc.array(call, { maxLength: 2 }))
    .map(([thought, spoken, calls]): ChatMessage => {
      const parts: ChatPart[] = [];
      if (thought !== undefined) parts.push({ type: 'reasoning', text: thought });
      if (spoken !== undefined) parts.push({ type: 'text', text: spoken });
      return { role: 'assistant', parts: [...parts, ...calls] };
    }),
  fc
    .tuple(
      word,
      fc.array(
        said.map((one): ChatPart => ({ type: 'text', text: one })),
        { minLength: 1, maxLength: 2 },
      ),
    )
    .map(([callId, content]): ChatMessage => ({
      role: 'tool',
      parts: [{ type: 'tool-result', callId, kind: 'function', content: content as never }],
    })),
);
const tool: fc.Arbitrary<ToolDefinition> = fc.oneof(
  record<ToolDefinition>({
    type: fc.constant('function'),
    name: word,
    description: maybe(said),
    parameters: maybe(fc.constant({ type: 'object', properties: { x: { type: 'string' } } })),
    strict: maybe(fc.boolean()),
    cache: maybe(cache),
  }),
  word.map((name): ToolDefinition => ({
    type: 'custom',
    name,
    format: { type: 'grammar', syntax: 'regex', definition: 'a+' },
  })),
  fc.constant<ToolDefinition>({
    type: 'provider',
    dialect: 'openai-chat',
    purpose: 'web-search',
    value: { type: 'web_search' },
  }),
);
const request: fc.Arbitrary<ChatRequest> = record<ChatRequest>({
  model: fc.constant('gemini-river'),
  stream: fc.boolean(),
  messages: fc.array(message, { minLength: 1, maxLength: 4 }),
  tools: fc.array(tool, { minLength: 1, maxLength: 3 }),
  toolChoice: maybe(
    fc.constantFrom({ type: 'auto' }, { type: 'required' }, { type: 'tool', name: 'a', kind: 'function' }),
  ),
  parallelToolCalls: maybe(fc.boolean()),
  maxOutputTokens: maybe(fc.nat()),
  temperature: maybe(fc.double({ min: 0, max: 2, noNaN: true })),
  topK: maybe(fc.nat()),
  seed: maybe(fc.oneof(fc.nat(), fc.bigInt(2n ** 53n, 2n ** 62n))),
  stop: maybe(fc.array(said, { minLength: 1, maxLength: 2 })),
  n: maybe(fc.integer({ min: 1, max: 4 })),
  responseFormat: maybe(
    fc.constantFrom({ type: 'json' }, { type: 'json-schema', name: 'a', schema: { type: 'object' } }),
  ),
  reasoning: maybe(fc.constantFrom({ effort: 'low' }, { effort: 'none' })),
  metadata: maybe(fc.dictionary(word, said, { noNullPrototype: true })),
  extras: maybe(word.map((name) => ({ 'openai-chat': { [`x_${name}`]: 1 } }))),
});

test('a conversation survives the way to a host and back', () => {
  const taking = host('gemini-river', { rename: { cache_control: 'cache_control', top_k: 'top_k' } });
  fc.assert(
    fc.property(request, (given) => {
      const report = new EncodeReport();
      const { body } = openAiChatProvider.encodeRequest(given, taking, report);
      assert.deepEqual(report.dropped, []);
      const json = parseExactObject(body.toString());
      assert.ok(json !== undefined);
      const { includeUsage, ...back } = openAiChatClient.decodeRequest(clientCall(json));
      assert.equal(includeUsage, given.stream ? true : undefined);
      assert.deepEqual(back, given);
    }),
  );
});

const reasons: readonly FinishReason[] = ['stop', 'length', 'content-filter'];
const words: Readonly<Record<string, string>> = { 'content-filter': 'content_filter' };

/** Parts in the order in which the wire has them; `blocks`: with what `content_blocks` alone can say. */
function answers(blocks: boolean): fc.Arbitrary<ChatAnswer> {
  const thought = fc.tuple(said, maybe(said)).map(([one, signature]): ChatPart =>
    requestMember.given<ChatPart>({
      type: 'reasoning',
      text: one,
      signature: blocks ? signature : undefined,
    } as never),
  );
  const search: ChatPart = {
    type: 'provider-tool',
    dialect: 'anthropic-messages',
    phase: 'call',
    id: 's',
    name: 'web_search',
    value: { type: 'server_tool_use', id: 's', name: 'web_search', input: {} },
  };
  return fc
    .tuple(
      maybe(thought),
      fc.boolean(),
      maybe(said),
      fc.array(call, { maxLength: 2 }),
      fc.constantFrom(...reasons),
      fc.nat(9),
    )
    .map(([first, searched, spoken, calls, reason, tokens]) => {
      const parts: ChatPart[] = first === undefined ? [] : [first];
      if (blocks && searched) parts.push(search);
      if (spoken !== undefined) parts.push({ type: 'text', text: spoken });
      parts.push(
        ...calls.map((part, i): ChatPart => (part.type === 'tool-call' ? { ...part, id: `c${i}` } : part)),
      );
      const raw = calls.length > 0 ? 'tool_calls' : (words[reason] ?? reason);
      return {
        id: 'x',
        model: 'm',
        createdAt: 5,
        choices: [
          { index: 0, parts, finish: { reason: calls.length > 0 ? ('tool-calls' as const) : reason, raw } },
        ],
        usage: usageOf(tokens, tokens, { cachedTokens: 1, cacheWriteTokens: 1 }),
      };
    });
}

for (const strict of [true, false]) {
  test(`an answer survives the way to a client and back (${strict ? 'strict' : 'with blocks'})`, () => {
    fc.assert(
      fc.property(answers(!strict), (answer) => {
        const context = answerContext(strict, { ...plainRequest, includeUsage: true });
        const whole = openAiChatClient.encodeAnswer(answer, context);
        assert.deepEqual(openAiChatProvider.decodeAnswer(whole, context), answer);
        const bytes = openAiChatClient.eventWriter(context).write(answerEvents(answer)) ?? Buffer.alloc(0);
        const events = readAll(openAiChatProvider.eventReader('text/event-stream', context), [bytes]);
        assert.deepEqual(collectAnswer(events), answer);
      }),
    );
  });
}

test('the body of any request is JSON that a client could have sent', () => {
  fc.assert(
    fc.property(request, (given) => {
      const { body } = openAiChatProvider.encodeRequest(given, host('gpt-5'), new EncodeReport());
      const json = parseExactObject(body.toString()) as JsonObject;
      assert.doesNotThrow(() => openAiChatClient.decodeRequest(clientCall(json)));
    }),
    { numRuns: 30 },
  );
});
