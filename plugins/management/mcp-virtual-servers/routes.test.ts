import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import {
  expecting,
  openResourcesOfFile,
  startAdministration,
} from '../../../tests/kit/administration-kit.ts';
import { ConfiguredMcpServers } from '../../../core/organisation/mcp-virtual-servers.ts';
import { describedServer, fakeMcp, toolOffer } from '../../../tests/kit/fake-mcp.ts';
import { TestClock } from '../../../tests/kit/plugin-kit.ts';

const resources = await openResourcesOfFile();

const path = '/mcp-virtual-servers';
const tools = [
  { server: 'tickets', tool: 'find', name: 'find_tickets', description: 'Finds tickets by words' },
  { server: 'wiki', tool: 'find' },
];

/** Servers of a configuration; `private` is for other workspaces. */
const ofFile: Parameters<ConfiguredMcpServers['add']>[0] = [
  { slug: 'files', isVirtual: false, workspaces: undefined },
  { slug: 'private', isVirtual: false, workspaces: ['ws-of-others'] },
  { slug: 'all', isVirtual: true, workspaces: undefined },
];

/** A workspace with the servers `tickets` and `wiki`, of which the first was asked for its tools `find` and `close`. */
async function start(t: TestContext, served: Parameters<ConfiguredMcpServers['add']>[0] = ofFile) {
  const mcp = fakeMcp();
  mcp.answer = describedServer([toolOffer('find'), toolOffer('close')]);
  const clock = new TestClock();
  const server = { public_url: 'https://weir.example.com/' };
  const mcpServers = new ConfiguredMcpServers();
  if (served.length > 0) mcpServers.add(served);
  const { tenant, call } = await startAdministration(t, resources, { mcp, mcpServers, clock, server });
  const place = await tenant('virtual');
  const { owner, key, workspaceId: workspace_id } = place;
  const service = key({ kind: 'workspace-service', name: 'service' });
  const { ok, refused } = expecting(call, service);
  for (const slug of ['tickets', 'wiki']) {
    const url = `https://${slug}.example.com/mcp`;
    const integration = { name: slug, slug, url, auth_type: 'none', transport: 'http', workspace_id };
    await ok({ path: '/mcp-integrations', body: integration }, owner);
    await ok({ path: '/mcp-servers', body: { name: slug, slug, mcp_integration_id: slug } });
  }
  await ok({ path: '/mcp-servers/tickets/metadata' });
  return { ...place, call, ok, refused, service, clock };
}

