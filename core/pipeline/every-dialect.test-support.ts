import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { goldenClients } from '../../tests/golden/grid-gateway.ts';
import type { Heard } from '../../main/testing/heard.ts';
import { framesOf } from '../../main/testing/heard.ts';
import { startFakeProviders } from '../../tests/kit/fake-providers/fake-providers.ts';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send, type Received } from '../../tests/kit/http-kit.ts';
import type { DialectName } from '../dialects/endpoint.ts';
import { definePlugin, type AnyPlugin, type StreamTap } from './plugin.ts';

/** A client of a dialect: its request for a stream, and its reading of the answer. */
export interface Caller {
  readonly name: string;
  readonly dialect: DialectName;
  readonly path: string;
  readonly body: object;
}

const messages = [{ role: 'user', content: 'Which cities?' }];
const contents = [{ role: 'user', parts: [{ text: 'Which cities?' }] }];
const stream = '/v1beta/models/m:streamGenerateContent';
/** Every client, streaming. */
export const callers: readonly Caller[] = [
  {
    name: 'chat',
    dialect: 'openai-chat',
    path: '/v1/chat/completions',
    body: { model: 'm', stream: true, stream_options: { include_usage: true }, messages },
  },
  {
    name: 'responses',
    dialect: 'openai-responses',
    path: '/v1/responses',
    body: { model: 'm', stream: true, input: 'Which cities?' },
  },
  {
    name: 'messages',
    dialect: 'anthropic-messages',
    path: '/v1/messages',
    body: { model: 'm', stream: true, max_tokens: 100, messages },
  },
  { name: 'gemini', dialect: 'google-gemini', path: `${stream}?alt=sse`, body: { contents } },
  { name: 'gemini array', dialect: 'google-gemini', path: stream, body: { contents } },
];
/** Dialects of providers. */
export const targets = ['openai-chat', 'openai-responses', 'anthropic-messages', 'google-gemini'] as const;

/** The providers' answer in `grid-text`. */
export const original = 'The Danube flows through Vienna, Budapest and Belgrade. 🌊\n"Ünïcode" \\ stays.';

/** A gateway in front of fake providers of every target's dialect, with these plugins. */
export async function gatewayWith(t: TestContext, plugins: readonly AnyPlugin[], fixture = 'grid-text') {
  const providers = await startFakeProviders(t);
  providers.play({ fixture });
  const api_key = 'sk-held';
  const gateway = await startTestGateway(t, {
    plugins: [...plugins, providerPlugin()],
    providers: {
      'openai-chat': { dialect: 'openai-chat', base_url: `${providers.url}/openai/v1`, api_key },
      'openai-responses': { dialect: 'openai-responses', base_url: `${providers.url}/openai/v1`, api_key },
      'anthropic-messages': {
        dialect: 'anthropic-messages',
        base_url: `${providers.url}/anthropic/v1`,
        api_key,
      },
      'google-gemini': { dialect: 'google-gemini', base_url: providers.url, api_key },
    },
    security: { trusted_hosts: [`127.0.0.1:${providers.port}`] },
  });
  const ask = (caller: Caller, target: string): Promise<Received> =>
    send(gateway.url, {
      path: caller.path,
      body: caller.body,
      headers: { 'x-service-provider': `@${target}` },
    });
  return { gateway, ask };
}

/** A plugin with this tap. */
export const tapping = (name: string, tap: () => StreamTap): AnyPlugin =>
  definePlugin({ name, capabilities: { stream: 'window' }, create: () => ({ stream: tap }) });

/** Changes every piece of text. */
export const changing = (name: string, change: (text: string) => string): AnyPlugin =>
  tapping(name, () => ({
    event: (event, emit) =>
      emit(event.type === 'text-delta' ? { ...event, text: change(event.text) } : event),
  }));

/** Holds all text back and emits it, changed, at the end. */
export const holding = (name: string, change: (text: string) => string): AnyPlugin =>
  tapping(name, () => {
    const held: string[] = [];
    return {
      event: (event, emit) => (event.type === 'text-delta' ? void held.push(event.text) : emit(event)),
      end: (emit) => {
        if (held.length > 0) emit({ type: 'text-delta', choice: 0, text: change(held.join('')) });
      },
    };
  });

/** Reads the answer as a strict client of the wire. */
export function heardBy(caller: Caller, { text, body, headers }: Received): Heard {
  const listener = goldenClients.find(({ dialect }) => dialect === caller.dialect);
  assert.ok(listener !== undefined);
  const isArray = headers['content-type']?.startsWith('application/json') === true;
  const frames = isArray
    ? (JSON.parse(text) as unknown[]).map((element) => ({ event: '', data: JSON.stringify(element) }))
    : framesOf(body);
  return listener.hearStream(frames);
}
