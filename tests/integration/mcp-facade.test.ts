import assert from 'node:assert/strict';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import { realClock, recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import { startFacade, waiting } from '../../plugins/mcp/facade/facade.test-support.ts';
import { MemoryProvider, signIn, toolsAt } from '../../plugins/mcp/resource/oauth-client.test-support.ts';
import { createMemoryCounters } from '../../storage/memory/counters.ts';
import { openRedis } from '../../storage/redis/open-redis.ts';
import { createRedisCounters } from '../../storage/redis/open-shared-stores.ts';
import { patientClock, redisMissing, startRedis } from '../kit/redis-server.ts';

describe(
  'two gateways behind one address, in front of a provider that registers no clients',
  {
    skip: redisMissing,
  },
  () => {
    test("take turns in the sign-in of the SDK's client, and a code is good once for both", async (t) => {
      const ports: number[] = [];
      const turns: number[] = [];
      // Every request goes to the gateway that had none of the one before.
      const balancer = http.createServer((request, response) => {
        const port = ports[turns.length % ports.length];
        turns.push(port ?? 0);
        const { method, url, headers } = request;
        const passed = http.request({ host: '127.0.0.1', port, method, path: url, headers }, (answer) => {
          response.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(response);
        });
        passed.on('error', () => response.destroy());
        request.pipe(passed);
      });
      await new Promise<void>((resolve) => balancer.listen(0, '127.0.0.1', resolve));
      const redisServer = await startRedis();
      t.after(async () => {
        balancer.closeAllConnections();
        balancer.close();
        await redisServer.stop();
      });
      const address = `http://127.0.0.1:${(balancer.address() as AddressInfo).port}`;
      const counters = async () => {
        const log = recordingLog([]);
        const redis = await openRedis({ url: redisServer.url, clock: patientClock(), log });
        t.after(() => redis.close());
        const local = createMemoryCounters({ clock: realClock, log });
        t.after(() => local.close());
        return createRedisCounters({ redis, local });
      };
      const server = { public_url: address };
      const one = await startFacade(t, { server, gateway: { counters: await counters() } });
      const two = await startFacade(t, {
        server,
        knownProvider: one.provider,
        gateway: { counters: await counters() },
      });
      ports.push(one.gateway.port, two.gateway.port);

      const client = new MemoryProvider();
      await signIn(`${address}/tickets/mcp`, client);
      assert.deepEqual(await toolsAt(`${address}/tickets/mcp`, client), ['echo']);
      assert.ok(turns.filter((port) => port === one.gateway.port).length > 4);
      assert.ok(turns.filter((port) => port === two.gateway.port).length > 4);

      const tokenRequests = () => one.provider.requests.filter((asked) => asked === 'POST /token').length;
      const before = tokenRequests();
      const signedIn = await one.signIn({ resource: `${address}/tickets/mcp` });
      const answers = await Promise.all([one, two, one, two].map((by) => by.exchange(signedIn)));
      assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 400, 400, 400]);
      assert.equal(tokenRequests(), before + 1);
      assert.equal(signedIn.told.href.startsWith(waiting), true);
    });
  },
);
