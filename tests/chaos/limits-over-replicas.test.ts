// Four gateways on one PostgreSQL and one Redis server: what they admit together, also while Redis hangs.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { startFleet, type Fleet } from '../kit/gateway-fleet.ts';
import { call, chat, operate } from '../kit/operator.ts';
import { postgresMissing } from '../kit/postgres-server.ts';
import { eventually, stopEverything } from '../kit/process-kit.ts';
import { redisMissing, startRedis, type RedisServer } from '../kit/redis-server.ts';

const size = 4;
/** Eight times the usual: four gateways and their callers share this machine. */
const budgetMs = 400;
let redis: RedisServer;
let fleet: Fleet;

const urls = (): readonly string[] => fleet.gateways.map(({ url }) => url);
const first = (): string => urls()[0] ?? '';
const requests = (credit_limit: number) => ({ usage_limits: { type: 'requests', credit_limit } });

/** A service key with these limits that every gateway knows. */
async function makeKey(name: string, limits: object) {
  const { id: workspace_id } = await operate(first(), { path: '/admin/workspaces', body: { name } });
  const body = { name, workspace_id, scopes: ['completions.write'], ...limits };
  const { id, key } = await operate(first(), { path: '/api-keys/workspace/service', body });
  for (const url of urls())
    await eventually(async () =>
      (await call(url, { path: '/api-keys', key })).status === 401 ? undefined : true,
    );
  return { key, at: `/api-keys/${id}` };
}

/** One request; resolves with `served`, or the code of the refusal. */
async function ask(url: string, key: string): Promise<string> {
  const answer = await chat(url, { key, model: 'mock-gpt', headers: { 'x-service-provider': 'mock' } });
  return answer.status === 200 ? 'served' : `${answer.status} ${String(answer.json().error?.code)}`;
}

/** Callers on every gateway until each of them is told that the budget is exhausted; resolves with what was served. */
async function drain(key: string, onServed: (total: number) => void = () => undefined) {
  const heldMs: number[] = [];
  let served = 0;
  const caller = async (url: string): Promise<void> => {
    for (;;) {
      const since = performance.now();
      const came = await ask(url, key);
      heldMs.push(performance.now() - since);
      if (came === '412 budget_exhausted') return;
      if (came === 'served') onServed((served += 1));
      // What requests under way, or other gateways, have reserved may come back.
      else if (came === '429 rate_limited') await pause(20);
      else assert.fail(came);
    }
  };
  await Promise.all(urls().flatMap((url) => Array.from({ length: 4 }, () => caller(url))));
  return { served, longestMs: Math.max(...heldMs) };
}

describe('four gateways', { skip: redisMissing || postgresMissing, timeout: 120_000 }, () => {
  before(async () => {
    redis = await startRedis();
    fleet = await startFleet({
      size,
      configuration: {
        storage: { analytics: { url: 'none:' }, counters: { url: redis.url }, redis_budget_ms: budgetMs },
        pipelines: [
          { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
          { name: 'gateway', match: { path: '/**' }, plugins: ['auth', 'policies', 'provider'] },
        ],
      },
    });
  });
  after(async () => {
    await stopEverything();
    await fleet.server.stop();
    await redis.stop();
  });

  test('admit exactly the requests of a budget, and more on each of them when it is raised', async () => {
    const { key, at } = await makeKey('Budget', requests(60));
    assert.equal((await drain(key)).served, 60);
    await operate(first(), { method: 'PUT', path: at, body: requests(90) });
    const since = performance.now();
    for (const url of urls())
      await eventually(async () => ((await ask(url, key)) === 'served' ? true : undefined));
    assert.ok(performance.now() - since < 3000, 'within about a second on every gateway');
    assert.equal((await drain(key)).served, 30 - size);
  });

  test('admit exactly the requests of a rate limit', async () => {
    const { key } = await makeKey('Rate', { rate_limits: [{ type: 'requests', unit: 'rph', value: 50 }] });
    const all = await Promise.all(urls().flatMap((url) => Array.from({ length: 25 }, () => ask(url, key))));
    assert.equal(all.filter((one) => one === 'served').length, 50);
    assert.deepEqual([...new Set(all)].sort(), ['429 rate_limited', 'served']);
  });

  test('stay in their bound while Redis hangs in the middle, and hold nobody', async () => {
    const { key } = await makeKey('Hung', requests(200));
    // Each gateway hears every two seconds how many there are.
    await pause(2500);
    let resumed: Promise<void> | undefined;
    const { served, longestMs } = await drain(key, (total) => {
      if (total !== 60) return;
      redis.pause();
      resumed = pause(2500).then(() => redis.resume());
    });
    await resumed;
    assert.ok(served >= 200 && served <= 200 + 200 / size, `${served} of 200`);
    assert.ok(longestMs < 5 * budgetMs, `${longestMs} ms`);
  });
});
