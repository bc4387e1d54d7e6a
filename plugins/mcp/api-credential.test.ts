import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { createMcpClients } from '../../adapters/mcp/create-mcp-clients.ts';
import { createUndiciTransport } from '../../adapters/transport/undici-transport.ts';
import { integration, provider, recordsDirectory } from '../../core/routing/stored-records.test-support.ts';
import {
  realClock,
  recordingLog,
  RecordingMetrics,
} from '../../core/lifecycle/recording-services.test-support.ts';
import type { RecordKind, StoredRecord } from '../../core/ports/records.ts';
import { secretContext } from '../../core/ports/secret-managers.ts';
import { startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import { testSecrets } from '../../tests/kit/test-secrets.ts';
import auth from '../auth/index.ts';
import mcp from './index.ts';

const document = {
  openapi: '3.1.0',
  info: { title: 'Tickets', version: '3' },
  paths: { '/tickets': { get: { operationId: 'listTickets' } } },
};

/** An API that notes what comes with each call, on an origin of its own. */
async function startApi(t: TestContext) {
  const received: (readonly [authorization: string | undefined, apiKey: unknown])[] = [];
  const api: Server = createServer(({ url, headers }, response) => {
    response.setHeader('content-type', 'application/json');
    if (url === '/openapi.json') return void response.end(JSON.stringify(document));
    received.push([headers.authorization, headers['x-api-key']]);
    response.end('{"state":"open"}');
  });
  await new Promise<void>((resolve) => api.listen(0, '127.0.0.1', resolve));
  t.after(() => api.close());
  return { origin: `http://127.0.0.1:${(api.address() as AddressInfo).port}`, received };
}

/** A gateway with one API as tools, whose credential is that of a record; a key for each workspace. */
async function started(
  t: TestContext,
  { origin }: { readonly origin: string },
  credential: object,
  records: readonly StoredRecord[],
) {
  const log = recordingLog([]);
  const transport = createUndiciTransport({ log, clock: realClock, metrics: new RecordingMetrics() });
  t.after(() => transport.close());
  const openapi = { document: `${origin}/openapi.json`, base_url: origin, credential };
  const keys = ['ws-1', 'ws-2', 'ws-3', 'ws-4'].map((workspaceId) => [
    workspaceId,
    testKey({ id: workspaceId, workspaceId, scopes: ['mcp.invoke'] }),
  ]);
  const directory = recordsDirectory(records);
  const gateway = await startTestGateway(t, {
    plugins: [auth, { plugin: mcp, options: { servers: { tickets: { openapi } } } }],
    mcp: createMcpClients({ log, clock: realClock, transport, trustedHosts: [] }),
    security: { trusted_hosts: ['127.0.0.1'] },
    keys: Object.fromEntries(keys) as Record<string, ReturnType<typeof testKey>>,
    directory,
  });
  const callAs = async (workspace: string) => {
    const { status, text } = await send(gateway.url, {
      method: 'POST',
      path: '/tickets/mcp',
      headers: { 'content-type': 'application/json', 'x-service-api-key': workspace },
      body: JSON.stringify({
        ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
        params: { name: 'listTickets', arguments: {} },
      }),
    });
    const { result, error } = JSON.parse(text) as {
      readonly result?: { readonly structuredContent: unknown };
      readonly error?: { readonly message: string; readonly data: { readonly code: string } };
    };
    return {
      status,
      content: result?.structuredContent,
      code: error?.data.code,
      message: error?.message ?? '',
    };
  };
  /** Names of all tools that the key of a workspace is shown under `/mcp`. */
  const listAs = async (workspace: string) => {
    const ask = (message: object, session: Record<string, string> = {}) =>
      send(gateway.url, {
        method: 'POST',
        path: '/mcp',
        headers: { 'content-type': 'application/json', 'x-service-api-key': workspace, ...session },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...message }),
      });
    const params = {
      protocolVersion: '2025-06-18',
      capabilities: {},
      clientInfo: { name: 'c', version: '1' },
    };
    const begun = await ask({ method: 'initialize', params });
    const session = { 'mcp-session-id': String(begun.headers['mcp-session-id']) };
    const { text } = await ask({ method: 'tools/list' }, session);
    const { result } = JSON.parse(text) as { result: { tools: readonly { readonly name: string }[] } };
    return result.tools.map(({ name }) => name);
  };
  return { callAs, listAs, put: (record: StoredRecord) => directory.put(record) };
}

const shared = { workspaceId: undefined };
const enabledIn = (...workspaces: readonly string[]) => ({
  globalAccess: { enabled: false, usageLimits: [], rateLimits: [] },
  workspaces: Object.fromEntries(
    workspaces.map((id) => [id, { enabled: true, usageLimits: [], rateLimits: [] }]),
  ),
});

function mcpIntegration(url: string, headers: Readonly<Record<string, string>>): StoredRecord {
  const field = 'configurations.custom_headers';
  const id = 'mcp-integration-1';
  const made: StoredRecord<'mcp_integration'> = {
    ...{ kind: 'mcp_integration', id, organisationId: 'org-1', workspaceId: undefined, parentId: '' },
    ...{ slug: 'tickets-api', name: 'Tickets', status: 'active', version: 1 },
    ...{ createdBy: 'k', updatedBy: 'k', createdAt: 1, updatedAt: 1 },
    secrets: { [field]: testSecrets.seal(JSON.stringify(headers), secretContext(id, field)) },
    data: {
      ...{ description: '', url, authType: 'headers', transport: 'http', passthroughHeader: {} },
      ...{ customHeaders: Object.keys(headers), secretMappings: [], server: undefined, syncError: '' },
      globalAccess: { enabled: false },
      workspaces: { 'ws-1': { enabled: true, createdAt: 1, updatedAt: 1 } },
      capabilities: [],
    },
  };
  return made;
}

