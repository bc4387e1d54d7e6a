// The records of MCP servers in front of the protocol's reference server, through the real adapter.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMcpClients } from '../../adapters/mcp/create-mcp-clients.ts';
import { systemClock } from '../../core/ports/clock.ts';
import { recordingLog } from '../../storage/embedded/chdb-fixture.ts';
import { openResourcesOfFile, startAdministration } from '../kit/administration-kit.ts';
import { startReferenceMcpServer } from '../kit/reference-mcp-server.ts';

const resources = await openResourcesOfFile();

test('what the reference server offers is found out, kept, switched and tested', async (t) => {
  const server = await startReferenceMcpServer('http');
  t.after(() => server.stop());
  const mcp = createMcpClients({ log: recordingLog(), clock: systemClock, trustedHosts: [server.host] });
  const { tenant, call } = await startAdministration(t, resources, { mcp });
  const { owner, workspaceId } = await tenant('reference');
  const ok = async (asked: Parameters<typeof call>[1]) => {
    const answer = await call(owner, asked);
    assert.equal(answer.status, 200, `${asked.path}: ${answer.text}`);
    return answer.json();
  };
  const integration = {
    name: 'Everything',
    slug: 'everything',
    url: server.url,
    transport: 'http',
    auth_type: 'none',
    workspace_id: workspaceId,
  };
  await ok({ path: '/mcp-integrations', body: integration });
  const body = { name: 'Mine', slug: 'mine', mcp_integration_id: 'everything', workspace_id: workspaceId };
  await ok({ path: '/mcp-servers', body });

  const metadata = await ok({ path: '/mcp-servers/mine/metadata' });
  assert.deepEqual(
    [metadata.sync_status, metadata.server_name, metadata.sync_error],
    ['synced', 'mcp-servers/everything', null],
  );
  const off = { capabilities: [{ name: 'echo', type: 'tool', enabled: false }] };
  await ok({ method: 'PUT', path: '/mcp-integrations/everything/capabilities', body: off });
  const again = await ok({ path: '/mcp-integrations/everything/metadata?refresh=true' });
  assert.equal(again.counts.tools.enabled, again.counts.tools.total - 1);
  const { data } = await ok({ path: '/mcp-servers/mine/capabilities?type=tool&page_size=500' });
  const echo = data.find(({ name }: { name: string }) => name === 'echo');
  assert.deepEqual(
    [echo.enabled, echo.integration_enabled, echo.input_schema.type],
    [false, false, 'object'],
  );

  const tried = await ok({ path: '/mcp-servers/mine/test', body: {} });
  assert.deepEqual([tried.success, tried.server_name], [true, 'mcp-servers/everything']);
  const url = `http://${server.host}/nowhere`;
  await ok({ method: 'PUT', path: '/mcp-integrations/everything', body: { url } });
  const failed = await ok({ path: '/mcp-servers/mine/test', body: {} });
  assert.deepEqual([failed.success, failed.status_code], [false, 404]);
  assert.equal((await ok({ path: '/mcp-servers/mine/metadata' })).sync_status, 'failed');
});

test('an address that may not be spoken to is an answer, too', async (t) => {
  const mcp = createMcpClients({ log: recordingLog(), clock: systemClock, trustedHosts: [] });
  const { tenant, call } = await startAdministration(t, resources, { mcp });
  const { owner } = await tenant('inside');
  const url = 'http://169.254.169.254/mcp';
  const body = { name: 'Inside', slug: 'inside', url, transport: 'http', auth_type: 'none' };
  assert.equal((await call(owner, { path: '/mcp-integrations', body })).status, 200);
  const answer = await call(owner, { path: '/mcp-integrations/inside/metadata' });
  assert.deepEqual([answer.status, answer.json().sync_status], [200, 'failed']);
});
