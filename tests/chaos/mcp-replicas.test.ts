// Two gateways behind a balancer, and an MCP client in the middle of its session: one is killed, and the session goes on.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startStandIn } from '../kit/balancer.ts';
import { startFleet, type FleetOptions } from '../kit/gateway-fleet.ts';
import { call, makePremises } from '../kit/operator.ts';
import { postgresMissing } from '../kit/postgres-server.ts';
import { eventually, stopEverything } from '../kit/process-kit.ts';
import { redisMissing, startRedis } from '../kit/redis-server.ts';
import { startConformanceServer, type ConformanceServer } from '../mcp/conformance-server.ts';

const size = 2;
/** Of calls at the same time: the balancer gives each gateway its share. */
const calls = 2 * size;

const configurationOf = (server: ConformanceServer, storage: object): FleetOptions['configuration'] => ({
  storage: { analytics: { url: 'none:' }, ...storage },
  pipelines: [
    { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
    {
      name: 'gateway',
      match: { path: '/**' },
      plugins: [
        'auth',
        { mcp: { servers: { reference: { url: server.url } } } },
        { provider: { default: 'mock' } },
      ],
    },
  ],
});

for (const kind of ['with Redis', 'without Redis'] as const) {
  const skip = postgresMissing || (kind === 'with Redis' && redisMissing);
  describe(`two gateways ${kind}`, { skip, timeout: 300_000 }, () => {
    test('one is killed: the session goes on under its id, and calls under way are answered', async (t) => {
      const reference = await startConformanceServer();
      t.after(() => reference.close());
      const redis = kind === 'with Redis' ? await startRedis() : undefined;
      t.after(() => redis?.stop());
      const fleet = await startFleet({
        size,
        configuration: configurationOf(reference, redis ? { counters: { url: redis.url } } : {}),
      });
      t.after(async () => {
        await stopEverything();
        await fleet.server.stop();
      });
      const [first, second] = fleet.gateways;
      assert.ok(first && second);
      const { key } = await makePremises(first.url, 'Agents', ['mcp.invoke']);
      await eventually(async () =>
        (await call(second.url, { path: '/models', key })).status === 401 ? undefined : true,
      );
      const balancer = await startStandIn([first.port, second.port]);
      t.after(() => balancer.stop());

      const client = new Client({ name: 'test', version: '1.0.0' });
      // The handshake is with the gateway that is killed later on.
      let isGreeting = true;
      const greetFirst = (url: string | URL, init?: RequestInit): Promise<Response> => {
        const there = isGreeting ? `${first.url}/reference/mcp` : url;
        isGreeting = false;
        return fetch(there, init);
      };
      const transport = new StreamableHTTPClientTransport(new URL(`${balancer.url}/reference/mcp`), {
        fetch: greetFirst,
        requestInit: { headers: { 'x-service-api-key': key } },
        reconnectionOptions: {
          initialReconnectionDelay: 200,
          maxReconnectionDelay: 1000,
          reconnectionDelayGrowFactor: 1.5,
          maxRetries: 20,
        },
      });
      await client.connect(transport);
      t.after(() => client.close());
      const session = transport.sessionId;
      assert.ok(session);
      const say = () => client.callTool({ name: 'test_simple_text' });
      const said = await say();

      // With the id of an event the client takes up the answer at the other gateway; without one it would have to ask anew.
      const known = new Set<number>();
      const underWay = Array.from({ length: calls }, (_, index) =>
        client.callTool({ name: 'test_held' }, undefined, {
          onresumptiontoken: () => void known.add(index),
        }),
      );
      await eventually(() => (reference.held === calls && known.size === calls) || undefined);
      await first.stop('SIGKILL');
      await eventually(async () => (await balancer.up()) === 1 || undefined);
      assert.deepEqual(await say(), said, 'a call after the kill');
      reference.release();
      for (const { content } of await Promise.all(underWay))
        assert.deepEqual(content, [{ type: 'text', text: 'It went on.' }]);
      assert.equal(transport.sessionId, session);
      assert.equal(reference.opened, 1, 'the server sees one session');
      await transport.terminateSession();
    });
  });
}
