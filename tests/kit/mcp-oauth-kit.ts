/** A gateway in front of MCP servers that demand tokens of a real authorization server. */
import type { TestContext } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { createGuardedFetch } from '../../adapters/guarded-fetch/guarded-fetch.ts';
import { createMcpClients } from '../../adapters/mcp/create-mcp-clients.ts';
import { createOauthClients } from '../../adapters/oauth/create-oauth-clients.ts';
import { createUndiciTransport } from '../../adapters/transport/undici-transport.ts';
import {
  realClock,
  recordingLog,
  RecordingMetrics,
} from '../../core/lifecycle/recording-services.test-support.ts';
import type { McpClients } from '../../core/ports/mcp.ts';

/** Clients that trust these hosts. */
export function trustingClients(t: TestContext, trustedHosts: readonly string[]): McpClients {
  const log = recordingLog([]);
  const transport = createUndiciTransport({ log, clock: realClock, metrics: new RecordingMetrics() });
  t.after(() => transport.close());
  const fetch = createGuardedFetch({ log, clock: realClock, trustedHosts });
  const oauth = createOauthClients({ fetch, clock: realClock });
  return createMcpClients({ log, clock: realClock, transport, oauth, trustedHosts });
}

/** A client of a server behind the gateway, which leaves at the end of the test. */
export async function connected(
  t: TestContext,
  url: string,
  key: string,
  client = new Client({ name: 'test', version: '1' }),
): Promise<Client> {
  t.after(() => client.close());
  const headers = { authorization: `Bearer ${key}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  return client;
}

/** What the tool says of the account in whose name it was called. */
export async function whoami(client: Client, name = 'whoami'): Promise<string> {
  const { content } = (await client.callTool({ name, arguments: {} })) as { content: { text: string }[] };
  return content[0]?.text ?? '';
}
