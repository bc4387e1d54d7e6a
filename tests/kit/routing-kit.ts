/** A gateway in front of every kind of provider, for tests of routing. */
import type { TestContext } from 'node:test';
import type { ProviderRow } from '../../core/providers/provider-row.ts';
import auth from '../../plugins/auth/index.ts';
import { providerPlugin, startTestGateway, type TestGatewayOptions } from './gateway-kit.ts';
import { startUpstream, type Answering, type Upstream } from './http-kit.ts';
import { testKey } from './plugin-kit.ts';

/** A service key with the prefix, and one without. */
export const ours = 'wk_0123456789abcdef';
export const unprefixed = 'a-key-of-our-own-choice';
const keys = { [ours]: testKey(), [unprefixed]: testKey({ id: 'second' }) };
/** The header with which every request is let in. */
export const key = { 'x-service-api-key': ours };

/** Answers with an empty object. */
export const ok: Answering = (_request, response) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end('{}');
};

/** A gateway with `auth`, two hosts, and every kind of provider. */
export async function routed(t: TestContext, options: TestGatewayOptions & { answer?: Answering } = {}) {
  const upstream = await startUpstream(t, options.answer ?? ok);
  const other = await startUpstream(t, ok);
  const table = new Map<string, ProviderRow>([
    ['plain', { base_url: `${upstream.url}/v1` }],
    [
      'boxed',
      { base_url: `${upstream.url}/boxed/`, credentials: 'x-api-key', headers: { 'x-version': '7' } },
    ],
    ['azure', { base_url: upstream.url, credentials: 'api-key' }],
    ['open', { base_url: upstream.url, credentials: 'none' }],
    ['overridden', { base_url: 'https://never.example/v1', headers: { 'x-row': 'built-in' } }],
  ]);
  const gateway = await startTestGateway(t, {
    plugins: [auth, providerPlugin()],
    keys,
    table,
    providers: {
      held: { base_url: `${upstream.url}/v1`, api_key: 'held-secret' },
      bare: { base_url: `${upstream.url}/v1` },
      'held-boxed': { base_url: upstream.url, credentials: 'x-api-key', api_key: 'held-secret' },
      'in-headers': { base_url: upstream.url, headers: { 'X-Api-Key': 'row-secret' } },
      overridden: { base_url: `${upstream.url}/over`, headers: { 'x-yaml': '1' } },
    },
    ...options,
  });
  return { gateway, upstream, other };
}

/** The credentials that the latest request brought to a host. */
export const credentialsOf = ({ requests }: Upstream) => {
  const { authorization, 'x-api-key': boxed, 'api-key': azure } = requests.at(-1)?.headers ?? {};
  return { authorization, boxed, azure };
};
