import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { toolDigest } from '../../core/organisation/tool-digest.ts';
import { initializeResult, type McpScript } from '../../tests/kit/mcp-server.ts';
import { countingClock, keepingLog, scripted, untilClosed } from './mcp.test-support.ts';

const offered = (name: string, described: object) => ({
  type: 'tool',
  name,
  described,
  digest: toolDigest({ ...described }),
});

const transports = ['http', 'sse'] as const;
const tool = (name: string, more: object = {}) => ({ name, inputSchema: { type: 'object' }, ...more });

describe('a handshake with an MCP server', () => {
  for (const transport of transports) {
    test(`${transport}: it hears what is announced, in the order of the server, and lets go`, async (t) => {
      const clock = countingClock();
      const script: McpScript = {
        results: {
          initialize: {
            ...initializeResult,
            capabilities: { tools: { listChanged: true }, prompts: {}, resources: {} },
          },
          'tools/list': { tools: [tool('b', { title: 'B' }), tool('a')] },
          'prompts/list': { prompts: [{ name: 'a', arguments: [{ name: 'x', required: true }] }] },
          'resources/list': { resources: [{ name: 'r', uri: 'file:///r' }] },
        },
      };
      const { server, clients, at } = await scripted(t, script, { clock });
      assert.deepEqual(await clients.describe(at(transport)), {
        serverName: 'scripted',
        serverVersion: '1.2.3',
        protocolVersion: '2025-06-18',
        capabilityFlags: { tools: { listChanged: true }, prompts: {}, resources: {} },
        offers: [
          offered('b', { title: 'B', inputSchema: { type: 'object' } }),
          offered('a', { inputSchema: { type: 'object' } }),
          { type: 'prompt', name: 'a', described: { arguments: [{ name: 'x', required: true }] } },
          { type: 'resource', name: 'r', described: { uri: 'file:///r' } },
        ],
      });
      await untilClosed(server);
      assert.equal(clock.pending.size, 0);
    });
  }

  test('only announced lists are asked for; `greet` asks for none', async (t) => {
    const { server, clients, at } = await scripted(t);
    await clients.describe(at());
    const asked = () => server.requests.map(({ message }) => message?.method);
    assert.deepEqual(asked(), ['initialize', 'notifications/initialized', 'tools/list']);
    assert.deepEqual(await clients.greet(at()), { serverName: 'scripted' });
    assert.deepEqual(asked().slice(3), ['initialize', 'notifications/initialized']);
    await untilClosed(server);
  });

  test('answers may be event streams', async (t) => {
    const { server, clients, at } = await scripted(t, { streams: true });
    assert.equal((await clients.describe(at())).offers.length, 1);
    await untilClosed(server);
  });

  test('a session is ended, and named in what follows its beginning', async (t) => {
    const { server, clients, at } = await scripted(t, { session: 's-1' });
    await clients.describe(at());
    const sessions = server.requests.map(({ method, headers }) => [method, headers['mcp-session-id']]);
    assert.deepEqual(sessions, [
      ['POST', undefined],
      ['POST', 's-1'],
      ['POST', 's-1'],
      ['DELETE', 's-1'],
    ]);
    assert.equal(server.requests.at(-1)?.headers['mcp-protocol-version'], '2025-06-18');
    await untilClosed(server);
  });

  test('a session is ended after a failure, too; that it cannot be ended changes nothing', async (t) => {
    const { server, clients, at } = await scripted(t, {
      session: 's-2',
      results: { 'tools/list': { tools: 'none' } },
      intercept: ({ method }, response) => method === 'DELETE' && Boolean(response.writeHead(500).end()),
    });
    await assert.rejects(clients.describe(at()), { code: 'mcp_failed' });
    assert.equal(server.requests.at(-1)?.method, 'DELETE');
    assert.deepEqual(await clients.greet(at()), { serverName: 'scripted' });
    await untilClosed(server);
  });

  for (const transport of transports) {
    test(`${transport}: every request has the headers of the address, except the protocol's own`, async (t) => {
      const { server, clients, at } = await scripted(t, { session: 's-3' });
      const headers = ['X-Token', 'a', 'Authorization', 'Bearer b', 'accept', 'x/y', 'Mcp-Session-Id', 'z'];
      await clients.describe({ ...at(transport), headers });
      assert.ok(server.requests.length >= 3);
      for (const request of server.requests) {
        assert.equal(request.headers['x-token'], 'a', request.method);
        assert.equal(request.headers.authorization, 'Bearer b');
        assert.equal(request.headers['user-agent'], 'weir');
        assert.equal(request.headers['accept-encoding'], 'identity');
        assert.notEqual(request.headers['mcp-session-id'], 'z');
        assert.doesNotMatch(request.headers.accept ?? '', /x\/y/);
      }
      await clients.greet({ ...at(transport), headers: ['User-Agent', 'mine'] });
      assert.equal(server.requests.at(-1)?.headers['user-agent'], 'mine');
    });
  }

  test('a redirect within the origin is followed', async (t) => {
    const { server, clients, at } = await scripted(t, {
      intercept: ({ url }, response) =>
        url === '/mcp' && Boolean(response.writeHead(307, { location: '/mcp/' }).end()),
    });
    assert.equal((await clients.describe(at())).offers.length, 1);
    assert.deepEqual(
      server.requests.slice(0, 2).map(({ url }) => url),
      ['/mcp', '/mcp/'],
    );
  });

  test('what shares a name goes by its address', async (t) => {
    const { clients, at } = await scripted(t, {
      results: {
        initialize: { ...initializeResult, capabilities: { tools: {}, resources: {} } },
        'tools/list': { tools: [tool('same', { title: 'first' }), tool('same', { title: 'second' })] },
        'resources/list': {
          resources: [
            { name: 'read me', uri: 'file:///a' },
            { name: 'alone', uri: 'file:///b' },
            { name: 'read me', uri: 'file:///c' },
          ],
        },
        'resources/templates/list': { resourceTemplates: [{ name: 'read me', uriTemplate: 'file:///{x}' }] },
      },
    });
    const { offers } = await clients.describe(at());
    assert.deepEqual(
      offers.map(({ type, name, described }) => [type, name, described['name'] ?? described['title']]),
      [
        ['tool', 'same', 'first'],
        ['resource', 'file:///a', 'read me'],
        ['resource', 'alone', undefined],
        ['resource', 'file:///c', 'read me'],
        ['resource_template', 'read me', undefined],
      ],
    );
  });

  test('schemas of tools are kept as they are, never compiled', async (t) => {
    const outputSchema = { type: 'object', properties: { a: { pattern: '(' } }, required: ['a'] };
    const { clients, at } = await scripted(t, {
      results: { 'tools/list': { tools: [tool('odd', { outputSchema })] } },
    });
    const [offer] = (await clients.describe(at())).offers;
    assert.deepEqual(offer?.described['outputSchema'], outputSchema);
  });

  test('the log hears nothing of a handshake that kept everything', async (t) => {
    const log = keepingLog();
    const { clients, at } = await scripted(t, {}, { log });
    await clients.describe(at());
    assert.deepEqual(log.lines, []);
  });
});
