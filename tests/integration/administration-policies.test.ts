// Rate-limit policies made through the API, as two gateways on one PostgreSQL and one Redis enforce them.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startFleet } from '../kit/gateway-fleet.ts';
import type { Received } from '../kit/http-kit.ts';
import { call, chat, makePremises, operate, refusalOf, type Premises } from '../kit/operator.ts';
import { postgresMissing, type PostgresServer } from '../kit/postgres-server.ts';
import { eventually, stopEverything, type WeirProcess } from '../kit/process-kit.ts';
import { redisMissing, startRedis, type RedisServer } from '../kit/redis-server.ts';

let redis: RedisServer;
let server: PostgresServer;
let here: WeirProcess;
let there: WeirProcess;
let premises: Premises;
let config: string;
let prompt: string;

const configuration = (counters: string) => ({
  storage: { analytics: { url: 'none:' }, counters: { url: counters } },
  providers: { filed: { base_url: 'mock:', credentials: 'none' } },
  pipelines: [
    { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
    {
      name: 'gateway',
      match: { path: '/**' },
      plugins: ['auth', 'prompts', { policies: { on_store_failure: 'closed' } }, 'provider'],
    },
  ],
});

/** What a request says of itself. */
interface Request {
  readonly key?: string;
  readonly model?: string;
  readonly provider?: string;
  readonly virtualKey?: string;
  readonly config?: string;
  readonly prompt?: string;
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Sends it; again when the shared counters did not answer in time, which a busy machine can make happen. */
function ask(gateway: WeirProcess, request: Request): Promise<Received> {
  const { key = premises.key, model = 'mock-gpt', provider, virtualKey, metadata } = request;
  const isBare = virtualKey === undefined && request.config === undefined && request.prompt === undefined;
  const named = provider ?? (isBare && !model.startsWith('@') ? '@filed' : undefined);
  const headers = {
    ...(named !== undefined && { 'x-service-provider': named }),
    ...(virtualKey !== undefined && { 'x-service-virtual-key': virtualKey }),
    ...(request.config !== undefined && { 'x-service-config': request.config }),
    ...(metadata !== undefined && { 'x-service-metadata': JSON.stringify(metadata) }),
  };
  const path = `/prompts/${request.prompt}/completions`;
  return eventually(async () => {
    const answer =
      request.prompt === undefined
        ? await chat(gateway.url, { key, model, headers })
        : await call(gateway.url, { path, key, headers, body: { variables: {} } });
    return answer.status === 503 ? undefined : answer;
  });
}

async function statuses(gateway: WeirProcess, requests: readonly Request[]): Promise<number[]> {
  const found: number[] = [];
  for (const request of requests) found.push((await ask(gateway, request)).status);
  return found;
}

interface Policy {
  readonly type: 'requests' | 'tokens';
  readonly value: number;
  readonly conditions: readonly { readonly key: string; readonly value: string }[];
  readonly group_by?: readonly { readonly key: string }[];
}

/** Makes one for each minute; resolves to its path. */
async function makePolicy({ group_by = [{ key: 'api_key' }], ...policy }: Policy): Promise<string> {
  const body = { name: 'Test', unit: 'rpm', group_by, workspace_id: premises.workspace, ...policy };
  const { id } = await operate(here.url, { path: '/policies/rate-limits', body });
  return `/policies/rate-limits/${id}`;
}

/** The other gateway knows what this one knows when it knows a key that was made after it. */
async function untilKnownThere(): Promise<void> {
  const body = { name: `Later ${Date.now()}`, workspace_id: premises.workspace, scopes: ['models.list'] };
  const { key, id } = await operate(here.url, { path: '/api-keys/workspace/service', body });
  await eventually(
    async () => (await call(there.url, { path: '/models', key })).status !== 401 || undefined,
    () => 'a key of the first gateway at the second',
  );
  await operate(here.url, { method: 'DELETE', path: `/api-keys/${id}` });
}

describe('rate-limit policies', { skip: postgresMissing || redisMissing, timeout: 120_000 }, () => {
  before(async () => {
    redis = await startRedis();
    const fleet = await startFleet({ size: 2, configuration: configuration(redis.url) });
    server = fleet.server;
    [here, there] = fleet.gateways as [WeirProcess, WeirProcess];
    premises = await makePremises(here.url, 'Laboratory');
    const { workspace } = premises;
    for (const [slug, model] of [
      ['stored', 'mock-1'],
      ['other', 'mock-2'],
    ]) {
      const integration = { name: slug, slug, ai_provider_id: 'mock', workspace_id: workspace };
      await operate(here.url, { path: '/integrations', body: integration });
      const body = { name: slug, workspace_id: workspace, config: { provider: `@${slug}` } };
      const made = await operate(here.url, { path: '/configs', body });
      if (slug === 'stored') config = made.data.slug;
      const template = { string: 'Hello', parameters: {}, virtual_key: slug, model, workspace_id: workspace };
      const { slug: prompted } = await operate(here.url, {
        path: '/prompts',
        body: { name: slug, ...template },
      });
      if (slug === 'stored') prompt = prompted;
    }
  });
  after(async () => {
    await stopEverything();
    await server?.stop();
    await redis?.stop();
  });

  test('one holds from the next request on, is changed and taken away', async () => {
    const conditions = [{ key: 'metadata.team', value: 'red' }];
    const red = { metadata: { team: 'red' } };
    assert.deepEqual(await statuses(here, [red, red, red]), [200, 200, 200]);
    const path = await makePolicy({ type: 'requests', value: 2, conditions });
    assert.deepEqual(await statuses(here, [red, red]), [200, 200]);
    const refused = await ask(here, red);
    assert.deepEqual(refusalOf(refused).slice(0, 2), [429, 'rate_limited']);
    assert.match(refusalOf(refused)[2] ?? '', /policy "Test" \(2 requests per minute\)/);
    const seconds = Number(refused.headers['retry-after']);
    assert.ok(seconds >= 1 && seconds <= 60, String(refused.headers['retry-after']));
    assert.deepEqual(await statuses(here, [{ metadata: { team: 'blue' } }, {}]), [200, 200]);

    await operate(here.url, { method: 'PUT', path, body: { value: 3 } });
    assert.deepEqual(await statuses(here, [red, red]), [200, 429]);
    await operate(here.url, { method: 'DELETE', path });
    assert.deepEqual(await statuses(here, [red, red]), [200, 200]);
  });

  test('both gateways count together, in groups of what requests say', async () => {
    const path = await makePolicy({
      type: 'requests',
      value: 3,
      conditions: [{ key: 'model', value: 'counted-*' }],
      group_by: [{ key: 'metadata.user' }, { key: 'model' }],
    });
    await untilKnownThere();
    const ann = { model: 'counted-1', metadata: { user: 'ann' } };
    assert.deepEqual(await statuses(here, [ann, ann]), [200, 200]);
    assert.deepEqual(await statuses(there, [ann, ann]), [200, 429]);
    assert.deepEqual(await statuses(here, [ann]), [429]);
    const others = [{ ...ann, metadata: { user: 'bob' } }, { ...ann, model: 'counted-2' }, { model: 'free' }];
    assert.deepEqual(await statuses(there, others), [200, 200, 200]);
    await operate(there.url, { method: 'DELETE', path });
    assert.deepEqual(await statuses(there, [ann]), [200]);
    await eventually(async () => (await ask(here, ann)).status === 200 || undefined);
  });

  test('tokens are counted as they were used', async () => {
    const tokens = { model: 'tokens-1' };
    const { usage } = (await ask(here, tokens)).json();
    assert.ok(usage.total_tokens > 0 && usage.total_tokens < 200);
    const conditions = [{ key: 'model', value: 'tokens-1' }];
    // Two would not fit if they counted as what is reserved for their answers, 512 tokens each.
    const path = await makePolicy({ type: 'tokens', value: 1_000, conditions });
    // The use is counted once the answer is gone, which its reader does not see.
    const served = async () => (await ask(here, tokens)).status === 200 || undefined;
    for (let request = 0; request < 3; request += 1) await eventually(served);
    await operate(here.url, { method: 'PUT', path, body: { value: usage.total_tokens * 3 } });
    const refused = await ask(here, tokens);
    assert.equal(refused.status, 429);
    assert.match(refusalOf(refused)[2] ?? '', /tokens per minute/);
    assert.ok(Number(refused.headers['retry-after']) >= 1);
    await operate(here.url, { method: 'DELETE', path });
    assert.deepEqual(await statuses(here, [tokens]), [200]);
  });

  /** A condition, a request for which it holds and one for which it does not; what is stored has its slug later. */
  type Case = readonly [condition: string, value: () => string, about: () => Request, beside: () => Request];
  const cases: readonly Case[] = [
    [
      'model that ends in *',
      () => 'mock-g*',
      () => ({ model: 'mock-gamma' }),
      () => ({ model: 'mock-delta' }),
    ],
    [
      'model behind its provider',
      () => 'mock-1',
      () => ({ model: '@stored/mock-1' }),
      () => ({ model: '@stored/x' }),
    ],
    ['config', () => config, () => ({ config }), () => ({ virtualKey: 'stored' })],
    ['prompt', () => prompt, () => ({ prompt }), () => ({})],
    ['virtual_key', () => 'stored', () => ({ virtualKey: 'stored' }), () => ({ virtualKey: 'other' })],
    [
      'virtual_key before the model',
      () => 'stored',
      () => ({ model: '@stored/x' }),
      () => ({ provider: '@filed' }),
    ],
    ['provider', () => 'filed', () => ({ provider: '@filed' }), () => ({ provider: '@stored' })],
    ['metadata.plan of any value', () => '*', () => ({ metadata: { plan: 'any' } }), () => ({})],
  ];
  for (const [condition, value, about, beside] of cases) {
    test(`a condition on a ${condition}`, async () => {
      const [key = ''] = condition.split(' ');
      const path = await makePolicy({ type: 'requests', value: 1, conditions: [{ key, value: value() }] });
      assert.deepEqual(await statuses(here, [about(), about(), beside(), beside()]), [200, 429, 200, 200]);
      await operate(here.url, { method: 'DELETE', path });
    });
  }

  test('conditions on the key and its workspace', async () => {
    const other = await makePremises(here.url, 'Kitchen');
    for (const [key, value] of [
      ['api_key', premises.keyId],
      ['workspace_id', premises.workspace],
    ] as const) {
      const body = {
        name: key,
        type: 'requests',
        unit: 'rpd',
        value: 1,
        conditions: [{ key, value }],
        group_by: [{ key: 'organisation_id' }],
      };
      const { id } = await operate(here.url, { path: '/policies/rate-limits', body });
      const requests = [{}, {}, { key: other.key }, { key: other.key }];
      assert.deepEqual(await statuses(here, requests), [200, 429, 200, 200], key);
      await operate(here.url, { method: 'DELETE', path: `/policies/rate-limits/${id}` });
    }
  });
});
