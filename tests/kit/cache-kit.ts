/** A gateway with a cache in front of a provider that a test controls. */
import type { TestContext } from 'node:test';
import { definePlugin } from '../../core/pipeline/plugin.ts';
import { providerPlugin, startTestGateway, type TestGatewayOptions } from './gateway-kit.ts';
import { send, startUpstream, type Answering, type Received } from './http-kit.ts';
import { testKey } from './plugin-kit.ts';
import auth from '../../plugins/auth/index.ts';
import cache, { type CacheOptions } from '../../plugins/cache/index.ts';

export const question = { model: 'm', messages: [{ role: 'user', content: 'Hello' }] };
const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };

/** A good answer whose text tells which call it was. */
export const completion = (text: string, more: object = {}): object => ({
  id: `chatcmpl-${text}`,
  object: 'chat.completion',
  model: 'm-1',
  choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
  usage,
  ...more,
});

/** Answers every call with a good answer that counts the calls. */
export const counting = (): Answering => {
  let calls = 0;
  return (_request, response) => {
    response.writeHead(200, {
      'content-type': 'application/json',
      'x-request-id': 'req_1',
      'set-cookie': 'a=b',
      'x-ratelimit-remaining-requests': '9',
      'openai-version': '2020-10-01',
    });
    response.end(JSON.stringify(completion(`answer ${++calls}`)));
  };
};

export interface CachedOptions extends TestGatewayOptions {
  readonly answer?: Answering;
  readonly cache?: CacheOptions;
}

/** Starts it, with two workspaces that have a key each. `ask` sends the question as the first of them. */
export async function cachedGateway(t: TestContext, { answer, cache: options, ...rest }: CachedOptions = {}) {
  const upstream = await startUpstream(t, answer ?? counting());
  let attempts = 0;
  const counter = definePlugin({
    name: 'counter',
    create: () => ({ attempt: () => void attempts++ }),
  });
  const gateway = await startTestGateway(t, {
    plugins: [
      auth,
      counter,
      { plugin: cache, ...(options === undefined ? {} : { options }) },
      providerPlugin({ default: 'up' }),
    ],
    keys: {
      wk_one: testKey(),
      wk_same: testKey({ id: 'key-2' }),
      wk_two: testKey({ id: 'key-3', workspaceId: 'ws-2' }),
    },
    providers: {
      up: {
        base_url: upstream.url,
        api_key: 'held',
        also_speaks: ['openai-responses', 'anthropic-messages'],
      },
      other: { base_url: upstream.url, api_key: 'held-too' },
    },
    ...rest,
  });
  const ask = (more: Asked = {}): Promise<Received> => send(gateway.url, asking(more));
  return {
    gateway,
    upstream,
    ask,
    attempts: () => attempts,
    /** What the cache said, and what was answered. */
    told: async (more: Asked = {}): Promise<string> => brief(await ask(more)),
  };
}

/** What a test changes about its request. */
export interface Asked {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: object;
  readonly path?: string;
}

/** The request as the client sends it. */
export const asking = ({ headers, body, path }: Asked) => ({
  path: path ?? '/v1/chat/completions',
  headers: { 'x-service-api-key': 'wk_one', ...headers },
  body: { ...question, ...body },
});

/** `HIT answer 1`. */
export function brief({ headers, text, status }: Received): string {
  const said = status === 200 ? (/answer \d+/.exec(text)?.[0] ?? text) : String(status);
  return `${String(headers['x-service-cache-status'] ?? 'nothing')} ${said}`;
}
