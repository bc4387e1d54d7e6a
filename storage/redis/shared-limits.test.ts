// Rate limits of keys and providers, as gateways on one Redis server count them.
import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import { realClock, recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { RateLimit } from '../../core/ports/budgets.ts';
import { integration, provider, recordsDirectory } from '../../core/routing/stored-records.test-support.ts';
import auth from '../../plugins/auth/index.ts';
import policies from '../../plugins/policies/index.ts';
import { providerPlugin, startTestGateway, type TestGateway } from '../../tests/kit/gateway-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import { patientClock, redisMissing, type RedisServer, startRedis } from '../../tests/kit/redis-server.ts';
import { openRedis } from './open-redis.ts';
import { createBudgets } from '../memory/budgets.ts';
import { createRedisLimiter } from './redis-limiter.ts';

const secret = 'wk_0123456789abcdef';
const requests = (value: number) => ({ type: 'requests', unit: 'rph', value }) as const satisfies RateLimit;
const alone = { admitShare: () => assert.fail('a gateway decided alone') };
let server: RedisServer;

/** A gateway with a connection of its own, on which `@one` is a provider of the store. */
async function start(t: TestContext, key: KeyRecord, ofProvider: readonly RateLimit[] = []) {
  const redis = await openRedis({ url: server.url, clock: patientClock(), log: recordingLog([]) });
  t.after(() => redis.close());
  const budgets = createBudgets({ clock: realClock, log: recordingLog([]) });
  const limiter = createRedisLimiter({ redis, local: alone, budgets, clock: realClock, keepMs: 60_000 });
  t.after(() => limiter.close());
  return startTestGateway(t, {
    limiter,
    directory: recordsDirectory([
      integration({}, { aiProviderId: 'mock' }),
      provider({ rateLimits: ofProvider }, { slug: 'one' }),
    ]),
    keys: { [secret]: key },
    providers: {},
    plugins: [auth, policies, providerPlugin()],
  });
}

async function ask({ url }: TestGateway): Promise<string> {
  const answer = await send(url, {
    path: '/v1/chat/completions',
    headers: { 'x-service-api-key': secret, 'x-service-provider': '@one' },
    body: { model: 'mock', messages: [{ role: 'user', content: 'hi' }] },
  });
  return answer.status === 200 ? 'served' : String(answer.json().error.code);
}

describe('gateways with the same Redis server', { skip: redisMissing }, () => {
  before(async () => {
    server = await startRedis();
  });
  after(() => server.stop());

  test("count a key's requests together", async (t) => {
    const key = testKey({ id: 'shared', rateLimits: [requests(3)] });
    const [here, there] = [await start(t, key), await start(t, key)];
    const answers = [await ask(here), await ask(there), await ask(here), await ask(there), await ask(here)];
    assert.deepEqual(answers, ['served', 'served', 'served', 'rate_limited', 'rate_limited']);
  });

  test("count a provider's requests together", async (t) => {
    const key = testKey({ id: 'unlimited' });
    const [here, there] = [await start(t, key, [requests(2)]), await start(t, key, [requests(2)])];
    const answers = [await ask(here), await ask(there), await ask(here), await ask(there)];
    assert.deepEqual(answers, ['served', 'served', 'provider_rate_limited', 'provider_rate_limited']);
  });
});
