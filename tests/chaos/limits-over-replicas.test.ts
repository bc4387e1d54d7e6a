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
const callersOfEach = 4;
/** Forty times the usual: four gateways and their callers share a machine that may be busy, and Redis is slow then, too. */
const budgetMs = 2000;
/** A gateway asks a server that does not answer no more after so many waits in a row. */
const mostWaits = 3;
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

/**
 * Callers on every gateway until each of them is told that the budget is exhausted; resolves with how many were served.
 * `onAnswer` is told of each answer, and how many were served by then.
 */
async function drain(key: string, onAnswer: (url: string, served: number) => void = () => undefined) {
  let served = 0;
  const caller = async (url: string): Promise<void> => {
    for (;;) {
      const came = await ask(url, key);
      if (came === 'served') served += 1;
      onAnswer(url, served);
      if (came === '412 budget_exhausted') return;
      // What requests under way, or other gateways, have reserved may come back.
      if (came === '429 rate_limited') await pause(20);
      else if (came !== 'served') assert.fail(came);
    }
  };
  await Promise.all(urls().flatMap((url) => Array.from({ length: callersOfEach }, () => caller(url))));
  return served;
}

/** Calls of the gateway that Redis has not answered in time. */
async function slowCalls(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const found = /^weir_redis_failed_calls_total\{stores="counters and cache",reason="slow"\} (\d+)/m.exec(
    text,
  );
  return Number(found?.[1] ?? 0);
}

describe('four gateways', { skip: redisMissing || postgresMissing, timeout: 300_000 }, () => {
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
    assert.equal(await drain(key), 60);
    await operate(first(), { method: 'PUT', path: at, body: requests(90) });
    for (const url of urls())
      await eventually(async () => ((await ask(url, key)) === 'served' ? true : undefined));
    assert.equal(await drain(key), 30 - size);
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
    const slowBefore = await Promise.all(urls().map(slowCalls));
    // It hangs until each gateway has answered so many without it: held requests would never be so many.
    const left = new Map(urls().map((url) => [url, 100]));
    let servedBefore = 0;
    const served = await drain(key, (url, total) => {
      if (servedBefore === 0 && total >= 60) {
        servedBefore = total;
        redis.pause();
      } else if (servedBefore > 0) {
        left.set(url, (left.get(url) ?? 0) - 1);
        if ([...left.values()].every((count) => count <= 0)) redis.resume();
      }
    });
    // Without Redis each gateway has its part of what is left, and tells of it when Redis answers again (docs/limits.md).
    assert.ok(served >= 200 && served <= 200 + (200 - servedBefore), `${served} of 200`);
    // Each caller waits with a decision, and the settlement of the one before; the gateway with a sign of life.
    const most = mostWaits * (2 * callersOfEach + 2);
    for (const [index, url] of urls().entries()) {
      const slow = (await slowCalls(url)) - (slowBefore[index] ?? 0);
      assert.ok(slow > 0 && slow <= most, `${slow} calls were waited for`);
    }
  });
});
