// What the `openai` SDK throws when a provider of another dialect fails, and what the gateway itself refuses.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI, {
  APIError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
} from 'openai';
import {
  failureOf,
  modelOf,
  providerHeaders,
  riverText,
  serviceKey,
  startSdkSetting,
  type ProviderWire,
} from './sdk-setting.ts';

const wires: readonly ProviderWire[] = [
  'anthropic-messages',
  'google-gemini',
  'bedrock-converse',
  'cohere-v2',
  'openai-responses',
];

function clientOf(baseURL: string, defaultHeaders: Record<string, string>, apiKey = serviceKey): OpenAI {
  return new OpenAI({ apiKey, baseURL, maxRetries: 0, defaultHeaders });
}

for (const wire of wires) {
  test(`failures of ${wire}`, async (t) => {
    const setting = await startSdkSetting(t);
    const openai = clientOf(setting.baseUrl, providerHeaders(wire));
    const river = {
      model: modelOf[wire],
      messages: [{ role: 'user' as const, content: 'Name a river.' }],
    };

    const errorClasses = [
      [400, BadRequestError],
      [401, AuthenticationError],
      [429, RateLimitError],
      [500, InternalServerError],
      [529, InternalServerError],
    ] as const;
    for (const [status, errorClass] of errorClasses) {
      await t.test(`${status} is ${errorClass.name}`, async () => {
        for (const stream of [false, true]) {
          setting.play('grid-text', { kind: 'error', status, retryAfter: '7' });
          const error = await failureOf(openai.chat.completions.create({ ...river, stream }));
          assert.ok(error instanceof errorClass, String(error));
          assert.equal(error.status, status);
          assert.match(error.message, /The sluice is jammed\./);
          assert.equal(error.headers?.get('retry-after'), '7');
          assert.equal((error.error as { message?: string }).message, 'The sluice is jammed.');
        }
      });
    }

    await t.test('an error in a stream is thrown', async () => {
      for (const kind of ['error-event', 'cut', 'no-end'] as const) {
        setting.play('grid-text', { kind });
        let text = '';
        const reading = async (): Promise<void> => {
          const stream = await openai.chat.completions.create({ ...river, stream: true });
          for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
        };
        const error = await failureOf(reading());
        assert.ok(error instanceof APIError, `${kind}: ${String(error)}`);
        if (kind === 'error-event') assert.match(error.message, /The sluice is jammed\./);
        assert.ok(riverText.startsWith(text) && text !== '', `${kind}: ${text}`);
        setting.play('grid-text', { kind });
        const helped = await failureOf(openai.chat.completions.stream(river).finalChatCompletion());
        assert.ok(helped instanceof Error, kind);
      }
    });
  });
}

test('who has no key, or a wrong one, is refused', async (t) => {
  const setting = await startSdkSetting(t);
  const openai = clientOf(setting.baseUrl, providerHeaders('anthropic-messages'), 'wk_unknown');
  const asked = openai.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'Hi' }] });
  const error = await failureOf(asked);
  assert.ok(error instanceof AuthenticationError);
  assert.equal(error.status, 401);
  assert.equal(error.code, 'key_invalid');
  assert.equal(setting.seen().length, 0);
});

test('a provider that does not exist is refused', async (t) => {
  const setting = await startSdkSetting(t);
  const openai = clientOf(setting.baseUrl, { 'x-service-provider': '@p-nobody' });
  const asked = openai.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'Hi' }] });
  const error = await failureOf(asked);
  assert.ok(error instanceof BadRequestError || error instanceof NotFoundError, String(error));
  assert.match(error.message, /p-nobody/);
});
