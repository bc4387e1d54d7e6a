// MCP integrations and servers as users of the `portkey-ai` client manage them: with only the base URL changed.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Portkey } from 'portkey-ai';
import { openResourcesOfFile, startAdministration } from '../kit/administration-kit.ts';
import { describedServer, fakeMcp, toolOffer } from '../kit/fake-mcp.ts';
import { failureOf } from './sdk-setting.ts';

const resources = await openResourcesOfFile();

/** A client with the key of an organisation, and one with a key of its workspace, in front of one MCP server. */
async function clientsOf(t: TestContext) {
  const mcp = fakeMcp();
  mcp.answer = describedServer([toolOffer('find'), toolOffer('close')]);
  const { gateway, tenant, call } = await startAdministration(t, resources, { mcp });
  const { owner, key, organisationId, workspaceId } = await tenant('sdk');
  const service = key({ kind: 'workspace-service', name: 'service' });
  // The keys are known to the gateway from their first call on.
  for (const one of [owner, service]) await call(one, { path: '/mcp-servers' });
  const client = (id: string): Portkey => new Portkey({ apiKey: `wk_${id}`, baseURL: `${gateway.url}/v1` });
  return { organisation: client(owner.id), portkey: client(service.id), organisationId, workspaceId };
}

/** The client knows no members of these answers. */
const membersOf = (answer: object): Record<string, any> => answer;

const shared = {
  name: 'Tickets',
  slug: 'tickets',
  url: 'https://tickets.example.com/mcp',
  transport: 'http' as const,
  auth_type: 'headers' as const,
  description: 'd',
  configurations: { custom_headers: { 'X-Api-Key': 'tk-0123456789-abcdef' } },
};

test('MCP integrations, their workspaces, capabilities and metadata', async (t) => {
  const { organisation, portkey, organisationId, workspaceId } = await clientsOf(t);
  const { mcpIntegrations } = organisation;
  const made = await mcpIntegrations.create({ ...shared, organisation_id: organisationId });
  assert.equal(made.slug, 'tickets');
  const id = made.id ?? '';
  const wanted = { type: 'organisation' as const, page_size: 1000, current_page: 0, search: 'tick' };
  const { total, data } = await mcpIntegrations.list(wanted);
  assert.deepEqual([total, data?.[0]?.id], [1, id]);
  assert.equal((await mcpIntegrations.update({ id, name: 'Renamed' })).slug, 'tickets');
  const one = await mcpIntegrations.retrieve({ id: 'tickets' });
  assert.deepEqual(
    [one.name, one.url, one.transport, one.configurations],
    ['Renamed', shared.url, 'http', { custom_headers: { 'X-Api-Key': 'tk…ef' } }],
  );

  await mcpIntegrations.workspaces.update({
    id,
    global_workspace_access: null,
    override_existing_workspace_access: true,
    workspaces: [{ id: workspaceId, enabled: true }],
  });
  const access = membersOf(await mcpIntegrations.workspaces.list({ id }));
  assert.deepEqual([access.total, access['data'][0].id], [1, workspaceId]);
  assert.equal((await portkey.mcpIntegrations.list()).data?.[0]?.slug, 'tickets');

  const metadata = membersOf(await mcpIntegrations.metadata.get({ id }));
  assert.deepEqual([metadata.server_name, metadata.sync_status], ['tickets', 'synced']);
  await mcpIntegrations.capabilities.update({
    id,
    capabilities: [{ name: 'close', type: 'tool', enabled: false }],
  });
  const { counts } = membersOf(await mcpIntegrations.capabilities.list({ id }));
  assert.deepEqual(counts.tools, { total: 2, enabled: 1 });
  await mcpIntegrations.delete({ id });
  assert.equal(Reflect.get(await failureOf(mcpIntegrations.retrieve({ id })), 'status'), 404);
});

test('MCP servers, their test, capabilities, users, metadata and connections', async (t) => {
  const { mcpIntegrations, mcpServers } = (await clientsOf(t)).portkey;
  await mcpIntegrations.create(shared);
  const made = await mcpServers.create({ name: 'Mine', mcp_integration_id: 'tickets', slug: 'mine' });
  const id = made.id ?? '';
  assert.equal(made.slug, 'mine');
  await mcpServers.update({ id, description: 'For the help desk' });
  const one = await mcpServers.retrieve({ id: 'mine' });
  assert.deepEqual(
    [one.name, one.description, one.mcp_integration_id !== ''],
    ['Mine', 'For the help desk', true],
  );
  const { total, data } = await mcpServers.list({ page_size: 100, current_page: 0, search: 'mi' });
  assert.deepEqual([total, data?.[0]?.id], [1, id]);

  const tried = membersOf(await mcpServers.test({ id }));
  assert.deepEqual([tried.success, tried.status_code, tried.server_name], [true, 200, 'tickets']);
  assert.equal(membersOf(await mcpServers.metadata.get({ id })).sync_status, 'synced');
  await mcpServers.capabilities.update({
    id,
    capabilities: [{ name: 'find', type: 'tool', enabled: false }],
  });
  const listed = membersOf(await mcpServers.capabilities.list({ id }));
  assert.deepEqual(
    listed['data'].map((each: Record<string, unknown>) => [each['name'], each['enabled']]),
    [
      ['find', false],
      ['close', true],
    ],
  );
  await mcpServers.userAccess.update({ id, default_user_access: 'deny', user_access: [] });
  assert.equal(membersOf(await mcpServers.userAccess.list({ id })).default_user_access, 'deny');
  const connections = membersOf(await mcpServers.connections.list({ id, page_size: 10, current_page: 0 }));
  assert.deepEqual([connections.total, connections['data']], [0, []]);
  assert.equal(membersOf(await mcpServers.connections.delete({ id, user_id: 'somebody' })).success, true);
  await mcpServers.delete({ id });
  assert.equal(Reflect.get(await failureOf(mcpServers.retrieve({ id })), 'status'), 404);
});
