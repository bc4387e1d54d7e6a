// Bytes beyond the gateway's bound wait where they come from.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import type { Writable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { begin } from '../kit/http-kit.ts';
import { ownerKey, startWeir, stopEverything, type WeirProcess } from '../kit/process-kit.ts';

const piece = randomBytes(1 << 20);
const pieces = 128;
/** Two connections' buffers in the system, four streams' in processes; what is held beyond that grows with the body. */
const heldAtMost = 48;
const quietMs = 300;

const headers = { 'x-service-api-key': ownerKey, 'content-type': 'application/octet-stream' };
const whole = createHash('sha256');
for (let at = 0; at < pieces; at++) whole.update(piece);
const sha256 = whole.digest('hex');

let weir: WeirProcess;
let provider: http.Server;
let serve: (message: IncomingMessage, response: ServerResponse) => void;

before(async () => {
  provider = http.createServer((message, response) => serve(message, response));
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve));
  const base_url = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
  weir = await startWeir({
    yaml: {
      version: 1,
      storage: { analytics: { url: 'none:' } },
      providers: { plain: { base_url, credentials: 'none' } },
      pipelines: [
        {
          name: 'gateway',
          match: { path: '/**' },
          plugins: ['auth', { provider: { default: 'plain' } }, { logger: { bodies: true } }],
        },
      ],
    },
  });
});
after(async () => {
  await stopEverything();
  provider.close();
  provider.closeAllConnections();
});

/** Writes pieces until all are written or nothing more is taken; resolves with how many went. */
async function writeUntilQuiet(sink: Writable, from: number): Promise<number> {
  for (let written = from; written < pieces;) {
    const accepted = sink.write(piece);
    written += 1;
    if (accepted) continue;
    const drained = once(sink, 'drain').then(() => true);
    if (!(await Promise.race([drained, pause(quietMs, false)]))) return written;
  }
  return pieces;
}

async function writeRest(sink: Writable, from: number): Promise<void> {
  if (from > 0 && sink.writableNeedDrain) await once(sink, 'drain');
  for (let written = from; written < pieces; written += 1) if (!sink.write(piece)) await once(sink, 'drain');
  sink.end();
}

async function read(stream: IncomingMessage): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of stream as AsyncIterable<Buffer>) hash.update(chunk);
  return hash.digest('hex');
}

test('an upload waits for a provider that does not read', async () => {
  const arrived = new Promise<[IncomingMessage, ServerResponse]>((resolve) => {
    serve = (...exchange) => resolve(exchange);
  });
  const request = http.request(`${weir.url}/v1/uploads`, {
    method: 'POST',
    headers: { ...headers, 'content-length': pieces * piece.length },
  });
  const responded = once(request, 'response') as Promise<[IncomingMessage]>;
  const sent = await writeUntilQuiet(request, 0);
  assert.ok(sent < heldAtMost, `${sent} MiB of ${pieces} were taken although nobody read them`);
  const [message, response] = await arrived;
  const received = read(message).then((digest) => response.end(digest));
  await writeRest(request, sent);
  await received;
  assert.equal(await bodyOf((await responded)[0]), sha256);
});

test('a download waits for a client that does not read', async () => {
  let sent = 0;
  const quiet = new Promise<ServerResponse>((resolve) => {
    serve = (_, response) => {
      response.writeHead(200, { 'content-type': 'application/octet-stream' });
      void writeUntilQuiet(response, 0).then((count) => {
        sent = count;
        resolve(response);
      });
    };
  });
  const { response } = await begin(weir.url, { path: '/v1/files/f/content', headers });
  const upstream = await quiet;
  assert.ok(sent < heldAtMost, `${sent} MiB of ${pieces} were taken although nobody read them`);
  const digest = read(response);
  await writeRest(upstream, sent);
  assert.equal(await digest, sha256);
});

async function bodyOf(response: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of response as AsyncIterable<Buffer>) text += chunk.toString();
  return text;
}
