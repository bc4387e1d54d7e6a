// The yardstick: Node `http` + undici `Pool`, nothing else. Parses both bodies; forwards streams untouched.
// usage: bare.ts <upstream port>. Prints its port; `GET /cpu` tells its CPU time so far.
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { Pool } from 'undici';

const pool = new Pool(`http://127.0.0.1:${process.argv[2] ?? ''}`, { pipelining: 1 });

const server = http.createServer((request, response) => {
  if (request.url === '/cpu') {
    const { user, system } = process.cpuUsage();
    response.end(JSON.stringify({ cpu_us: user + system, rss: process.memoryUsage.rss() }));
    return;
  }
  const parts: Buffer[] = [];
  request.on('data', (part: Buffer) => parts.push(part));
  request.on('end', () => forward(Buffer.concat(parts), request, response));
});

function forward(body: Buffer, request: http.IncomingMessage, response: http.ServerResponse): void {
  const question = JSON.parse(body.toString()) as { stream?: boolean };
  const answer: Buffer[] = [];
  let head: { status: number; type: string } = { status: 502, type: '' };
  pool.dispatch(
    {
      path: request.url ?? '/',
      method: 'POST',
      headers: ['content-type', 'application/json', 'authorization', 'Bearer sk-bench'],
      body,
    },
    {
      onRequestStart() {},
      onResponseStart(_controller, status, headers) {
        head = { status, type: String(headers['content-type']) };
        if (question.stream) response.writeHead(status, ['content-type', head.type]);
      },
      onResponseData(_controller, chunk) {
        if (question.stream) response.write(chunk);
        else answer.push(chunk);
      },
      onResponseEnd() {
        if (question.stream) {
          response.end();
          return;
        }
        const whole = Buffer.concat(answer);
        JSON.parse(whole.toString());
        response.writeHead(head.status, ['content-type', head.type, 'content-length', String(whole.length)]);
        response.end(whole);
      },
      onResponseError(_controller, error) {
        response.destroy(error);
      },
    },
  );
}

server.keepAliveTimeout = 120_000;
server.listen(0, '127.0.0.1', () => console.log(`port ${(server.address() as AddressInfo).port}`));
process.on('disconnect', () => process.exit(0));
