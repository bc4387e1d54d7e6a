import assert from 'node:assert/strict';
import { test } from 'node:test';
import { send } from '../../../tests/kit/http-kit.ts';
import { startIdentityProvider } from '../../../tests/kit/identity-provider.ts';
import { startGuarded } from './guarded-servers.test-support.ts';
import { MemoryProvider, signIn, toolsAt } from './oauth-client.test-support.ts';

test("the SDK's client registers with a provider that lets it, signs in there, and lists tools", async (t) => {
  const provider = await startIdentityProvider(t, { registration: true });
  const gateway = await startGuarded(t, { provider });
  const url = `${gateway.url}/tickets/mcp`;
  const client = new MemoryProvider();
  await signIn(url, client);
  assert.deepEqual(await toolsAt(url, client), ['echo']);
  assert.ok(provider.requests.includes('POST /reg'), 'registered at the provider itself');
  const elsewhere = await send(gateway.url, {
    method: 'POST',
    path: '/crm/mcp',
    headers: { authorization: `Bearer ${client.saved?.access_token}` },
    body: { jsonrpc: '2.0', id: 1, method: 'tools/list' },
  });
  assert.deepEqual([elsewhere.status, elsewhere.json().error.data.code], [401, 'token_invalid']);
});
