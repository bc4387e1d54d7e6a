import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import zlib from 'node:zlib';
import { GatewayError } from '../errors/gateway-error.ts';
import { decodedSource, type StreamTarget } from './answer.ts';

/** A source that the test feeds, under a decoder, with what came out of it. */
function bench(room: () => boolean = () => true) {
  const calls: string[] = [];
  const received: Buffer[] = [];
  let input: StreamTarget | undefined;
  let end: (error: GatewayError | undefined) => void = () => undefined;
  const ended = new Promise<GatewayError | undefined>((resolve) => (end = resolve));
  const source = decodedSource(
    {
      pipe: (target) => void (input = target),
      resume: () => void calls.push('resume'),
      cancel: (error) => void calls.push(`cancel ${error.code}`),
    },
    'gzip',
  );
  source.pipe({
    data(chunk) {
      received.push(chunk);
      return room();
    },
    end: () => end(undefined),
    fail: (error) => end(error),
  });
  const feed = input;
  assert.ok(feed);
  return { source, feed, calls, ended, text: () => Buffer.concat(received).toString() };
}

const text = 'some text '.repeat(100_000);
const packed = zlib.gzipSync(text, { level: 0 });

describe('a decoded stream', () => {
  test('ends after its last byte', async () => {
    const { feed, ended, text: received } = bench();
    for (let at = 0; at < packed.length; at += 1000) feed.data(packed.subarray(at, at + 1000));
    feed.end();
    assert.equal(await ended, undefined);
    assert.equal(received(), text);
  });

  test('back-pressure passes through it, both ways', async () => {
    let open = false;
    const { source, feed, calls, ended, text: received } = bench(() => open);
    const turns = async (count: number): Promise<void> => {
      for (let i = 0; i < count; i++) await new Promise((resolve) => setTimeout(resolve, 1));
    };
    let at = 0;
    let asked = 0;
    for (;;) {
      const room = feed.data(packed.subarray(at, (at += 16_384)));
      await turns(20);
      if (!room && calls.length === asked) break;
      asked = calls.length;
    }
    assert.ok(at < packed.length / 2, 'the source was never paused');
    const before = received().length;
    assert.ok(before < 200_000);
    open = true;
    source.resume();
    while (calls.length === asked) await turns(1);
    feed.data(packed.subarray(at));
    feed.end();
    assert.equal(await ended, undefined);
    assert.equal(received(), text);
  });

  test('broken bytes cancel the source and fail the target', async () => {
    const { feed, calls, ended } = bench();
    feed.data(Buffer.from('nonsense'));
    assert.equal((await ended)?.code, 'upstream_invalid');
    assert.deepEqual(calls, ['cancel upstream_invalid']);
  });

  test('a torn end is a failure', async () => {
    const { feed, ended } = bench();
    feed.data(packed.subarray(0, -8));
    feed.end();
    assert.equal((await ended)?.code, 'upstream_invalid');
  });

  test('a failure of the source is passed on once', async () => {
    const { feed, ended, calls } = bench();
    const error = new GatewayError('upstream_reset', 'Cut.');
    feed.fail(error);
    feed.fail(new GatewayError('internal', 'Never.'));
    assert.equal(await ended, error);
    assert.deepEqual(calls, []);
  });

  test('after a cancel nothing comes any more', async () => {
    const { source, feed, calls, text: received } = bench();
    feed.data(packed.subarray(0, 5000));
    source.cancel(new GatewayError('client_closed', 'Left.'));
    const before = received();
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal(received(), before);
    assert.deepEqual(calls, ['cancel client_closed']);
  });
});
