import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import auth from '../../plugins/auth/index.ts';
import mcp from '../../plugins/mcp/index.ts';
import { startAuthorizationServer } from '../kit/authorization-server.ts';
import { startTestGateway } from '../kit/gateway-kit.ts';
import { connected, trustingClients, whoami } from '../kit/mcp-oauth-kit.ts';
import { testKey } from '../kit/plugin-kit.ts';
import { startProtectedMcpServer } from '../kit/protected-mcp-server.ts';

describe('an MCP server of the YAML that wants a token', () => {
  test('is called with one of the gateway itself (client_credentials), and never with the key of the caller', async (t) => {
    const authority = await startAuthorizationServer({
      clients: [
        {
          client_id: 'gateway',
          client_secret: 'planted secret',
          ...{ grant_types: ['client_credentials'], redirect_uris: [], response_types: [] },
        },
      ],
    });
    t.after(() => authority.close());
    const server = await startProtectedMcpServer(authority);
    t.after(() => server.close());
    const oauth = {
      grant: 'client_credentials',
      client_id: 'gateway',
      client_secret: 'planted secret',
      issuer: authority.issuer,
    };
    const gateway = await startTestGateway(t, {
      plugins: [auth, { plugin: mcp, options: { servers: { tickets: { url: server.url, oauth } } } }],
      mcp: trustingClients(t, [authority.host, server.host]),
      keys: { 'wk-ann': testKey({ id: 'ann', scopes: ['mcp.invoke'] }) },
    });
    const client = await connected(t, `${gateway.url}/tickets/mcp`, 'wk-ann');
    assert.equal(await whoami(client), 'nobody by gateway');
    assert.equal(await whoami(client, 'write'), 'nobody by gateway');
    assert.ok(server.headers.every((headers) => !JSON.stringify(headers).includes('wk-ann')));
    assert.ok(!JSON.stringify(gateway.lines).includes('planted secret'));
    const scopes = authority.tokenRequests.map((form) => form.get('scope'));
    assert.deepEqual(scopes, ['tickets:read', 'tickets:read tickets:write']);
  });
});
