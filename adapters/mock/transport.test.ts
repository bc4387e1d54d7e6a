import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { describe, it } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import {
  chatBody,
  collect,
  eventsOf,
  exchange,
  HandClock,
  header,
  idle,
  newTransport,
  textOf,
} from './mock.test-support.ts';

const gone = new GatewayError('client_closed', 'The client has left.');
const stream = { body: chatBody('Hello', { stream: true }) };

describe('the mock transport', () => {
  it('calls nothing before send returns, then head, data and end once each', async () => {
    const { received, done } = collect(newTransport(), { body: chatBody('Hello') });
    assert.deepEqual(received.calls, []);
    await done;
    assert.deepEqual(received.calls, ['head', 'data', 'end']);
    assert.equal(received.status, 200);
    assert.equal(header(received, 'content-length'), String(textOf(received).length));
  });

  it('stops at once when the handler wants no more, and goes on after resume', async () => {
    const transport = newTransport();
    const { call, received, done } = collect(transport, stream, () => false);
    await idle();
    assert.equal(received.chunks.length, 1);
    call.resume();
    await idle();
    assert.equal(received.chunks.length, 2);
    const pump = setInterval(() => call.resume(), 0);
    await done;
    clearInterval(pump);
    assert.equal(eventsOf(received).at(-1), '[DONE]');
  });

  it('goes on when the handler resumes before it returns false', async () => {
    const started = collect(newTransport(), stream, () => {
      started.call.resume();
      return false;
    });
    const received = await started.done;
    assert.ok(received.ended);
  });

  it('fails with the reason of abort, once, and says nothing after it', async () => {
    const { call, received, done } = collect(newTransport(), stream, () => {
      if (received.chunks.length === 2) call.abort(gone);
      return true;
    });
    await done;
    await idle();
    call.abort(new GatewayError('internal', 'again'));
    assert.equal(received.error, gone);
    assert.deepEqual(received.calls, ['head', 'data', 'data', 'fail']);
  });

  it('does not fail a call that has ended', async () => {
    const { call, received, done } = collect(newTransport(), { body: chatBody('Hello') });
    await done;
    call.abort(gone);
    assert.equal(received.calls.filter((name) => name === 'fail').length, 0);
  });

  for (const faults of ['latency_ms=1000', 'chunk_latency_ms=1000', 'stall_before_head']) {
    it(`leaves no timer behind when it is aborted during ${faults}`, async () => {
      const clock = new HandClock();
      const { call, received } = collect(newTransport(clock), { ...stream, origin: `mock:?${faults}` });
      await idle();
      call.abort(gone);
      await idle();
      assert.equal(clock.waiting, 0);
      assert.equal(received.calls.at(-1), 'fail');
    });
  }

  it('destroys the request body of an aborted call', async () => {
    const body = new Readable({ read: () => undefined });
    const { call, received } = collect(newTransport(), { path: '/anything', body });
    await idle();
    call.abort(gone);
    assert.equal(body.destroyed, true);
    await idle();
    assert.deepEqual(received.calls, ['fail']);
  });

  it('fails when the request body breaks off', async () => {
    const body = new Readable({ read: () => undefined });
    const { received, done } = collect(newTransport(), { path: '/anything', body });
    body.push('half');
    await idle();
    body.destroy(new Error('gone'));
    await done;
    assert.equal(received.error?.code, 'client_closed');
  });

  it('reads a streamed body to its end, also one that it does not keep', async () => {
    const chunk = Buffer.alloc(1024 * 1024, 'x');
    const chunks = Array.from({ length: 40 }, () => chunk);
    const received = await exchange({ path: '/anything/at/all', body: Readable.from(chunks) });
    const echo = JSON.parse(textOf(received));
    assert.equal(echo.body_bytes, 40 * 1024 * 1024);
    assert.equal(
      echo.body_sha256,
      createHash('sha256')
        .update(Buffer.alloc(40 * 1024 * 1024, 'x'))
        .digest('hex'),
    );
  });

  it('refuses a JSON body that is larger than it keeps', async () => {
    const chunks = Array.from({ length: 33 }, () => Buffer.alloc(1024 * 1024, ' '));
    const received = await exchange({ body: Readable.from(chunks) });
    assert.equal(received.status, 413);
  });

  it('answers HEAD with the head alone', async () => {
    const received = await exchange({ method: 'HEAD', path: '/models' });
    assert.deepEqual(received.calls, ['head', 'end']);
    assert.ok(Number(header(received, 'content-length')) > 0);
  });

  it('ends open calls when it is closed, and refuses new ones without calling back at once', async () => {
    const transport = newTransport();
    const open = collect(transport, { ...stream, origin: 'mock:?stall_before_head' });
    await idle();
    await transport.close();
    assert.equal(open.received.error?.code, 'shutting_down');
    const late = collect(transport, stream);
    assert.deepEqual(late.received.calls, []);
    await late.done;
    assert.equal(late.received.error?.code, 'shutting_down');
  });

  it('answers the same request with the same bytes', async () => {
    const clock = new HandClock();
    const [first, second] = await Promise.all([
      exchange(stream, newTransport(clock)),
      exchange(stream, newTransport(clock)),
    ]);
    assert.equal(textOf(first), textOf(second));
  });
});

describe('the bounds of a call', () => {
  const cases = [
    { faults: 'latency_ms=5000', bounds: { headTimeoutMs: 100 }, calls: ['fail'] },
    { faults: 'stall_before_head', bounds: { headTimeoutMs: 100 }, calls: ['fail'] },
    {
      faults: 'stall_after_chunks=2',
      bounds: { idleTimeoutMs: 100 },
      calls: ['head', 'data', 'data', 'fail'],
    },
    { faults: 'chunk_latency_ms=5000', bounds: { idleTimeoutMs: 100 }, calls: ['head', 'data', 'fail'] },
  ];
  for (const { faults, bounds, calls } of cases) {
    it(`${JSON.stringify(bounds)} ends ${faults}`, async () => {
      const clock = new HandClock();
      const send = { ...stream, ...bounds, origin: `mock:?${faults}` };
      const { received } = collect(newTransport(clock), send);
      await idle();
      clock.advance(99);
      await idle();
      assert.equal(received.calls.includes('fail'), false);
      clock.advance(1);
      await idle();
      assert.equal(received.error?.code, 'upstream_timeout');
      assert.match(received.error.message, /100 ms/);
      assert.deepEqual(received.calls, calls);
    });
  }

  it('a bound that is longer than the delay does not matter', async () => {
    const clock = new HandClock();
    const send = { body: chatBody('Hello'), origin: 'mock:?latency_ms=50', headTimeoutMs: 100 };
    const { received } = collect(newTransport(clock), send);
    await idle();
    assert.deepEqual(received.calls, []);
    clock.advance(50);
    await idle();
    assert.deepEqual(received.calls, ['head', 'data', 'end']);
  });

  it('the time that a handler pauses does not count', async () => {
    const clock = new HandClock();
    const { received } = collect(newTransport(clock), { ...stream, idleTimeoutMs: 100 }, () => false);
    await idle();
    clock.advance(10_000);
    await idle();
    assert.deepEqual(received.calls, ['head', 'data']);
  });
});
