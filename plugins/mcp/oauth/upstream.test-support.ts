import type { TestContext } from 'node:test';
import { testFetch } from '../../../adapters/guarded-fetch/guarded-fetch.test-support.ts';
import { createOauthClients } from '../../../adapters/oauth/create-oauth-clients.ts';
import { callerToken, type CallerToken } from '../../../core/pipeline/keys.ts';
import { GatewayError } from '../../../core/pipeline/plugin.ts';
import { type Clock, systemClock } from '../../../core/ports/clock.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { McpClients } from '../../../core/ports/mcp.ts';
import {
  type AuthorizationServerOptions,
  startAuthorizationServer,
} from '../../../tests/kit/authorization-server.ts';
import { fakeMcp } from '../../../tests/kit/fake-mcp.ts';
import {
  type ProtectedMcpOptions,
  startProtectedMcpServer,
} from '../../../tests/kit/protected-mcp-server.ts';
import { testKey } from '../../../tests/kit/plugin-kit.ts';
import type { Caller, ServerIdentity } from './server-identity.ts';
import type { UpstreamCredentials } from './upstream-credentials.ts';

/** The system's time, as many milliseconds later as a test says. */
class LaterClock implements Clock {
  ahead = 0;
  now = () => systemClock.now() + this.ahead;
  monotonic = () => systemClock.monotonic() + this.ahead;
  after = systemClock.after;
}

/** An authorization server and an MCP server that takes its tokens, with clients that trust both. */
export async function startProtected(
  t: TestContext,
  options: AuthorizationServerOptions & Pick<ProtectedMcpOptions, 'describes'> = {},
) {
  const authority = await startAuthorizationServer(options);
  t.after(() => authority.close());
  const protectedServer = await startProtectedMcpServer(authority, {
    ...(options.describes !== undefined && { describes: options.describes }),
  });
  t.after(() => protectedServer.close());
  const clock = new LaterClock();
  const fetch = testFetch({ trustedHosts: [authority.host, protectedServer.host] });
  const mcp: McpClients = fakeMcp(createOauthClients({ fetch, clock }));
  return { authority, protectedServer, clock, mcp };
}

/** No user has an account anywhere. */
export const noAccounts: ConstructorParameters<typeof UpstreamCredentials>[1] = {
  connections: { token: () => Promise.resolve(undefined) },
  pages: {
    missing: () => new GatewayError('mcp_connection_missing', 'No account.'),
    onConnected: () => undefined,
  },
};

/** A server with these settings. */
export function identity(overrides: Partial<ServerIdentity> & Pick<ServerIdentity, 'url'>): ServerIdentity {
  return {
    id: 'server-1',
    slug: 'tickets',
    authType: 'oauth_auto',
    oauth: {},
    identityHeaders: {},
    workspaceId: undefined,
    oauthSecret: () => undefined,
    ...overrides,
  };
}

/** Somebody who calls: with a service key, or with a token. */
export function caller(key: Partial<KeyRecord> = {}, token?: CallerToken, elicitsUrls = false): Caller {
  const headers: Readonly<Record<string, string>> = { authorization: `Bearer wk_${key.id ?? 'key'}` };
  return {
    key: testKey(key),
    elicitsUrls: () => elicitsUrls,
    request: {
      get: <T>(slot: unknown) => (slot === callerToken ? token : undefined) as T | undefined,
      header: (name) => headers[name],
      service: () => undefined,
      remoteAddress: '127.0.0.1',
    },
  };
}

/** Calls a tool as the gateway does: once more after a refusal, if the credentials say so. */
export async function callTool(
  credentials: UpstreamCredentials,
  server: ServerIdentity,
  by: Caller,
  tool = 'whoami',
): Promise<string> {
  for (let attempt = 1; ; attempt += 1) {
    const list = await credentials.headersFor(server, by);
    const headers = new Headers({
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    });
    for (let i = 0; i < list.length; i += 2) headers.set(list[i] ?? '', list[i + 1] ?? '');
    const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: tool, arguments: {} } };
    const answer = await fetch(server.url, { method: 'POST', headers, body: JSON.stringify(message) });
    if (answer.status === 200) {
      const { result } = (await answer.json()) as { result: { content: { text: string }[] } };
      return result.content[0]?.text ?? '';
    }
    const wwwAuthenticate = answer.headers.get('www-authenticate') ?? undefined;
    const next = await credentials.refused(server, by, { status: answer.status, wwwAuthenticate });
    if (next !== 'retry') throw next;
    if (attempt === 2) throw new Error(`Refused twice: ${answer.status} ${wwwAuthenticate}`);
  }
}

/** The error of work that must fail. */
export async function failure(work: Promise<unknown>): Promise<GatewayError> {
  const result = await work.catch((error: unknown) => error);
  if (!GatewayError.is(result)) throw new Error('It succeeded, or failed otherwise.', { cause: result });
  return result;
}
