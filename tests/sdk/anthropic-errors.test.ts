// What the `@anthropic-ai/sdk` throws when a provider of another dialect fails, and what the gateway itself refuses.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic, {
  APIConnectionError,
  APIError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
} from '@anthropic-ai/sdk';
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
  'openai-chat',
  'openai-responses',
  'google-gemini',
  'bedrock-converse',
  'cohere-v2',
];

function clientOf(url: string, defaultHeaders: Record<string, string>, apiKey = serviceKey): Anthropic {
  return new Anthropic({ apiKey, baseURL: url, maxRetries: 0, defaultHeaders });
}

for (const wire of wires) {
  test(`failures of ${wire}`, async (t) => {
    const setting = await startSdkSetting(t);
    const anthropic = clientOf(setting.url, providerHeaders(wire));
    const river = {
      model: modelOf[wire],
      max_tokens: 2048,
      messages: [{ role: 'user' as const, content: 'Name a river.' }],
    };

    const errorClasses = [
      [400, BadRequestError, 'invalid_request_error'],
      [401, AuthenticationError, 'authentication_error'],
      [429, RateLimitError, 'rate_limit_error'],
      [500, InternalServerError, 'api_error'],
      [529, InternalServerError, 'overloaded_error'],
    ] as const;
    for (const [status, errorClass, type] of errorClasses) {
      await t.test(`${status} is ${errorClass.name}`, async () => {
        for (const stream of [false, true]) {
          setting.play('grid-text', { kind: 'error', status, retryAfter: '7' });
          const error = await failureOf(anthropic.messages.create({ ...river, stream }));
          assert.ok(error instanceof errorClass, String(error));
          assert.equal(error.status, status);
          assert.match(error.message, /The sluice is jammed\./);
          assert.equal(error.type, type);
          assert.equal(error.headers.get('retry-after'), '7');
        }
      });
    }

    await t.test('an error in a stream is thrown', async () => {
      for (const kind of ['error-event', 'cut', 'no-end'] as const) {
        setting.play('grid-text', { kind });
        let text = '';
        const reading = async (): Promise<void> => {
          for await (const event of await anthropic.messages.create({ ...river, stream: true })) {
            assert.notEqual(event.type, 'message_stop');
            if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') {
              text += event.delta.text;
            }
          }
        };
        const error = await failureOf(reading());
        assert.ok(error instanceof APIError, `${kind}: ${String(error)}`);
        assert.ok(!(error instanceof APIConnectionError), `${kind}: ${String(error)}`);
        if (kind === 'error-event') assert.match(error.message, /The sluice is jammed\./);
        assert.ok(riverText.startsWith(text) && text !== '', `${kind}: ${text}`);
        setting.play('grid-text', { kind });
        const accumulated = await failureOf(anthropic.messages.stream(river).finalMessage());
        assert.ok(accumulated instanceof APIError, `${kind}: ${String(accumulated)}`);
      }
    });
  });
}

test('tokens are counted by the hosts that count them', async (t) => {
  const setting = await startSdkSetting(t);
  for (const wire of ['google-gemini', 'bedrock-converse'] as const) {
    const anthropic = clientOf(setting.url, { 'x-service-provider': `@v-${wire}` });
    const counted = await anthropic.messages.countTokens({
      model: modelOf[wire],
      messages: [{ role: 'user', content: 'Name a river.' }],
    });
    assert.equal(counted.input_tokens, 12);
    assert.match(setting.vectorRequests.at(-1)?.bytes.toString() ?? '', /Name a river\./);
  }
});

test('counting tokens is refused clearly where the provider counts none', async (t) => {
  const setting = await startSdkSetting(t);
  for (const wire of ['openai-chat', 'cohere-v2'] as const) {
    setting.play('grid-text');
    const anthropic = clientOf(setting.url, providerHeaders(wire));
    const asked = anthropic.messages.countTokens({
      model: modelOf[wire],
      messages: [{ role: 'user', content: 'Name a river.' }],
    });
    const error = await failureOf(asked);
    assert.ok(error instanceof BadRequestError || error instanceof NotFoundError, String(error));
    assert.match(error.message, /count/i);
    assert.equal(setting.seen().length, 0);
  }
});

test('the key is taken from the header of earlier versions, too', async (t) => {
  const setting = await startSdkSetting(t);
  setting.play('grid-text');
  const headers = { ...providerHeaders('openai-chat'), 'x-api-key': serviceKey, authorization: null };
  const anthropic = new Anthropic({
    apiKey: serviceKey,
    baseURL: setting.url,
    maxRetries: 0,
    defaultHeaders: headers,
  });
  const message = await anthropic.messages.create({
    model: 'gpt-5.1',
    max_tokens: 9,
    messages: [{ role: 'user', content: 'Name a river.' }],
  });
  assert.match(JSON.stringify(message.content), /The Danube/);
});

test('a conversation that the provider keeps is refused, and the remedy works', async (t) => {
  const setting = await startSdkSetting(t);
  const anthropic = clientOf(setting.url, providerHeaders('google-gemini'));
  setting.play('grid-text');
  const body = { model: modelOf['google-gemini'], max_tokens: 99 };
  const question = { role: 'user' as const, content: 'Name a river.' };
  const error = await failureOf(anthropic.beta.messages.thread(body).send(question));
  assert.ok(error instanceof BadRequestError, String(error));
  assert.match(error.message, /thread/);
  assert.equal(setting.seen().length, 0);
  const thread = anthropic.beta.messages.thread({
    ...body,
    unsupportedRequestBehavior: 'continue_unthreaded',
  });
  await thread.send(question);
  setting.play('grid-text');
  await thread.send({ role: 'user', content: 'And another.' });
  const said = JSON.stringify(setting.lastSeen().body);
  for (const text of ['Name a river.', 'The Danube flows', 'And another.']) assert.ok(said.includes(text));
});

test('a wrong key is refused in the shape of the SDK', async (t) => {
  const setting = await startSdkSetting(t);
  const anthropic = clientOf(setting.url, providerHeaders('openai-chat'), 'wk_unknown');
  const asked = anthropic.messages.create({
    model: 'gpt-5.1',
    max_tokens: 9,
    messages: [{ role: 'user', content: 'Hi' }],
  });
  const error = await failureOf(asked);
  assert.ok(error instanceof AuthenticationError, String(error));
  assert.equal(error.type, 'authentication_error');
});
