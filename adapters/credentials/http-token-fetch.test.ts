import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Transport, UpstreamHandler, UpstreamRequest } from '../../core/ports/transport.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { createHttpTokenFetch } from './http-token-fetch.ts';
import { tokenServer } from './token-server.test-support.ts';

/** A transport whose calls are answered by hand. */
function manualTransport() {
  const calls: { request: UpstreamRequest; handler: UpstreamHandler; aborted: GatewayError | undefined }[] =
    [];
  const transport: Transport = {
    send(request, handler) {
      const call: (typeof calls)[number] = { request, handler, aborted: undefined };
      calls.push(call);
      const abort = (error: GatewayError): void => {
        call.aborted = error;
        handler.fail(error, { stale: false });
      };
      return { resume: () => undefined, abort };
    },
    close: () => Promise.resolve(),
  };
  return { transport, calls };
}

const post = { method: 'POST', headers: { 'content-type': 'a/b' }, body: 'grant=ü', timeoutMs: 10_000 };

describe('asking a token endpoint', () => {
  test('sends what it is given and brings status and text, errors and redirects too', async (t) => {
    const server = await tokenServer(t, new ManualClock(), (_call, count) => ({
      status: [200, 400, 302][count - 1] ?? 500,
      body: `answer ${count} ü`,
    }));
    const answers = [];
    for (let i = 0; i < 3; i++)
      answers.push(await server.fetch({ ...post, url: `${server.origin}/a/b?c=d` }));
    assert.deepEqual(answers, [
      { status: 200, body: 'answer 1 ü' },
      { status: 400, body: 'answer 2 ü' },
      { status: 302, body: 'answer 3 ü' },
    ]);
    const { method, url, headers, body } = server.calls[0]!;
    assert.deepEqual(
      [method, url, headers['content-type'], headers['accept-encoding'], headers['content-length'], body],
      ['POST', '/a/b?c=d', 'a/b', 'identity', '8', 'grant=ü'],
    );
  });

  test('gives up after the whole time, and cancels its timer when it ended', async () => {
    const { transport, calls } = manualTransport();
    const clock = new ManualClock();
    const fetch = createHttpTokenFetch({ transport, clock });
    const slow = fetch({ ...post, url: 'https://sts.example/' });
    calls[0]!.handler.head(200, []);
    calls[0]!.handler.data(Buffer.from('{'));
    clock.advance(9_999);
    assert.equal(calls[0]!.aborted, undefined);
    clock.advance(1);
    await assert.rejects(slow, { code: 'upstream_timeout', message: /sts\.example .* 10000 ms/ });
    const quick = fetch({ ...post, url: 'https://sts.example/' });
    calls[1]!.handler.head(200, []);
    calls[1]!.handler.end();
    assert.deepEqual([await quick, clock.waiting], [{ status: 200, body: '' }, 0]);
  });

  test('gives up beyond 1 MiB', async () => {
    const { transport, calls } = manualTransport();
    const answer = createHttpTokenFetch({ transport, clock: new ManualClock() })({
      ...post,
      url: 'https://a.example/',
    });
    assert.equal(calls[0]!.handler.data(Buffer.alloc(1_048_576)), true);
    assert.equal(calls[0]!.handler.data(Buffer.alloc(1)), false);
    await assert.rejects(answer, { code: 'upstream_too_large' });
  });

  test('sends again once, on a stale connection only', async () => {
    const { transport, calls } = manualTransport();
    const fetch = createHttpTokenFetch({ transport, clock: new ManualClock() });
    const reset = new GatewayError('upstream_reset', 'cut');
    for (const [stale, sent] of [
      [true, 2],
      [false, 1],
    ] as const) {
      calls.length = 0;
      const answer = fetch({ ...post, url: 'https://a.example/' });
      const rejected = assert.rejects(answer, { code: 'upstream_reset' });
      for (let i = 0; i < sent; i++) {
        calls[i]!.handler.fail(reset, { stale });
        await new Promise((resolve) => setImmediate(resolve));
      }
      await rejected;
      assert.equal(calls.length, sent);
    }
  });
});
