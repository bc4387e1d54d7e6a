// Gateways that share a Redis server: one limit for all of them, and answers in time whatever happens to the server.
import assert from 'node:assert/strict';
import { copyFile, mkdir } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { send, type Received } from '../kit/http-kit.ts';
import {
  eventually,
  ownerKey,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';
import { redisMissing, type RedisServer, startRedis } from '../kit/redis-server.ts';

let server: RedisServer;
let first: WeirProcess;
let second: WeirProcess;

const policies = ['open', 'closed', 'local'] as const;
const password = 's3cret-of-redis';

function configuration() {
  const limited = (name: string, more: object = {}) => ({
    name,
    match: { path: `/${name}/**` },
    plugins: [
      'auth',
      { 'rate-limit': { requests_per_minute: 3, name, ...more } },
      { provider: { default: 'mock' } },
    ],
  });
  return {
    version: 1,
    storage: {
      analytics: { url: 'none:' },
      counters: { url: `redis://:${password}@127.0.0.1:${server.port}` },
    },
    pipelines: [
      ...['shared', 'hung', 'restarted'].map((name) => limited(name, { on_store_failure: 'closed' })),
      ...policies.map((policy) => limited(policy, { on_store_failure: policy })),
    ],
  };
}

function ask(weir: WeirProcess, name: string): Promise<Received> {
  return send(`${weir.url}/v1/${name}/x`, { headers: { 'x-service-api-key': ownerKey } });
}

/** The same until the shared counters have decided: on a busy machine an answer may come too late for 50 ms. */
function decided(weir: WeirProcess, name: string): Promise<Received> {
  return eventually(async () => {
    const answer = await ask(weir, name);
    return answer.status === 503 ? undefined : answer;
  });
}

async function statuses(weir: WeirProcess, name: string, count: number): Promise<number[]> {
  const found: number[] = [];
  for (let i = 0; i < count; i += 1) found.push((await ask(weir, name)).status);
  return found;
}

/** What /readyz says of the server. */
async function readiness(weir: WeirProcess): Promise<{ status: number; redis: string }> {
  const answer = await send(`${weir.url}/readyz`);
  return { status: answer.status, redis: answer.json().dependencies['redis (counters and cache)'] };
}

const connected = (weir: WeirProcess) =>
  eventually(async () => ((await readiness(weir)).redis === 'ok' ? true : undefined));

describe('a Redis server between gateways', { skip: redisMissing, timeout: 90_000 }, () => {
  before(async () => {
    server = await startRedis(['--requirepass', password]);
    const folders = [await temporaryFolder(), await temporaryFolder()];
    first = await startWeir({ yaml: configuration(), data: folders[0]! });
    // The same organisation and keys on both, as on two machines behind one address.
    await mkdir(folders[1]!, { recursive: true });
    await copyFile(path.join(folders[0]!, 'identity.json'), path.join(folders[1]!, 'identity.json'));
    second = await startWeir({ yaml: configuration(), data: folders[1]! });
  });
  after(async () => {
    await stopEverything();
    await server.stop();
  });

  test('they share one limit exactly', async () => {
    await Promise.all([connected(first), connected(second)]);
    const both = await Promise.all(
      Array.from({ length: 12 }, (_, i) => decided(i % 2 ? first : second, 'shared')),
    );
    assert.deepEqual(both.map(({ status }) => status).sort(), [200, 200, 200, ...Array(9).fill(429)]);
    const refused = await decided(first, 'shared');
    assert.equal(refused.headers['x-service-ratelimit-remaining'], '0');
    assert.ok(Number(refused.headers['retry-after']) >= 1);
  });

  test('when it hangs, every request is answered by its policy', async () => {
    server.pause();
    assert.deepEqual(await statuses(first, 'open', 20), Array(20).fill(200));
    assert.deepEqual(await statuses(first, 'closed', 20), Array(20).fill(503));
    assert.deepEqual(await statuses(first, 'local', 20), [200, 200, 200, ...Array(17).fill(429)]);
    const refused = await ask(first, 'closed');
    assert.equal(refused.json().error.code, 'limits_unavailable');
    assert.equal(refused.headers['retry-after'], '2');
    assert.equal((await ask(first, 'open')).headers['x-service-ratelimit-limit'], undefined);
    const { status, redis } = await readiness(first);
    assert.equal(status, 200, 'a balancer that took it out would take out all of them');
    assert.match(redis, /no answer within 50 ms/);
    const metrics = (await send(`${first.url}/metrics`)).text;
    assert.match(metrics, /weir_redis_up\{stores="counters and cache"\} 0/);
    assert.match(metrics, /weir_dependency_up\{dependency="redis \(counters and cache\)"\} 0/);
    assert.match(metrics, /weir_limits_without_store_total\{policy="open"\} 21/);
    server.resume();
    await connected(first);
    await connected(second);
    const found: number[] = [];
    for (const weir of [first, second, second, first]) found.push((await decided(weir, 'hung')).status);
    assert.deepEqual(found, [200, 200, 200, 429]);
  });

  test('when it is killed, too; and a new one is used as soon as it is there', async () => {
    await server.kill();
    assert.deepEqual(await statuses(second, 'open', 20), Array(20).fill(200));
    assert.deepEqual(await statuses(second, 'closed', 20), Array(20).fill(503));
    assert.deepEqual(await statuses(second, 'local', 20), [200, 200, 200, ...Array(17).fill(429)]);
    await server.start();
    await Promise.all([connected(first), connected(second)]);
    // The new server knows no script yet.
    const found: number[] = [];
    for (const weir of [first, second, second, first]) found.push((await decided(weir, 'restarted')).status);
    assert.deepEqual(found, [200, 200, 200, 429]);
    assert.match((await send(`${first.url}/metrics`)).text, /weir_redis_up\{stores="counters and cache"\} 1/);
  });

  test('the log tells of each outage and its end, and never of the password', () => {
    for (const { stderr } of [first, second]) {
      assert.match(stderr(), /Redis at redis:\/\/127\.0\.0\.1:\d+\/0 \(counters and cache\) cannot be used/);
      assert.match(stderr(), /is back/);
      assert.ok(!stderr().includes(password));
    }
  });

  test('a gateway starts without it', async () => {
    await server.kill();
    const third = await startWeir({ yaml: configuration() });
    assert.deepEqual(await statuses(third, 'local', 4), [200, 200, 200, 429]);
    assert.match((await readiness(third)).redis, /ECONNREFUSED/);
    const ended = await third.stop();
    assert.equal(ended.code, 0);
  });
});
