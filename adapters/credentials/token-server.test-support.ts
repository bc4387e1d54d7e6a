import http from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import type { Clock } from '../../core/ports/clock.ts';
import type { SignableRequest } from '../../core/ports/credentials.ts';
import { testTransport } from '../transport/transport.test-support.ts';
import { createHttpTokenFetch } from './http-token-fetch.ts';
import type { TokenFetch } from './credential-context.ts';

interface TokenCall {
  readonly method: string;
  readonly url: string;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
}

export type Answer = (
  call: TokenCall,
  count: number,
) => { readonly status?: number; readonly body: string | object };

/** A token endpoint on loopback, and a fetch over a real transport. Both end with the test. */
export async function tokenServer(t: TestContext, clock: Clock, answer: Answer) {
  const calls: TokenCall[] = [];
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      const call = { method, url, headers, body: Buffer.concat(chunks).toString() };
      calls.push(call);
      const { status = 200, body } = answer(call, calls.length);
      response.writeHead(status).end(typeof body === 'string' ? body : JSON.stringify(body));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const transport = testTransport();
  t.after(async () => {
    await transport.close();
    server.closeAllConnections();
    server.close();
  });
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const fetch: TokenFetch = createHttpTokenFetch({ transport, clock });
  return { origin, calls, transport, fetch };
}

/** A request to authorize; its content matters to signatures only. */
export const request: SignableRequest = {
  method: 'POST',
  origin: 'https://bedrock-runtime.us-east-1.amazonaws.com',
  path: '/model/m/converse',
  headers: ['content-type', 'application/json'],
  body: Buffer.from('{}'),
};
