import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { Channel } from './channel.ts';

interface Offered {
  add: (a: number, b: number) => number;
  size: (bytes: Uint8Array) => number;
  echo: (value: unknown) => unknown;
  fail: (kind: string) => never;
  never: () => Promise<void>;
  [name: string]: (...args: never[]) => unknown;
}

const offered: Offered = {
  add: (a, b) => a + b,
  size: (bytes) => bytes.length,
  echo: (value) => value,
  fail: (kind) => {
    if (kind === 'gateway')
      throw new GatewayError('rate_limited', 'Too many.', { headers: ['retry-after', '3'], param: 'model' });
    throw new TypeError('no such thing');
  },
  never: () => new Promise(() => undefined),
};

/** Both ends of a connection; the far one offers the functions above. */
async function pair(t: TestContext): Promise<{ near: Channel<Offered>; far: Channel<Offered>; raw: Socket }> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const raw = connect(port, '127.0.0.1');
  const [socket] = (await once(server, 'connection')) as [Socket];
  t.after(() => {
    raw.destroy();
    socket.destroy();
    server.close();
  });
  return { near: new Channel<Offered>(raw, {}), far: new Channel<Offered>(socket, offered), raw };
}

test('calls answer in any number, with values of any kind, and large ones whole', async (t) => {
  const { near } = await pair(t);
  const sums = await Promise.all(Array.from({ length: 500 }, (_, i) => near.call('add', i, 1)));
  assert.deepEqual(
    sums,
    Array.from({ length: 500 }, (_, i) => i + 1),
  );
  const value = { map: new Map([['a', 1]]), none: undefined, at: new Date(0), bytes: new Uint8Array([1, 2]) };
  assert.deepEqual(structuredClone(await near.call('echo', value)), value);
  assert.equal(await near.call('size', new Uint8Array(20 * 1024 * 1024)), 20 * 1024 * 1024);
});

test('an error of the gateway arrives as one, with its headers; any other keeps its name and sentence', async (t) => {
  const { near } = await pair(t);
  const error: unknown = await near.call('fail', 'gateway').catch((reason: unknown) => reason);
  assert.ok(GatewayError.is(error));
  assert.deepEqual([error.code, error.status, error.param], ['rate_limited', 429, 'model']);
  assert.deepEqual(error.headers, ['retry-after', '3']);
  await assert.rejects(near.call('fail', 'other'), { name: 'TypeError', message: 'no such thing' });
  await assert.rejects(near.call('missing'), /no function missing/);
});

test('calls in flight fail with store_unavailable when the other process ends, and so do later ones', async (t) => {
  const { near, far } = await pair(t);
  const waiting = near.call('never');
  await near.call('add', 1, 1);
  far.close();
  await assert.rejects(waiting, { code: 'store_unavailable' });
  await near.closed;
  await assert.rejects(near.call('add', 1, 1), { code: 'store_unavailable' });
});

test('a message that is announced larger than any may be ends the connection', async (t) => {
  const { near, far, raw } = await pair(t);
  const head = Buffer.alloc(8);
  head.writeUInt32LE(0xffffffff);
  raw.write(head);
  await far.closed;
  await near.closed;
});
