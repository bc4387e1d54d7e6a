import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { BodyReader, statusOfCode } from './http-server.ts';
import { EngineError } from './statement.ts';

const reader = new BodyReader({ maxBytes: 1000, maxTotalBytes: 1500 });
let release: (() => void) | undefined;
let held: () => void = () => undefined;
const server = createServer((request, response) => {
  reader
    .withBody(request, async (body) => {
      if (request.url === '/hold') {
        await new Promise<void>((resolve) => {
          release = resolve;
          held();
        });
      }
      response.end(String(body.length));
    })
    .catch((error: unknown) => {
      response.statusCode = error instanceof EngineError ? statusOfCode(error.engineCode) : 500;
      response.end();
    });
});
let url = '';
before(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});

const post = (body: Uint8Array, encoding = 'identity', path = '/'): Promise<Response> =>
  fetch(url + path, { method: 'POST', body, headers: { 'content-encoding': encoding } });

test('plain and gzip bodies arrive whole', async () => {
  assert.equal(await (await post(Buffer.alloc(1000))).text(), '1000');
  assert.equal(await (await post(gzipSync(Buffer.alloc(1000)), 'gzip')).text(), '1000');
});

test('the bound holds for decoded bytes', async () => {
  assert.equal((await post(Buffer.alloc(1001))).status, 413);
  assert.equal((await post(gzipSync(Buffer.alloc(1_000_000)), 'gzip')).status, 413);
});

test('other encodings and broken gzip are refused', async () => {
  assert.equal((await post(Buffer.from('x'), 'br')).status, 500);
  assert.equal((await post(Buffer.from('no gzip'), 'gzip')).status, 500);
});

test('all bodies together are bounded, and freed bytes can be used again', async () => {
  const isHeld = new Promise<void>((resolve) => (held = resolve));
  const holding = post(Buffer.alloc(1000), 'identity', '/hold');
  await isHeld;
  assert.equal((await post(Buffer.alloc(900))).status, 503);
  assert.equal((await post(Buffer.alloc(400))).status, 200);
  release?.();
  assert.equal((await holding).status, 200);
  assert.equal((await post(Buffer.alloc(900))).status, 200);
});