describe('a virtual MCP server', () => {
  test('is made of tools of the servers of a workspace, read, listed, changed and deleted', async (t) => {
    const { call, ok, refused, service, owner, organisationId, workspaceId, clock } = await start(t);
    const body = { name: 'Help desk', slug: 'desk', instructions: 'For the help desk.', tools };
    const made = await call(service, { path, body });
    assert.deepEqual([made.status, made.headers['etag']], [200, '"1"'], made.text);
    const { id, created_at, last_updated_at, owner_id, ...shown } = made.json();
    assert.deepEqual([created_at, owner_id], [last_updated_at, service.id]);
    assert.deepEqual(shown, {
      ...{ slug: 'desk', name: 'Help desk', description: null, instructions: 'For the help desk.' },
      ...{ mode: 'list', servers: null, tools, url: 'https://weir.example.com/desk/mcp' },
      ...{ organisation_id: organisationId, workspace_id: workspaceId, status: 'active' },
      object: 'mcp-virtual-server',
    });
    clock.advance(1);
    const search = { mode: 'search', servers: ['wiki', 'tickets'], tools: null, description: 'd' };
    const changed = await ok({ method: 'PUT', path: `${path}/desk`, body: search });
    assert.deepEqual(
      [changed.mode, changed.servers, changed.tools, changed.description, changed.instructions],
      ['search', ['wiki', 'tickets'], null, 'd', 'For the help desk.'],
    );
    assert.deepEqual(await ok({ path: `${path}/${id}` }), changed, 'read by its id, as it was changed');
    await ok({ path, body: { name: 'Other', tools } });
    const slugs = async (query: string, by = service) =>
      (await ok({ path: path + query }, by)).data.map((one: { slug: string }) => one.slug);
    assert.deepEqual(await slugs('?search=HELP'), ['desk']);
    assert.deepEqual((await slugs(`?workspace_id=${workspaceId}`, owner)).length, 2);
    assert.deepEqual(await ok({ method: 'DELETE', path: `${path}/${id}` }), {});
    await refused({ path: `${path}/${id}` }, 404, /No virtual MCP server/);
  });

  test('is refused with the place and the remedy: members that are not there, names that collide, slugs that are taken', async (t) => {
    const { ok, refused } = await start(t);
    const wrong = (body: object, status: number, message: RegExp) =>
      refused({ path, body: { name: 'Desk', slug: 'desk', ...body } }, status, message);
    await wrong({}, 400, /\/tools is missing, and so is servers/);
    await wrong(
      { servers: ['tikets'] },
      400,
      /\/servers\/0 names no MCP server .* did you mean \\"tickets\\"\?/,
    );
    await wrong(
      { tools: [{ server: 'tickets', tool: 'fnd' }] },
      400,
      /\/tools\/0\/tool is \\"fnd\\", and the MCP server \\"tickets\\" has no such tool; did you mean \\"find\\"\?/,
    );
    await wrong(
      { tools: [...tools, { server: 'tickets', tool: 'close', name: 'find' }] },
      400,
      /\/tools\/2\/name is called \\"find\\" as \/tools\/1 is; give one of them another name/,
    );
    await wrong(
      { servers: ['wiki'], tools },
      400,
      /\/tools\/0\/server is \\"tickets\\", which servers does not name/,
    );
    await wrong({ tools, slug: 'wiki' }, 409, /has an MCP server with the slug \\"wiki\\" already/);
    await wrong({ tools, slug: 'files' }, 409, /has an MCP server with the slug/);
    await wrong({ tools, slug: 'all' }, 409, /has an MCP server with the slug/);
    await wrong({ servers: ['private'] }, 400, /\/servers\/0 names no MCP server/);
    await wrong({ servers: ['all'] }, 400, /\/servers\/0 names no MCP server/);
    // What a server offers is not known before it was asked.
    await ok({
      path,
      body: {
        name: 'Desk',
        slug: 'desk',
        tools: [
          { server: 'wiki', tool: 'any' },
          { server: 'files', tool: 'read' },
        ],
      },
    });
    await wrong({ tools }, 409, /slug \\"desk\\" already/);
    const server = { name: 'Desk', slug: 'desk', mcp_integration_id: 'wiki' };
    await refused(
      { path: '/mcp-servers', body: server },
      409,
      /has a virtual MCP server with the slug \\"desk\\"/,
    );
    const tooMuch = Array.from({ length: 255 }, (_, index) => ({
      ...{ server: 'wiki', tool: `tool-${index}`, description: 'x'.repeat(4000) },
    }));
    await refused(
      { method: 'PUT', path: `${path}/desk`, body: { tools: tooMuch } },
      400,
      /\/tools are longer than 1 MB/,
    );
  });

  test('keeps its members when another part is changed, also those that are gone since', async (t) => {
    const { ok, refused } = await start(t);
    await ok({ path, body: { name: 'Desk', slug: 'desk', tools } });
    await ok({ method: 'DELETE', path: '/mcp-servers/tickets' });
    const change = { method: 'PUT', path: `${path}/desk` };
    assert.deepEqual((await ok({ ...change, body: { name: 'Ours' } })).tools, tools);
    await refused({ ...change, body: { tools } }, 400, /\/tools\/0\/server names no MCP server/);
  });

  test('may name servers of a configuration that another process serves', async (t) => {
    const { ok } = await start(t, []);
    await ok({ path, body: { name: 'Desk', slug: 'desk', servers: ['elsewhere', 'tickets'] } });
  });

  test('belongs to one workspace: another one neither sees it nor makes it of servers that are not its own', async (t) => {
    const { ok, refused, key, organisationId } = await start(t);
    await ok({ path, body: { name: 'Desk', slug: 'desk', tools } });
    const workspaceId = `others-of-${organisationId}`;
    await resources.write(organisationId, ({ workspaces }) =>
      workspaces.insert({
        ...{ id: workspaceId, organisationId, slug: workspaceId, name: 'Others', description: '', icon: '' },
        ...{ status: 'active', isDefault: false, defaults: {}, usageLimits: [], rateLimits: [] },
        ...{ createdAt: 1, updatedAt: 1, version: 1 },
      }),
    );
    const other = key({ kind: 'workspace-service', name: 'other', workspaceId });
    assert.deepEqual((await ok({ path }, other)).data, []);
    await refused({ path: `${path}/desk` }, 404, /No virtual MCP server/, other);
    await refused({ method: 'DELETE', path: `${path}/desk` }, 404, /No virtual MCP server/, other);
    const body = { name: 'Desk', slug: 'desk', tools };
    await refused(
      { path, body },
      400,
      /\/tools\/0\/server names no MCP server of the workspace: \\"tickets\\"; create/,
      other,
    );
    await refused({ path, body }, 403, /mcp_servers.create/, key({ scopes: ['mcp_servers.read'] }));
  });
});
