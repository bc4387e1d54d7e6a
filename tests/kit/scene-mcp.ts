/** An MCP server, made with the protocol's own library, whose tools do what tests need. */
import { spawn } from 'node:child_process';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SubscribeRequestSchema, UnsubscribeRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';

const said = (value: unknown) => ({ content: [{ type: 'text' as const, text: String(value) }] });

/** The address of the one resource. */
const counterUri = 'counter://value';

/** A new server, which is not connected yet. */
export function sceneMcp(): McpServer {
  const server = new McpServer(
    { name: 'scenes', version: '1.0.0' },
    { capabilities: { logging: {}, resources: { subscribe: true }, tools: { listChanged: true } } },
  );
  const events: string[] = [];
  addTalk(server, events);
  addQuestions(server);
  addTrouble(server);
  return server;
}

/** Tools that answer, report, are cancelled and notify. */
function addTalk(server: McpServer, events: string[]): void {
  server.registerTool('echo', { inputSchema: { text: z.string() } }, ({ text }) => said(text));
  server.registerTool('pid', {}, () => said(process.pid));
  server.registerTool('env', {}, () => said(JSON.stringify(process.env)));
  server.registerTool('events', {}, () => said(events.join(' ')));
  server.registerTool('count', { inputSchema: { to: z.number() } }, async ({ to }, extra) => {
    const { progressToken } = extra._meta ?? {};
    for (let progress = 1; progress <= to && progressToken !== undefined; progress += 1) {
      await extra.sendNotification({
        method: 'notifications/progress',
        params: { progressToken, progress, total: to },
      });
    }
    return said(`counted to ${to}`);
  });
  server.registerTool('wait', { inputSchema: { name: z.string() } }, async ({ name }, extra) => {
    const { signal, _meta } = extra;
    events.push(`${name}:waits`);
    const { progressToken } = _meta ?? {};
    const params = progressToken === undefined ? undefined : { progressToken, progress: 1 };
    if (params !== undefined) await extra.sendNotification({ method: 'notifications/progress', params });
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    events.push(`${name}:cancelled`);
    return said('cancelled');
  });
  server.registerTool('say', { inputSchema: { text: z.string() } }, async ({ text }) => {
    await server.sendLoggingMessage({ level: 'info', data: text });
    return said('said');
  });
  server.registerTool('grow', { inputSchema: { name: z.string() } }, ({ name }) => {
    server.registerTool(name, {}, () => said(name));
    return said('grown');
  });
  server.registerResource('value', counterUri, {}, () => ({ contents: [{ uri: counterUri, text: '1' }] }));
  server.registerTool('touch', {}, async () => {
    await server.server.sendResourceUpdated({ uri: counterUri });
    return said('touched');
  });
  server.server.setRequestHandler(SubscribeRequestSchema, ({ params }) => {
    events.push(`subscribe:${params.uri}`);
    return {};
  });
  server.server.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => {
    events.push(`unsubscribe:${params.uri}`);
    return {};
  });
}

/** Tools that ask the client. */
function addQuestions(server: McpServer): void {
  server.registerTool('ask', { inputSchema: { question: z.string() } }, async ({ question }) => {
    const { content } = await server.server.createMessage({
      messages: [{ role: 'user', content: { type: 'text', text: question } }],
      maxTokens: 10,
    });
    return said(JSON.stringify(content));
  });
  server.registerTool('confirm', {}, async () => {
    const { action, content } = await server.server.elicitInput({
      message: 'Sure?',
      requestedSchema: { type: 'object', properties: { sure: { type: 'boolean' } } },
    });
    return said(`${action} ${JSON.stringify(content)}`);
  });
  server.registerTool('roots', {}, async () => {
    const asked = await server.server.listRoots().catch((error: unknown) => String(error));
    return said(JSON.stringify(asked));
  });
  server.registerTool('raw', { inputSchema: { method: z.string() } }, async ({ method }) => {
    const request = { method, params: {} };
    const asked = await server.server
      .request(request, z.looseObject({}))
      .catch((error: unknown) => String(error));
    return said(JSON.stringify(asked));
  });
}

/** Tools that do what no server should. */
function addTrouble(server: McpServer): void {
  server.registerTool('big', { inputSchema: { bytes: z.number() } }, ({ bytes }) => said('x'.repeat(bytes)));
  server.registerTool('flood', { inputSchema: { messages: z.number(), bytes: z.number() } }, async (args) => {
    for (let i = 0; i < args.messages; i += 1) {
      await server.sendLoggingMessage({ level: 'info', data: `${i}:${'x'.repeat(args.bytes)}` });
    }
    return said('flooded');
  });
  server.registerTool('print', { inputSchema: { text: z.string() } }, ({ text }) => {
    process.stdout.write(text);
    return said('printed');
  });
  server.registerTool('complain', { inputSchema: { text: z.string(), times: z.number() } }, (args) => {
    for (let i = 0; i < args.times; i += 1) process.stderr.write(`${args.text}\n`);
    return said('complained');
  });
  server.registerTool('exit', { inputSchema: { code: z.number() } }, ({ code }) => process.exit(code));
  server.registerTool('descend', {}, () => {
    // Holds the standard output open, and does not care for the end of the server.
    const child = spawn(
      process.execPath,
      ['-e', 'process.on("SIGTERM", () => 0); setInterval(() => 0, 1e6)'],
      {
        stdio: ['ignore', 'inherit', 'inherit'],
      },
    );
    return said(child.pid);
  });
}