describe('the credential of an API among the MCP servers is that of a record', () => {
  test('each workspace calls with its own provider; one without it, one that may not use it and one whose secret is for elsewhere send nothing', async (t) => {
    const api = await startApi(t);
    const elsewhere = await startApi(t);
    const at = (base_url: string) => ({ aiProviderId: 'openai', configurations: { base_url } });
    const records: readonly StoredRecord<RecordKind>[] = [
      integration(
        { key: 'of-the-organisation' },
        { ...at(`${api.origin}/v2`), ...enabledIn('ws-1') },
        shared,
      ),
      provider({}, { slug: 'tickets' }),
      provider({}, { id: 'p-2', workspaceId: 'ws-2', slug: 'tickets' }),
      provider({}, { id: 'p-3', workspaceId: 'ws-3', slug: 'tickts' }),
      integration({ key: 'for-elsewhere' }, at(elsewhere.origin), { id: 'i-4', workspaceId: 'ws-4' }),
      provider({}, { id: 'p-4', workspaceId: 'ws-4', slug: 'tickets', parentId: 'i-4' }),
    ];
    const { callAs, put } = await started(t, api, { provider: 'tickets' }, records);
    assert.deepEqual(await callAs('ws-1'), {
      ...{ status: 200, content: { state: 'open' }, code: undefined, message: '' },
    });
    assert.deepEqual(api.received, [['Bearer of-the-organisation', undefined]]);

    const disabled = await callAs('ws-2');
    assert.deepEqual([disabled.status, disabled.code], [403, 'provider_disabled']);
    assert.match(
      disabled.message,
      /"@tickets" belongs to an integration that is not enabled for this workspace/,
    );
    const unknown = await callAs('ws-3');
    assert.deepEqual([unknown.status, unknown.code], [400, 'provider_unknown']);
    assert.match(unknown.message, /no provider "@tickets". Did you mean "tickts"\?/);
    const other = await callAs('ws-4');
    assert.deepEqual([other.status, other.code], [502, 'credentials_failed']);
    assert.ok(other.message.includes(`was stored for ${elsewhere.origin} and is not sent to ${api.origin}`));
    assert.doesNotMatch(other.message, /for-elsewhere/);
    assert.equal(api.received.length + elsewhere.received.length, 1, 'no API heard of the others');

    put(integration({ key: 'of-ws-4' }, at(api.origin), { id: 'i-4', workspaceId: 'ws-4', version: 2 }));
    assert.equal((await callAs('ws-4')).status, 200, 'the next call has the record as it is now');
    assert.deepEqual(api.received[1], ['Bearer of-ws-4', undefined]);
  });

  test('the headers of an MCP integration are sent to its origin, for the workspaces that it is enabled for', async (t) => {
    const api = await startApi(t);
    const record = mcpIntegration(`${api.origin}/mcp`, { 'X-Api-Key': 'of-the-integration' });
    const { callAs, put } = await started(t, api, { mcp_integration: 'tickets-api' }, [record]);
    assert.equal((await callAs('ws-1')).status, 200);
    assert.deepEqual(api.received, [[undefined, 'of-the-integration']]);
    const disabled = await callAs('ws-2');
    assert.deepEqual([disabled.status, disabled.code], [403, 'provider_disabled']);
    put(mcpIntegration('https://elsewhere.example.com/mcp', { 'X-Api-Key': 'for-elsewhere' }));
    const other = await callAs('ws-1');
    assert.deepEqual([other.status, other.code], [502, 'credentials_failed']);
    assert.match(other.message, /was stored for https:\/\/elsewhere.example.com/);
    assert.equal(api.received.length, 1);
  });

  test('a record that does not exist is told of, with the nearest one that the workspace may use', async (t) => {
    const api = await startApi(t);
    const record = mcpIntegration(`${api.origin}/mcp`, { 'X-Api-Key': 'of-the-integration' });
    const { callAs } = await started(t, api, { mcp_integration: 'ticket-api' }, [record]);
    const unknown = await callAs('ws-1');
    assert.deepEqual([unknown.status, unknown.code], [400, 'provider_unknown']);
    assert.match(unknown.message, /Did you mean "tickets-api"\?/);
    assert.doesNotMatch((await callAs('ws-2')).message, /tickets-api/);
    assert.equal(api.received.length, 0);
  });

  test('lists need no credential: a workspace without one spoils them for no other', async (t) => {
    const api = await startApi(t);
    const { listAs, callAs } = await started(t, api, { provider: 'tickets' }, []);
    for (const workspace of ['ws-1', 'ws-2'])
      assert.deepEqual(await listAs(workspace), ['tickets__listTickets']);
    assert.equal((await callAs('ws-1')).code, 'provider_unknown');
    assert.equal(api.received.length, 0);
  });
});
