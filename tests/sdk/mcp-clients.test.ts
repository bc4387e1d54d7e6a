// Official MCP clients, with the address as the only change: what they see of a server is the same through the gateway.
import { createMCPClient } from '@ai-sdk/mcp';
import {
  Client as NewClient,
  StreamableHTTPClientTransport as NewTransport,
} from '@modelcontextprotocol/client';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { CreateMessageRequestSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { MCPServerSSE, MCPServerStreamableHttp } from '@openai/agents-core';
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createMcpClients } from '../../adapters/mcp/create-mcp-clients.ts';
import { silentLog } from '../../adapters/transport/transport.test-support.ts';
import { createUndiciTransport } from '../../adapters/transport/undici-transport.ts';
import { RecordingMetrics } from '../../core/lifecycle/recording-services.test-support.ts';
import { systemClock } from '../../core/ports/clock.ts';
import auth from '../../plugins/auth/index.ts';
import mcp from '../../plugins/mcp/index.ts';
import { startTestGateway } from '../kit/gateway-kit.ts';
import { startConformanceServer } from '../mcp/conformance-server.ts';
import { failureOf, serviceKey } from './sdk-setting.ts';

/** What a client does in one session; undefined for what it cannot do. */
interface Session {
  tools(): Promise<readonly string[]>;
  /** The result as the client shows it. */
  call(name: string, args?: Record<string, unknown>): Promise<unknown>;
  /** Values that were told while the tool ran. */
  progress?(name: string): Promise<readonly number[]>;
  resources(): Promise<readonly string[]>;
  read(uri: string): Promise<unknown>;
  prompts?(): Promise<readonly string[]>;
  prompt?(name: string, args: Record<string, string>): Promise<unknown>;
  /** A tool that is not there. */
  missing(): Promise<unknown>;
  close(): Promise<unknown>;
}

type Connect = (url: string, headers: Record<string, string>) => Promise<Session>;

interface KnownClient {
  readonly name: string;
  readonly transport: 'http' | 'sse';
  readonly connect: Connect;
  /** Whether it answers questions of tools: a form and a model. */
  readonly answers?: boolean;
}

const names = (list: readonly { readonly name?: string }[]): readonly string[] =>
  list.map(({ name = '' }) => name);
/** The Inspector's command line is published as a part of a larger package, whose manifest it looks for. */
const loader = dataUrl(`
  import { register } from 'node:module';
  register(${JSON.stringify(
    dataUrl(`export const resolve = (name, context, next) =>
      next(name === '../../package.json' ? '../package.json' : name, context);`),
  )});
`);
const program = fileURLToPath(import.meta.resolve('@modelcontextprotocol/inspector-cli/build/index.js'));
const execute = promisify(execFile);

function dataUrl(code: string): string {
  return `data:text/javascript,${encodeURIComponent(code)}`;
}

/** The SDK's client, which also answers what servers ask. */
async function officialSession(transport: Transport): Promise<Session> {
  const client = new Client(
    { name: 'test', version: '1.0.0' },
    { capabilities: { sampling: {}, elicitation: {} } },
  );
  client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => ({
    role: 'assistant',
    model: 'of-the-client',
    content: { type: 'text', text: `An answer to ${JSON.stringify(params.messages)}` },
  }));
  client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: { response: 'Yes' } }));
  await client.connect(transport);
  return {
    tools: async () => names((await client.listTools()).tools),
    call: (name, args) => client.callTool({ name, arguments: args }),
    async progress(name) {
      const heard: number[] = [];
      await client.callTool({ name }, undefined, { onprogress: ({ progress }) => heard.push(progress) });
      return heard;
    },
    resources: async () => names((await client.listResources()).resources),
    read: (uri) => client.readResource({ uri }),
    prompts: async () => names((await client.listPrompts()).prompts),
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    missing: () => client.callTool({ name: 'missing' }),
    close: () => client.close(),
  };
}

