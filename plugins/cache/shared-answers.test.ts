import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import { sha256 } from '../../core/base/bytes.ts';
import { asking, completion, type Asked } from '../../tests/kit/cache-kit.ts';
import { delta, done, finish } from '../../tests/kit/chat-stream-kit.ts';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream, type Answering } from '../../tests/kit/http-kit.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import auth from '../auth/index.ts';
import cache from './index.ts';

/** Headers that do not tell what is asked, or that each connection has for itself. */
const ofConnections = /^(?:host|connection|content-length|accept-encoding|accept|user-agent)$/;
/** What the cache may leave out, because it makes one form of an answer of the other. */
const ofForms = ['stream', 'stream_options', 'messages'];

/** A provider whose answer is a digest of all that it was sent, but for the texts: two that differ are told apart. */
const echoing =
  (name: string): Answering =>
  ({ method, url, headers, body }, response) => {
    const asked = JSON.parse(body.toString()) as Record<string, unknown>;
    const streams = asked['stream'] === true;
    for (const member of ofForms) Reflect.deleteProperty(asked, member);
    const heard = Object.entries(headers).filter(([header]) => !ofConnections.test(header));
    const echo = `echo ${sha256(JSON.stringify([name, method, url, heard.sort(), asked]), 'hex')}`;
    response.writeHead(200, { 'content-type': streams ? 'text/event-stream' : 'application/json' });
    response.end(streams ? [delta(echo), finish, done].join('') : JSON.stringify(completion(echo)));
  };

/** Embeds everything alike: only what surrounds two questions keeps them apart. */
const embedding: Answering = (_request, response) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ data: [{ index: 0, embedding: [1, 0] }], usage: { total_tokens: 1 } }));
};

interface Wish {
  readonly provider?: string | undefined;
  readonly host?: string | undefined;
  readonly key?: string | undefined;
  readonly deployment?: string | undefined;
  readonly version?: string | undefined;
  readonly tenant?: string | undefined;
  readonly config?: string | undefined;
  readonly beta?: string | undefined;
  readonly tier?: string | undefined;
  readonly cookie?: string | undefined;
  readonly namespace?: string | undefined;
  readonly team?: string | undefined;
  readonly streams: boolean;
  readonly text: string;
}

/** Told apart by it, so that runs do not find answers of each other. */
let run = 0;

/** The same providers behind a gateway with a cache and behind one without, and what may be asked of them. */
async function begin(t: TestContext) {
  const up = await startUpstream(t, echoing('up'));
  const foreign = await startUpstream(t, echoing('foreign'));
  const vectors = await startUpstream(t, embedding);
  const shared = {
    keys: { wk_one: testKey() },
    security: { trusted_hosts: ['127.0.0.1'] },
    providers: {
      up: { base_url: up.url, api_key: 'held' },
      other: { base_url: up.url, api_key: 'held-too' },
      elsewhere: { base_url: `${up.url}/eu`, api_key: 'held' },
      vectors: { base_url: vectors.url, api_key: 'held' },
    },
  };
  const provider = providerPlugin({ default: 'up' });
  const semantic = { provider: 'vectors', model: 'small' };
  const exact = await startTestGateway(t, { ...shared, plugins: [auth, cache, provider] });
  const similar = await startTestGateway(t, {
    ...shared,
    plugins: [auth, { plugin: cache, options: { mode: 'semantic', semantic } }, provider],
  });
  const without = await startTestGateway(t, { ...shared, plugins: [auth, provider] });
  const pick = (...values: string[]) => fc.constantFrom<(string | undefined)[]>(undefined, ...values);
  const hosts = [foreign.url, `${foreign.url}/v2`, up.url];
  const own = (more: object) => JSON.stringify({ provider: 'openai', custom_host: foreign.url, ...more });
  const whole: fc.Arbitrary<Wish> = fc.record({
    provider: pick('other', 'elsewhere', 'azure-openai', 'openai'),
    host: pick(...hosts),
    key: pick('sk-1', 'sk-2'),
    deployment: pick('one', 'two'),
    version: pick('v1', '2024-10-21'),
    tenant: pick('a', 'b'),
    config: pick(own({ api_key: 'mine' }), own({ api_key: 'yours' }), own({ forward_headers: ['x-tier'] })),
    beta: pick('x', 'y'),
    tier: pick('gold', 'tin'),
    cookie: pick('session=1', 'session=2'),
    namespace: pick('docs', 'other'),
    team: pick('a', 'b'),
    streams: fc.boolean(),
    text: fc.constantFrom('Hello', 'Good day'),
  });
  // Mostly alike: what is told apart by one thing alone is what the cache could confuse.
  const wishes = fc
    .tuple(
      whole,
      fc.array(fc.tuple(whole, fc.subarray(members, { maxLength: 2 })), { minLength: 1, maxLength: 3 }),
    )
    .map(([first, others]) => [
      first,
      ...others.map(([other, changed]) => ({
        ...first,
        ...Object.fromEntries(changed.map((name) => [name, other[name]])),
      })),
    ])
    .map((all) => all.map((one) => possible(one, foreign.url)));
  return { wishes, exact: exact.url, similar: similar.url, without: without.url };
}

