import assert from 'node:assert/strict';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { ResponseSink } from './request-and-answer.ts';

/** One answer that a test writes itself, and the bytes that its client gets. */
async function answering(
  t: TestContext,
  length?: string,
): Promise<{ sink: ResponseSink; client: net.Socket; pieces: readonly string[]; got(): string }> {
  const server = http.createServer();
  t.after(() => server.close());
  const asked = new Promise<ResponseSink>((resolve) => {
    server.on('request', (_request, response) => resolve(new ResponseSink(response, 10_000)));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const client = net.connect((server.address() as AddressInfo).port, '127.0.0.1');
  t.after(() => client.destroy());
  const pieces: string[] = [];
  client.on('data', (chunk: Buffer) => pieces.push(chunk.toString('latin1')));
  client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
  const sink = await asked;
  sink.head(200, ['content-type', 'text/plain', ...(length === undefined ? [] : ['content-length', length])]);
  const got = (): string => {
    const text = pieces.join('');
    return text.slice(text.indexOf('\r\n\r\n') + 4);
  };
  return { sink, client, pieces, got };
}

async function until(holds: () => boolean): Promise<void> {
  for (let waited = 0; waited < 5000 && !holds(); waited += 5) await pause(5);
  assert.ok(holds());
}

describe('the way of an answer to its client', () => {
  test('what is written within one turn of the event loop leaves as one chunk, the next turn brings its own', async (t) => {
    const { sink, got } = await answering(t);
    assert.equal(sink.write(Buffer.from('one ')), true);
    assert.equal(sink.write(Buffer.from('two')), true);
    await nextTurn();
    sink.write(Buffer.from('three'));
    await nextTurn();
    sink.write(Buffer.from('four'));
    sink.end();
    await until(() => got().endsWith('0\r\n\r\n'));
    assert.equal(got(), '7\r\none two\r\n5\r\nthree\r\n4\r\nfour\r\n0\r\n\r\n');
  });

  test('a whole answer leaves with its head in one piece, however long it is', async (t) => {
    for (const length of [0, 1, 1000, 16_384, 16_385, 300_000]) {
      const { sink, pieces } = await answering(t, String(length));
      const body = Buffer.alloc(length, 'é', 'latin1');
      sink.end(body);
      const whole = () => pieces.join('').split('\r\n\r\n', 2)[1] ?? '';
      await until(() => pieces.length > 0 && whole().length === length);
      assert.equal(whole(), body.toString('latin1'));
      if (length <= 16_384) assert.equal(pieces.length, 1);
    }
  });

  test('answers to requests that came together leave in their order, to HEAD without a body', async (t) => {
    const server = http.createServer();
    t.after(() => server.close());
    const sinks: ResponseSink[] = [];
    server.on('request', (_request, response) => sinks.push(new ResponseSink(response, 10_000)));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const client = net.connect((server.address() as AddressInfo).port, '127.0.0.1');
    t.after(() => client.destroy());
    let text = '';
    client.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
    const ask = (method: string): string => `${method} / HTTP/1.1\r\nhost: x\r\n\r\n`;
    client.write(ask('GET') + ask('HEAD') + ask('GET') + ask('GET'));
    await until(() => sinks.length === 4);
    for (const [i, body] of [...['one', 'head', 'three', 'four'].entries()].reverse()) {
      sinks[i]!.head(200, ['content-length', String(body.length)]);
      sinks[i]!.end(Buffer.from(body));
      await nextTurn();
    }
    await until(() => text.endsWith('four'));
    assert.deepEqual(text.split(/HTTP\/1\.1 200 OK[^]*?\r\n\r\n/).slice(1), ['one', '', 'three', 'four']);
  });

  test('chunks of every length are framed with it', async (t) => {
    const { sink, got } = await answering(t);
    const lengths = [1, 9, 10, 15, 16, 255, 256, 4095, 4096, 8191, 8192, 8193];
    for (const length of lengths) {
      sink.write(Buffer.alloc(length, 0x61));
      await nextTurn();
    }
    sink.end();
    await until(() => got().endsWith('0\r\n\r\n'));
    const frames = lengths.map((length) => `${length.toString(16)}\r\n${'a'.repeat(length)}\r\n`);
    assert.equal(got(), `${frames.join('')}0\r\n\r\n`);
  });

  test('what was written before a cut still leaves', async (t) => {
    const { sink, client, got } = await answering(t);
    const closed = new Promise((resolve) => client.once('close', resolve));
    sink.write(Buffer.from('all that there was'));
    sink.cut(Buffer.from('!'));
    await closed;
    assert.equal(got(), '12\r\nall that there was\r\n1\r\n!\r\n');
  });

  test('a client that takes nothing is told of within a turn, and of its room again', async (t) => {
    const { sink, client, got } = await answering(t);
    client.pause();
    const piece = Buffer.alloc(32 * 1024, 'x');
    let written = 0;
    let drains = 0;
    sink.onDrain(() => drains++);
    // All at once: what comes within one turn has its bound.
    while (sink.write(piece) && written < 2000) written++;
    assert.ok(written < 2000, `${written} pieces were taken from a client that reads nothing`);
    assert.equal(drains, 0);
    client.resume();
    await until(() => drains > 0);
    assert.equal(sink.write(Buffer.from('more')), true);
    sink.end();
    await until(() => got().endsWith('more\r\n0\r\n\r\n'));
  });

  for (const length of [1, 700, 16 * 1024, 16 * 1024 + 1]) {
    test(`a whole answer of ${length} bytes leaves as it is, whatever its bytes`, async (t) => {
      const { sink, got } = await answering(t, String(length));
      const bytes = Buffer.from(Array.from({ length }, (_, index) => 255 - (index % 256)));
      sink.end(bytes);
      await until(() => got().length >= length);
      assert.ok(Buffer.from(got(), 'latin1').equals(bytes));
    });
  }

  test('a client that has left before anybody looked at its request is told of', async (t) => {
    const server = http.createServer();
    t.after(() => server.close());
    const asked = new Promise<http.ServerResponse>((resolve) => {
      server.on('request', (_request, response) => resolve(response));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const client = net.connect((server.address() as AddressInfo).port, '127.0.0.1');
    client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    const response = await asked;
    client.destroy();
    await until(() => response.destroyed);
    const told = await new Promise((resolve) => new ResponseSink(response, 10_000).onClose(resolve));
    assert.equal(told, false);
  });

  test('nothing is written after the client has gone', async (t) => {
    const { sink, client } = await answering(t);
    let complete: boolean | undefined;
    sink.onClose((whole) => (complete = whole));
    sink.write(Buffer.from('first'));
    client.destroy();
    await until(() => complete !== undefined);
    assert.equal(complete, false);
    sink.write(Buffer.from('late'));
    await nextTurn();
    sink.end();
  });
});