/** The SDK of the newest version of the protocol, which has no sessions. */
async function newestSession(url: string, headers: Record<string, string>): Promise<Session> {
  const client = new NewClient(
    { name: 'test', version: '1.0.0' },
    { versionNegotiation: { mode: { pin: '2026-07-28' } } },
  );
  await client.connect(new NewTransport(new URL(url), { requestInit: { headers } }));
  return {
    tools: async () => names((await client.listTools()).tools),
    call: (name, args) => client.callTool({ name, ...(args && { arguments: args }) }),
    async progress(name) {
      const heard: number[] = [];
      await client.callTool({ name }, { onprogress: ({ progress }) => heard.push(progress) });
      return heard;
    },
    resources: async () => names((await client.listResources()).resources),
    read: (uri) => client.readResource({ uri }),
    prompts: async () => names((await client.listPrompts()).prompts),
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    missing: () => client.callTool({ name: 'missing' }),
    close: () => client.close(),
  };
}

/** Vercel's AI SDK. */
async function aiSession(
  type: 'http' | 'sse',
  url: string,
  headers: Record<string, string>,
): Promise<Session> {
  const client = await createMCPClient({ transport: { type, url, headers } });
  return {
    tools: async () => Object.keys(await client.tools()),
    async call(name, args = {}) {
      const tool = (await client.tools())[name];
      assert.ok(tool);
      return await tool.execute(args, { toolCallId: '1', messages: [], context: {} });
    },
    resources: async () => names((await client.listResources()).resources),
    read: (uri) => client.readResource({ uri }),
    prompts: async () => names((await client.listPrompts()).prompts),
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    missing: () => client.callTool({ name: 'missing' }),
    close: () => client.close(),
  };
}

/** OpenAI's Agents SDK. */
async function agentsSession(server: MCPServerStreamableHttp | MCPServerSSE): Promise<Session> {
  await server.connect();
  return {
    tools: async () => names(await server.listTools()),
    call: (name, args = {}) => server.callToolResult(name, args),
    resources: async () => names((await server.listResources()).resources),
    read: (uri) => server.readResource(uri),
    missing: () => server.callToolResult('missing', {}),
    close: () => server.close(),
  };
}

/** The Inspector's command line: a process and a session for each question. */
function inspectorSession(
  transport: 'http' | 'sse',
  url: string,
  headers: Record<string, string>,
): Promise<Session> {
  const ask = async (method: string, ...args: string[]): Promise<any> => {
    const given = Object.entries(headers).flatMap(([name, value]) => ['--header', `${name}: ${value}`]);
    const { stdout } = await execute(
      process.execPath,
      ['--import', loader, program, url, '--transport', transport, '--method', method, ...args, ...given],
      { timeout: 60_000 },
    );
    return JSON.parse(stdout);
  };
  return Promise.resolve({
    tools: async () => names((await ask('tools/list')).tools),
    call: (name: string, args = {}) =>
      ask(
        'tools/call',
        '--tool-name',
        name,
        ...Object.entries(args).flatMap(([key, value]) => ['--tool-arg', `${key}=${String(value)}`]),
      ),
    resources: async () => names((await ask('resources/list')).resources),
    read: (uri: string) => ask('resources/read', '--uri', uri),
    prompts: async () => names((await ask('prompts/list')).prompts),
    prompt: (name: string, args: Record<string, string>) =>
      ask(
        'prompts/get',
        '--prompt-name',
        name,
        ...Object.entries(args).flatMap(([key, value]) => ['--prompt-args', `${key}=${value}`]),
      ),
    missing: () => ask('tools/call', '--tool-name', 'missing'),
    close: () => Promise.resolve(),
  });
}

const clients: readonly KnownClient[] = [
  {
    name: 'the SDK’s client over Streamable HTTP',
    transport: 'http',
    answers: true,
    connect: (url, headers) =>
      officialSession(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } })),
  },
  {
    name: 'the SDK’s client over the older transport',
    transport: 'sse',
    answers: true,
    connect: (url, headers) =>
      officialSession(new SSEClientTransport(new URL(url), { requestInit: { headers } })),
  },
  { name: 'the client of SDK 2, without sessions', transport: 'http', connect: newestSession },
  {
    name: 'the AI SDK over Streamable HTTP',
    transport: 'http',
    connect: (url, headers) => aiSession('http', url, headers),
  },
  {
    name: 'the AI SDK over the older transport',
    transport: 'sse',
    connect: (url, headers) => aiSession('sse', url, headers),
  },
  {
    name: 'OpenAI Agents over Streamable HTTP',
    transport: 'http',
    connect: (url, headers) =>
      agentsSession(new MCPServerStreamableHttp({ url, requestInit: { headers }, errorFunction: null })),
  },
  {
    name: 'OpenAI Agents over the older transport',
    transport: 'sse',
    connect: (url, headers) =>
      agentsSession(new MCPServerSSE({ url, requestInit: { headers }, errorFunction: null })),
  },
  {
    name: 'the Inspector’s command line over Streamable HTTP',
    transport: 'http',
    connect: (url, headers) => inspectorSession('http', url, headers),
  },
  {
    name: 'the Inspector’s command line over the older transport',
    transport: 'sse',
    connect: (url, headers) => inspectorSession('sse', url, headers),
  },
];

