/** A real MCP server for tests (the SDK's) that demands bearer tokens, as RFC 9728 and the protocol say. */
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type { AuthorizationServer, KnownToken } from './authorization-server.ts';

export interface ProtectedMcpOptions {
  /** The path of its endpoint. Default `/mcp`. */
  readonly path?: string;
  /** Describes itself (RFC 9728). Default: where `WWW-Authenticate` says, and at the well-known place. */
  readonly describes?: 'both' | 'challenge' | 'well-known' | 'never';
  /** Scopes that it names, and that tools need. Default: `tickets:read` for all, `tickets:write` for `write`. */
  readonly scopes?: readonly string[];
}

interface ProtectedMcpServer {
  readonly host: string;
  readonly url: string;
  /** Tokens that arrived, in their order; empty for none. */
  readonly tokens: readonly string[];
  /** Headers of the requests of the protocol. */
  readonly headers: readonly http.IncomingHttpHeaders[];
  /** Refuses these tokens from now on. */
  readonly refused: Set<string>;
  close(): void;
}

/** Starts one on 127.0.0.1 for tokens of this authorization server. */
export async function startProtectedMcpServer(
  authority: AuthorizationServer,
  { path = '/mcp', describes = 'both', scopes = ['tickets:read'] }: ProtectedMcpOptions = {},
): Promise<ProtectedMcpServer> {
  const tokens: string[] = [];
  const arrived: http.IncomingHttpHeaders[] = [];
  const refused = new Set<string>();
  const hidden = '/elsewhere/description.json';
  const wellKnown = `/.well-known/oauth-protected-resource${path}`;
  const server = http.createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const url = `http://${host}${path}`;

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const place = request.url ?? '';
    const isDescription =
      (place === wellKnown && (describes === 'both' || describes === 'well-known')) ||
      (place === hidden && describes === 'challenge');
    if (isDescription) {
      const description = {
        resource: url,
        authorization_servers: [authority.issuer],
        scopes_supported: scopes,
      };
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(description));
      return;
    }
    if (place !== path) {
      response.writeHead(404).end();
      return;
    }
    arrived.push(request.headers);
    const token = request.headers.authorization?.replace(/^Bearer /, '') ?? '';
    tokens.push(token);
    const known = refused.has(token) ? undefined : await authority.token(token);
    const metadata = `http://${host}${describes === 'challenge' ? hidden : wellKnown}`;
    const says = describes === 'both' || describes === 'challenge' ? `resource_metadata="${metadata}"` : '';
    const refuse = (status: number, ...parts: readonly string[]) => {
      const challenge = `Bearer ${[...parts, says].filter((one) => one !== '').join(', ')}`;
      response.writeHead(status, { 'www-authenticate': challenge }).end();
    };
    if (known === undefined || known.audience !== url) {
      refuse(401, ...(token === '' ? [] : ['error="invalid_token"']));
      return;
    }
    const message = await bodyOf(request);
    const isWrite = message?.params?.name === 'write';
    const needed = isWrite ? 'tickets:write' : 'tickets:read';
    if (!known.scope.split(' ').includes(needed)) {
      refuse(403, 'error="insufficient_scope"', `scope="${needed}"`);
      return;
    }
    await serve(request, response, message, known);
  };
  return {
    host,
    url,
    tokens,
    headers: arrived,
    refused,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

interface Message {
  readonly params?: { readonly name?: string };
}

async function bodyOf(request: IncomingMessage): Promise<Message | undefined> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString();
  return text === '' ? undefined : (JSON.parse(text) as Message);
}

/** Without sessions: each request has a server of its own, whose tools say in whose name they were called. */
async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  message: Message | undefined,
  known: KnownToken,
): Promise<void> {
  const server = new McpServer({ name: 'tickets', version: '1.0.0' });
  const whoami = () => ({
    content: [{ type: 'text' as const, text: `${known.subject ?? 'nobody'} by ${known.clientId}` }],
  });
  server.registerTool('whoami', { description: 'Says in whose name it is called.' }, whoami);
  server.registerTool('write', { description: 'Needs another scope.' }, whoami);
  const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
  response.on('close', () => void transport.close());
  await server.connect(transport);
  await transport.handleRequest(request, response, message);
}
