import Anthropic from '@anthropic-ai/sdk';
import { GoogleGenAI } from '@google/genai';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import {
  changing,
  gatewayWith,
  holding,
  original,
  targets,
} from '../../core/pipeline/every-dialect.test-support.ts';
import type { AnyPlugin } from '../../core/pipeline/plugin.ts';

const upper = (text: string): string => text.toUpperCase();
const kinds: readonly (readonly [string, () => AnyPlugin])[] = [
  ['rewrites', () => changing('rewrites', upper)],
  ['holds', () => holding('holds', upper)],
];

for (const [kind, plugin] of kinds) {
  for (const target of targets) {
    const defaultHeaders = { 'x-service-provider': `@${target}` };

    test(`openai adds up a stream of responses from ${target} that a tap ${kind}`, async (t) => {
      const { gateway } = await gatewayWith(t, [plugin()]);
      const client = new OpenAI({ apiKey: 'k', baseURL: `${gateway.url}/v1`, maxRetries: 0, defaultHeaders });
      const stream = client.responses.stream({ model: 'm', input: 'x' });
      let deltas = '';
      stream.on('response.output_text.delta', ({ delta }) => (deltas += delta));
      const final = await stream.finalResponse();
      assert.deepEqual([final.status, deltas], ['completed', original.toUpperCase()]);
      assert.equal(final.output_text, original.toUpperCase());
    });

    test(`openai adds up a stream of chat from ${target} that a tap ${kind}`, async (t) => {
      const { gateway } = await gatewayWith(t, [plugin()]);
      const client = new OpenAI({ apiKey: 'k', baseURL: `${gateway.url}/v1`, maxRetries: 0, defaultHeaders });
      const stream = client.chat.completions.stream({
        model: 'm',
        messages: [{ role: 'user', content: 'x' }],
      });
      const { choices } = await stream.finalChatCompletion();
      assert.deepEqual(
        [choices[0]?.message.content, choices[0]?.finish_reason],
        [original.toUpperCase(), 'stop'],
      );
    });

    test(`@anthropic-ai/sdk adds up a message from ${target} that a tap ${kind}`, async (t) => {
      const { gateway } = await gatewayWith(t, [plugin()]);
      const client = new Anthropic({ apiKey: 'k', baseURL: gateway.url, maxRetries: 0, defaultHeaders });
      const stream = client.messages.stream({
        model: 'm',
        max_tokens: 100,
        messages: [{ role: 'user', content: 'x' }],
      });
      let deltas = '';
      stream.on('text', (text) => (deltas += text));
      const { content, stop_reason: reason } = await stream.finalMessage();
      const texts = content.map((block) => (block.type === 'text' ? block.text : block.type));
      assert.deepEqual(
        [deltas, texts, reason],
        [original.toUpperCase(), [original.toUpperCase()], 'end_turn'],
      );
    });

    test(`@google/genai adds up a stream from ${target} that a tap ${kind}`, async (t) => {
      const { gateway } = await gatewayWith(t, [plugin()]);
      const client = new GoogleGenAI({
        apiKey: 'k',
        httpOptions: { baseUrl: gateway.url, headers: defaultHeaders },
      });
      let text = '';
      let reason: string | undefined;
      for await (const chunk of await client.models.generateContentStream({ model: 'm', contents: 'x' })) {
        text += chunk.text ?? '';
        reason = chunk.candidates?.[0]?.finishReason ?? reason;
      }
      assert.deepEqual([text, reason], [original.toUpperCase(), 'STOP']);
    });
  }
}
