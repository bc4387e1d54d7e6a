import assert from 'node:assert/strict';
import { test } from 'node:test';
import { wireFixture } from '../../../tests/conformance/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { wholeAnswer } from './replay-answer.ts';
import { chatFrames } from './frames.ts';
import { openAiChat } from './index.ts';

function assembled(
  stream: Buffer | string,
  endpoint: EndpointId = 'chat.completions',
  usage?: Usage,
): unknown {
  const reader = chatFrames.createReader();
  const frames = [...reader.push(Buffer.from(stream)), ...reader.finish()];
  return JSON.parse(Buffer.from(wholeAnswer.assemble(endpoint, frames, usage)).toString());
}

test('text, usage and the envelope; the padding of the chunks is left out', () => {
  assert.deepEqual(assembled(wireFixture(openAiChat, 'text.sse')), {
    id: 'chatcmpl-text',
    object: 'chat.completion',
    created: 1763000000,
    model: 'river-1',
    system_fingerprint: 'fp_1',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'Grüße aus "東京" 🚀: say \\"usage\\":{ and [DONE]\n\n.' },
        finish_reason: 'stop',
      },
    ],
    usage: {
      prompt_tokens: 12,
      completion_tokens: 9,
      total_tokens: 21,
      prompt_tokens_details: { cached_tokens: 4, audio_tokens: 1 },
      completion_tokens_details: {
        reasoning_tokens: 3,
        audio_tokens: 2,
        accepted_prediction_tokens: 0,
        rejected_prediction_tokens: 0,
      },
    },
  });
});

test('tool calls by their index, and reasoning', () => {
  const { choices } = assembled(wireFixture(openAiChat, 'tools.sse')) as { choices: unknown };
  const call = (id: string, city: string): unknown => ({
    id,
    type: 'function',
    function: { name: 'weather', arguments: `{"city":"${city}"}` },
  });
  assert.deepEqual(choices, [
    {
      index: 0,
      message: {
        role: 'assistant',
        content: null,
        reasoning_content: 'Two cities.',
        tool_calls: [call('call_a', 'Oslo'), call('call_b', 'Rome')],
      },
      finish_reason: 'tool_calls',
    },
  ]);
});

test('calls without an index are told apart by their ids', () => {
  const call = (id: string): string =>
    `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"id":"${id}","function":{"name":"f","arguments":"{}"}}]}}]}\n\n`;
  const answer = assembled(call('a') + call('b')) as {
    choices: { message: { tool_calls: { id: string }[] } }[];
  };
  assert.deepEqual(
    answer.choices[0]?.message.tool_calls.map(({ id }) => id),
    ['a', 'b'],
  );
});

test('several choices, refusals, log probabilities, and members that nobody knows', () => {
  const answer = assembled(wireFixture(openAiChat, 'choices.sse')) as Record<string, unknown>;
  assert.deepEqual(answer.citations, ['https://example.com/a']);
  const [first, second] = answer.choices as {
    message: unknown;
    logprobs?: { content: { token: string }[] };
    finish_reason: string;
  }[];
  assert.deepEqual(first?.message, { role: 'assistant', content: 'Yes indeed' });
  assert.deepEqual(
    first?.logprobs?.content.map(({ token }) => token),
    ['Yes', ' indeed'],
  );
  assert.deepEqual(second?.message, { role: 'assistant', content: '', refusal: 'I will not.' });
  assert.equal(second?.finish_reason, 'content_filter');
});

test('filter results that came before the first choice are kept', () => {
  const answer = assembled(wireFixture(openAiChat, 'filtered.sse')) as Record<string, unknown>;
  assert.equal(answer.model, 'river-1');
  assert.equal((answer.prompt_filter_results as unknown[]).length, 1);
});

test('a completion', () => {
  const answer = assembled(wireFixture(openAiChat, 'completion.sse'), 'completions') as Record<
    string,
    unknown
  >;
  assert.equal(answer.object, 'text_completion');
  assert.deepEqual(answer.choices, [
    { index: 0, text: 'Once upon a time', logprobs: null, finish_reason: 'length' },
  ]);
});

test('plain text and content parts of one message are joined as parts', () => {
  const piece = (content: string): string =>
    `data: {"choices":[{"index":0,"delta":{"content":${content}}}]}\n\n`;
  const answer = assembled(piece('"a"') + piece('[{"type":"thinking"}]') + piece('"b"')) as {
    choices: { message: { content: unknown } }[];
  };
  assert.deepEqual(answer.choices[0]?.message.content, [
    { type: 'text', text: 'a' },
    { type: 'thinking' },
    { type: 'text', text: 'b' },
  ]);
});

test('a stream that is understood only in part is refused, not judged', () => {
  const refused = (error: unknown): boolean => GatewayError.is(error) && error.code === 'upstream_invalid';
  assert.throws(() => assembled('data: {"choices":[{"index":0,"delta":{"content":"torn'), refused);
  assert.throws(() => assembled('data: <html>\n\n'), refused);
  assert.throws(() => wholeAnswer.disassemble('chat.completions', Buffer.from('<html>')), refused);
});

test('an answer with a hostile member name changes no prototype', () => {
  assembled(
    'data: {"__proto__":{"polluted":1},"choices":[{"index":0,"delta":{"__proto__":{"polluted":1}}}]}\n\n',
  );
  assert.equal(({} as Record<string, unknown>).polluted, undefined);
});

test('an answer becomes chunks: what each choice says, its end, the usage, the end marker', () => {
  const pieces = wholeAnswer.disassemble('chat.completions', wireFixture(openAiChat, 'answer.json'));
  const events = chatFrames
    .createReader()
    .push(Buffer.concat(pieces))
    .map((frame) => frame.events.map((event) => event.type));
  assert.deepEqual(events, [
    ['text-delta'],
    ['finish'],
    ['tool-arguments-delta'],
    ['finish'],
    ['usage'],
    ['done'],
  ]);
  const first = Buffer.from(pieces[0] as Uint8Array).toString();
  assert.match(first, /"object":"chat\.completion\.chunk"/);
  assert.match(first, /"delta":\{"role":"assistant","content":"Hello\."/);
});

test('an error that came as an answer is replayed as it is, without an end marker', () => {
  const pieces = wholeAnswer.disassemble('chat.completions', Buffer.from('{"error":{"message":"x"}}'));
  assert.equal(Buffer.concat(pieces).toString(), 'data: {"error":{"message":"x"}}\n\n');
});

test('a usage that is known from elsewhere is told where the stream tells none, and only there', () => {
  const usage: Usage = {
    promptTokens: 3,
    completionTokens: 4,
    totalTokens: 7,
    cachedTokens: 1,
    cacheWriteTokens: 0,
    reasoningTokens: 2,
    inputAudioTokens: 0,
    outputAudioTokens: 0,
  };
  const chunk = 'data: {"choices":[{"index":0,"delta":{"content":"x"}}],"usage":null}\n\n';
  const told = 'data: {"choices":[],"usage":{"total_tokens":9}}\n\n';
  const without = assembled(chunk, 'chat.completions', usage) as { usage: unknown };
  assert.deepEqual(without.usage, {
    prompt_tokens: 3,
    completion_tokens: 4,
    total_tokens: 7,
    prompt_tokens_details: { cached_tokens: 1, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 2, audio_tokens: 0 },
  });
  const withOwn = assembled(chunk + told, 'chat.completions', usage) as { usage: unknown };
  assert.deepEqual(withOwn.usage, { total_tokens: 9 });
});
