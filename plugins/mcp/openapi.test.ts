import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { createMcpClients } from '../../adapters/mcp/create-mcp-clients.ts';
import { createUndiciTransport } from '../../adapters/transport/undici-transport.ts';
import {
  realClock,
  recordingLog,
  RecordingMetrics,
} from '../../core/lifecycle/recording-services.test-support.ts';
import { startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import auth from '../auth/index.ts';
import logger from '../logger/index.ts';
import mcp from './index.ts';

describe('an HTTP API among the MCP servers', () => {
  test('a client of the SDK calls its operations through the gateway, and the key of the client stays there', async (t) => {
    const received: unknown[] = [];
    const api = createServer((request, response) => {
      response.setHeader('content-type', 'application/json');
      if (request.url === '/openapi.json') {
        const parameters = [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }];
        const paths = {
          '/tickets/{id}': {
            get: { operationId: 'readTicket', parameters },
            delete: { operationId: 'closeTicket', parameters },
          },
        };
        response.end(
          JSON.stringify({
            openapi: '3.1.0',
            info: { title: 'Tickets', version: '3' },
            servers: [{ url: '/v1' }],
            paths,
          }),
        );
        return;
      }
      received.push([request.method, request.url, request.headers.authorization]);
      response.end('{"state":"open"}');
    });
    await new Promise<void>((resolve) => api.listen(0, '127.0.0.1', resolve));
    const origin = `http://127.0.0.1:${(api.address() as AddressInfo).port}`;
    const log = recordingLog([]);
    const transport = createUndiciTransport({ log, clock: realClock, metrics: new RecordingMetrics() });
    const client = new Client({ name: 'test', version: '1' });
    t.after(async () => {
      await client.close();
      await transport.close();
      api.close();
    });
    const tickets = {
      openapi: { document: `${origin}/openapi.json`, exclude: ['DELETE *'] },
      headers: { authorization: 'Bearer of-the-api' },
    };
    const gateway = await startTestGateway(t, {
      plugins: [auth, { plugin: mcp, options: { servers: { tickets } } }, logger],
      mcp: createMcpClients({ log, clock: realClock, transport, trustedHosts: [] }),
      keys: { ann: testKey({ id: 'ann', scopes: ['mcp.invoke'] }) },
    });
    const requestInit = { headers: { authorization: 'Bearer ann' } };
    await client.connect(
      new StreamableHTTPClientTransport(new URL(`${gateway.url}/tickets/mcp`), { requestInit }),
    );
    assert.deepEqual(client.getServerVersion(), { name: 'Tickets', version: '3' });
    const { tools } = await client.listTools();
    assert.deepEqual(
      tools.map(({ name }) => name),
      ['readTicket'],
    );
    const result = await client.callTool({ name: 'readTicket', arguments: { id: 'a/b' } });
    assert.deepEqual(result.structuredContent, { state: 'open' });
    assert.deepEqual(received, [['GET', '/v1/tickets/a%2Fb', 'Bearer of-the-api']]);
  });
});
