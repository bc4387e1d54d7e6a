import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventOf } from '../../tests/kit/mcp-server.ts';
import { names, startCanary, type Canary } from '../guarded-fetch/guarded-fetch.test-support.ts';
import { TrustedHosts } from '../../core/base/host-rules.ts';
import { createAddressGuard } from '../addresses/address-guard.ts';
import { TlsSessions } from '../transport/connection.ts';
import { ConversationFetch, mcpLimits } from './conversation-fetch.ts';
import { failure, scripted, testClients, untilClosed } from './mcp.test-support.ts';
import { protocolLibrary } from './conversation.ts';

const transports = ['http', 'sse'] as const;

describe('addresses of MCP servers', () => {
  let canary: Canary;
  before(async () => {
    canary = await startCanary();
    await protocolLibrary();
  });
  after(() => canary.close());

  /** `$` stands for the port of the canary. */
  const refused = [
    ...['http://127.0.0.1:$/mcp', 'https://127.0.0.1:$/mcp', 'http://localhost:$/mcp', 'http://127.1:$/'],
    ...['http://2130706433:$/', 'http://0x7f.1:$/', 'http://[::1]:$/mcp', 'http://[::ffff:127.0.0.1]:$/'],
    ...['http://①②⑦.⓪.⓪.①:$/', 'http://%6cocalhost:$/', 'http://10.1.2.3/', 'http://169.254.169.254/'],
    ...['http://metadata.google.internal/', 'http://inside.example.com:$/mcp', 'http://half.example.com:$/'],
    ...['ftp://example.com/', 'file:///etc/passwd', 'http://user:pass@example.com/', 'nonsense', ''],
  ];
  for (const transport of transports) {
    for (const spelled of refused) {
      test(`${transport}: "${spelled}" is refused`, async () => {
        const resolve = names({
          'inside.example.com': ['127.0.0.1'],
          'half.example.com': ['127.0.0.1', '203.0.114.1'],
        });
        const clients = testClients('127.0.0.9', { resolve });
        const url = spelled.replace('$', String(canary.port));
        const error = await failure(clients.greet({ url, transport, headers: [] }));
        assert.equal(error.code, 'address_refused');
        assert.equal(canary.connections, 0);
      });
    }

    test(`${transport}: a name that leads inside when it is asked again is not asked again`, async () => {
      let asked = 0;
      const resolve = () => {
        asked += 1;
        // Public by the rules, and handed out to nobody.
        const address = asked === 1 ? '2d00::1' : '127.0.0.1';
        return Promise.resolve([{ address, family: asked === 1 ? 6 : 4 }]);
      };
      const clients = testClients('127.0.0.9', { resolve, limits: { timeoutMs: 300 } });
      const address = { url: `http://rebind.example.com:${canary.port}/`, transport, headers: [] };
      assert.equal((await failure(clients.greet(address))).code, 'mcp_failed');
      assert.equal(asked, 1);
      assert.equal((await failure(clients.greet(address))).code, 'address_refused');
      assert.equal(canary.connections, 0);
    });

    test(`${transport}: a redirect inside is not followed, nor one to another port`, async (t) => {
      const inside = [
        `http://127.0.0.1:${canary.port}/mcp`,
        `//localhost:${canary.port}/`,
        'http://169.254.169.254/latest/',
        'file:///etc/passwd',
      ];
      for (const location of inside) {
        const { server, clients, at } = await scripted(t, {
          intercept: (_arrived, response) => Boolean(response.writeHead(307, { location }).end()),
        });
        const error = await failure(clients.greet({ ...at(transport), headers: ['x-secret', 'planted'] }));
        assert.deepEqual([error.code, error.extra], ['mcp_failed', { status: 307 }]);
        await untilClosed(server);
      }
      assert.equal(canary.connections, 0);
    });
  }

  test('a redirect within the origin that ends elsewhere', async (t) => {
    const { clients, at } = await scripted(t, {
      intercept({ url }, response) {
        const location = url === '/mcp' ? '/next' : `http://127.0.0.1:${canary.port}/`;
        return Boolean(response.writeHead(308, { location }).end());
      },
    });
    assert.equal((await failure(clients.greet(at()))).code, 'mcp_failed');
    assert.equal(canary.connections, 0);
  });

  test('sse: an `endpoint` event that names another origin gets no message', async (t) => {
    const elsewhere = [
      `http://127.0.0.1:${canary.port}/message`,
      `//localhost:${canary.port}/message`,
      `http://user:pass@127.0.0.1:${canary.port}/message`,
    ];
    for (const endpoint of elsewhere) {
      const { server, clients, at } = await scripted(t, {
        intercept({ method }, response) {
          if (method !== 'GET') return false;
          response
            .writeHead(200, { 'content-type': 'text/event-stream' })
            .write(eventOf('endpoint', endpoint));
          return true;
        },
      });
      const error = await failure(clients.greet({ ...at('sse'), headers: ['x-secret', 'planted'] }));
      assert.match(`${error.code} ${error.message}`, /mcp_failed.*names another host/);
      await untilClosed(server);
    }
    assert.equal(canary.connections, 0);
  });

  test('sse: an `endpoint` event that comes later and names another origin gets none either', async (t) => {
    const { server, clients, at } = await scripted(
      t,
      {
        intercept({ message }, response) {
          if (message?.method !== 'tools/list') return false;
          server.push('endpoint', `http://127.0.0.1:${canary.port}/message`);
          response.writeHead(202).end();
          return true;
        },
      },
      { limits: { timeoutMs: 300 } },
    );
    assert.equal((await failure(clients.describe(at('sse')))).code, 'mcp_failed');
    assert.equal(canary.connections, 0);
  });

  test('what the library is given to ask with keeps to its origin, and opens one stream', async (t) => {
    const { server, at } = await scripted(t);
    const around = {
      trusted: new TrustedHosts(['127.0.0.1']),
      guard: createAddressGuard(),
      observer: { sessions: new TlsSessions(), opened: () => 0, connected: () => 0, closed: () => 0 },
      limits: mcpLimits,
    };
    const listener = { streamEnded: () => undefined, exceeded: () => undefined };
    const conversation = new ConversationFetch(at('sse'), around, listener);
    for (const elsewhere of [`http://127.0.0.1:${canary.port}/sse`, `https://${server.host}/sse`]) {
      const error = await failure(conversation.fetch(elsewhere, { method: 'POST', body: '{}' }));
      assert.match(`${error.code} ${error.message}`, /mcp_failed.*leads to another origin/);
    }
    const statuses = [];
    for (let i = 0; i < 2; i++) statuses.push((await conversation.fetch(server.sseUrl)).status);
    assert.deepEqual(statuses, [200, 204]);
    conversation.close();
    assert.match((await failure(conversation.fetch(server.url, { method: 'POST' }))).message, /it is over/);
    await untilClosed(server);
    assert.deepEqual([server.requests.length, canary.connections], [1, 0]);
  });
});
