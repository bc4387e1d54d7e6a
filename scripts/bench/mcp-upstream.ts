// The MCP server of the bench, a process of its own: fixed answers, as cheap as Node allows. Prints its port.
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { listedTools } from './workload.ts';

const called = {
  content: [{ type: 'text', text: JSON.stringify({ station: 'Vienna', level_cm: 312, flow_m3_s: 1920.5 }) }],
  structuredContent: { station: 'Vienna', level_cm: 312, flow_m3_s: 1920.5 },
  isError: false,
};
const tools = Array.from({ length: listedTools }, (_, index) => ({
  name: `read_gauge_${String(index).padStart(3, '0')}`,
  description: 'Reads level and flow at one station of a river, now or at a time in the past.',
  inputSchema: {
    type: 'object',
    properties: {
      station: { type: 'string', description: 'Name of the station' },
      at: { type: 'string', format: 'date-time', description: 'Default: now' },
    },
    required: ['station'],
  },
}));
const results: Readonly<Record<string, object>> = {
  initialize: {
    protocolVersion: '2025-11-25',
    capabilities: { tools: {} },
    serverInfo: { name: 'bench', version: '1.0.0' },
  },
  'tools/call': called,
  'tools/list': { tools },
};
/** What every result ends with, behind the id. */
const texts = new Map(Object.entries(results).map(([method, result]) => [method, JSON.stringify(result)]));
let sessions = 0;

const server = http.createServer((request, response) => {
  if (request.method === 'GET') {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const params = { level: 'info', data: 'Listening' };
    response.write(
      `data: ${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params })}\n\n`,
    );
    return;
  }
  const parts: Buffer[] = [];
  request.on('data', (part: Buffer) => parts.push(part));
  request.on('end', () => {
    const { id, method = '' } = JSON.parse(Buffer.concat(parts).toString() || '{}') as {
      id?: number;
      method?: string;
    };
    const result = texts.get(method);
    if (id === undefined || result === undefined) {
      response.writeHead(request.method === 'DELETE' ? 200 : 202, ['content-length', '0']).end();
      return;
    }
    const answer = Buffer.from(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`);
    const headers = ['content-type', 'application/json', 'content-length', String(answer.length)];
    if (method === 'initialize')
      headers.push('mcp-session-id', `bench-${String(++sessions).padStart(8, '0')}`);
    response.writeHead(200, headers).end(answer);
  });
});
server.keepAliveTimeout = 120_000;

server.listen(0, '127.0.0.1', () => console.log(`port ${(server.address() as AddressInfo).port}`));
process.on('disconnect', () => process.exit(0));