const plain: Wish = { streams: false, text: 'Hello' };
const members = [
  ...(['provider', 'host', 'key', 'deployment', 'version', 'tenant', 'config', 'beta', 'tier'] as const),
  ...(['cookie', 'namespace', 'team', 'streams', 'text'] as const),
];

/** Without what no test may ask: built-in addresses, and headers that a namespace leaves out by its definition. */
function possible(one: Wish, host: string): Wish {
  const isBuiltIn = one.config === undefined && ['openai', 'azure-openai'].includes(one.provider ?? '');
  return {
    ...one,
    ...(isBuiltIn && { host: one.host ?? host }),
    ...(one.namespace !== undefined && { beta: undefined, tier: undefined, cookie: undefined }),
  };
}

function askedFor(one: Wish): Asked {
  const headers: Record<string, string> = {};
  const put = (name: string, value: string | undefined): void => {
    if (value !== undefined) headers[name] = value;
  };
  if (one.config === undefined) put('x-service-provider', one.provider);
  put('x-service-config', one.config);
  put('x-service-custom-host', one.host);
  put('authorization', one.key && `Bearer ${one.key}`);
  put('x-service-azure-deployment-id', one.deployment);
  put('x-service-azure-api-version', one.version);
  put('x-service-cache-namespace', one.namespace);
  put('x-service-metadata', one.team && JSON.stringify({ team: one.team }));
  put('openai-beta', one.beta);
  put('x-tier', one.tier);
  put('cookie', one.cookie);
  put('x-tenant', one.tenant);
  put('x-service-forward-headers', one.tenant && 'x-tenant');
  const messages = [{ role: 'user', content: one.text }];
  return { headers, body: { stream: one.streams, user: `run ${run}`, messages } };
}

async function answered(url: string, one: Wish): Promise<{ readonly said: string; readonly status: string }> {
  const { status, text, headers } = await send(url, asking(askedFor(one)));
  const echo = /echo [0-9a-f]{64}/.exec(text)?.[0] ?? text;
  return { said: `${status} ${echo}`, status: String(headers['x-service-cache-status']) };
}

describe('a cached answer is the one that the provider would give to this very request', () => {
  for (const mode of ['exact', 'similar'] as const) {
    test(`${mode}, one after the other and at the same time`, async (t) => {
      const begun = await begin(t);
      const hits = new Set<string>();
      await fc.assert(
        fc.asyncProperty(begun.wishes, fc.boolean(), async (wishes, together) => {
          run++;
          const expected: string[] = [];
          for (const one of wishes) expected.push((await answered(begun.without, one)).said);
          const found: { readonly said: string; readonly status: string }[] = [];
          if (together) found.push(...(await Promise.all(wishes.map((one) => answered(begun[mode], one)))));
          else for (const one of wishes) found.push(await answered(begun[mode], one));
          for (const { status } of found) hits.add(status);
          assert.deepEqual(
            found.map(({ said }) => said),
            expected,
          );
        }),
        { numRuns: 40, examples: [[[plain, { ...plain, text: 'Good day' }, plain], false]] },
      );
      assert.ok(hits.has('HIT'), [...hits].join(', '));
      if (mode === 'similar') assert.ok(hits.has('SEMANTIC HIT'), [...hits].join(', '));
    });
  }
});