/** All that the client can see of the server. */
async function seenBy({ connect, answers }: KnownClient, url: string, headers: Record<string, string>) {
  const session = await connect(url, headers);
  const seen = {
    tools: await session.tools(),
    text: await session.call('test_simple_text'),
    mixed: await session.call('test_multiple_content_types'),
    // Some clients throw for it, others show it.
    failing: await session.call('test_error_handling').catch(String),
    missing: await session.missing().catch((error: unknown) => Object(error).name as unknown),
    progress: await session.progress?.('test_tool_with_progress'),
    form: answers && (await session.call('test_elicitation', { message: 'Shall I?' })),
    model: answers && (await session.call('test_sampling', { prompt: 'Well?' })),
    resources: await session.resources(),
    read: await session.read('test://static-text'),
    prompts: await session.prompts?.(),
    prompt: await session.prompt?.('test_prompt_with_arguments', { arg1: 'a', arg2: 'b' }),
  };
  await session.close();
  return seen;
}

async function start(t: TestContext) {
  const reference = await startConformanceServer();
  t.after(() => reference.close());
  const ways = createUndiciTransport({ log: silentLog, clock: systemClock, metrics: new RecordingMetrics() });
  t.after(() => ways.close());
  const gateway = await startTestGateway(t, {
    mcp: createMcpClients({ log: silentLog, clock: systemClock, transport: ways, trustedHosts: [] }),
    plugins: [
      { plugin: auth, options: { keys: [{ name: 'agent', key: serviceKey, scopes: ['mcp.invoke'] }] } },
      { plugin: mcp, options: { servers: { reference: { url: reference.url } } } },
    ],
  });
  return { reference, gateway };
}

for (const client of clients) {
  const { name, transport, connect, answers = false } = client;
  test(`${name} sees the same through the gateway`, async (t) => {
    const { reference, gateway } = await start(t);
    const direct = await seenBy(client, transport === 'http' ? reference.url : reference.sseUrl, {});
    assert.ok(direct.tools.includes('test_simple_text'), JSON.stringify(direct));
    assert.match(JSON.stringify(direct.text), /This is a simple text response/);
    assert.match(JSON.stringify(direct.failing), /intentionally returns an error/);
    assert.match(JSON.stringify(direct.read), /content of the static text resource/);
    if (direct.progress) assert.deepEqual(direct.progress, [0, 50, 100]);
    if (answers) {
      assert.match(JSON.stringify(direct.form), /action=accept/);
      assert.match(JSON.stringify(direct.model), /An answer to/);
    }
    const path = transport === 'http' ? 'mcp' : 'sse';
    const through = await seenBy(client, `${gateway.url}/reference/${path}`, {
      'x-service-api-key': serviceKey,
    });
    assert.deepEqual(through, direct);
  });

  test(`${name} is told that a key is missing`, async (t) => {
    const { gateway } = await start(t);
    const path = transport === 'http' ? 'mcp' : 'sse';
    const error = await failureOf(
      connect(`${gateway.url}/reference/${path}`, {}).then((session) => session.tools()),
    );
    assert.match(error.message, /key|401|Unauthorized/i);
  });
}

test('a key is taken as a bearer token as well', async (t) => {
  const { gateway } = await start(t);
  const session = await clients[0]?.connect(`${gateway.url}/reference/mcp`, {
    authorization: `Bearer ${serviceKey}`,
  });
  assert.ok((await session?.tools())?.includes('test_simple_text'));
  await session?.close();
});
