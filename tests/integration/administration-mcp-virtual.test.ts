// Virtual MCP servers as records of a gateway that runs: made, changed and deleted through the API, and served at once.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { startMcpServer } from '../kit/mcp-server.ts';
import { call, makePremises, operate } from '../kit/operator.ts';
import { startWeir, stopEverything } from '../kit/process-kit.ts';

after(stopEverything);

const offered = ['find', 'close'].map((name) => ({ name, inputSchema: { type: 'object' } }));

test('a virtual MCP server is served with the next request after it is made, changed and deleted, and no other workspace has it', async (t) => {
  const server = await startMcpServer({
    results: {
      'tools/list': { tools: offered },
      'tools/call': (params) => ({ content: [{ type: 'text', text: String(params?.['name']) }] }),
    },
  });
  t.after(() => server.close());
  const weir = await startWeir({
    yaml: {
      version: 1,
      security: { trusted_hosts: [server.host] },
      storage: { resources: { url: 'pglite:' }, analytics: { url: 'none:' } },
      pipelines: [
        { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
        { name: 'gateway', match: { path: '/**' }, plugins: ['auth', 'mcp', 'provider'] },
      ],
    },
  });
  const { url } = weir;
  const desk = await makePremises(url, 'Desk', ['mcp.invoke']);
  const others = await makePremises(url, 'Others', ['mcp.invoke']);
  const workspace_id = desk.workspace;
  const integration = {
    name: 'Tickets',
    slug: 'tickets',
    url: server.url,
    transport: 'http',
    auth_type: 'none',
  };
  await operate(url, { path: '/mcp-integrations', body: { ...integration, workspace_id } });
  const mine = { name: 'Tickets', slug: 'tickets', mcp_integration_id: 'tickets', workspace_id };
  await operate(url, { path: '/mcp-servers', body: mine });
  await operate(url, { path: '/mcp-servers/tickets/metadata' });

  const connected = async (key: string) => {
    const client = new Client({ name: 'test', version: '1' });
    const requestInit = { headers: { 'x-service-api-key': key } };
    await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/desk/mcp`), { requestInit }));
    t.after(() => client.close());
    return client;
  };
  const names = async (client: Client) => (await client.listTools()).tools.map(({ name }) => name);

  await assert.rejects(connected(desk.key), /no MCP server \\"desk\\" that the key may use/);
  const tools = [{ server: 'tickets', tool: 'find', name: 'find_tickets', description: 'By words' }];
  const made = { name: 'Desk', slug: 'desk', instructions: 'For the help desk.', tools, workspace_id };
  await operate(url, { path: '/mcp-virtual-servers', body: made });
  const client = await connected(desk.key);
  assert.equal(client.getInstructions(), 'For the help desk.');
  assert.deepEqual(await names(client), ['find_tickets']);
  const found = await client.callTool({ name: 'find_tickets', arguments: {} });
  assert.deepEqual(found.content, [{ type: 'text', text: 'find' }]);
  await assert.rejects(
    connected(others.key),
    /no MCP server \\"desk\\" that the key may use. It may use none/,
  );

  const change = { tools: [...tools, { server: 'tickets', tool: 'close' }] };
  await operate(url, { method: 'PUT', path: '/mcp-virtual-servers/desk', body: change });
  assert.deepEqual(await names(client), ['find_tickets', 'close']);
  const off = { capabilities: [{ name: 'close', type: 'tool', enabled: false }] };
  await operate(url, { method: 'PUT', path: '/mcp-servers/tickets/capabilities', body: off });
  assert.deepEqual(await names(client), ['find_tickets'], 'what is off at its server is not there');

  const { data } = await operate(url, { path: '/audit-logs' }).then((logs) => ({
    data: logs.records ?? logs.data,
  }));
  const entries = (data as { resource_type: string; action: string }[]).filter(
    (one) => one.resource_type === 'mcp_virtual_servers',
  );
  assert.deepEqual(entries.map(({ action }) => action).sort(), ['create', 'update']);

  const gone = await call(url, { method: 'DELETE', path: '/mcp-virtual-servers/desk' });
  assert.equal(gone.status, 200, gone.text);
  await assert.rejects(client.listTools(), /no MCP server \\"desk\\"/);
});
