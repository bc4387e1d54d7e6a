import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { providerPlugin } from '../../kit/gateway-kit.ts';
import { startPlanGateway } from '../../kit/plan-kit.ts';
import * as up from '../../kit/upstream-scenes.ts';
import type { UpstreamScene } from '../../kit/upstream-scenes.ts';

const retrying = (attempts: number, more: object = {}) => ({ provider: '@a', retry: { attempts, ...more } });
const count = 'x-service-retry-attempt-count';

describe('which answers are tried again', () => {
  const cases: [number, number[] | undefined, boolean][] = [
    ...[429, 500, 502, 503, 504, 529].map((status): [number, undefined, boolean] => [
      status,
      undefined,
      true,
    ]),
    ...[400, 401, 403, 404, 408, 422, 501].map((status): [number, undefined, boolean] => [
      status,
      undefined,
      false,
    ]),
    [404, [404], true],
    [418, [429, 418], true],
    [503, [429], false],
  ];
  for (const [status, codes, again] of cases) {
    const named = codes === undefined ? 'by default' : `with on_status_codes ${codes.join(', ')}`;
    test(`${status} ${again ? 'is' : 'is not'} tried again ${named}`, async (t) => {
      const kit = await startPlanGateway(t, { a: [up.fails(status), up.chat('hello')] });
      const more = codes === undefined ? {} : { on_status_codes: codes };
      const answer = await kit.answer(retrying(1, more));
      assert.deepEqual(
        [answer.status, answer.headers[count], kit.called().length],
        again ? [200, '1', 2] : [status, '0', 1],
      );
      if (!again) assert.equal(answer.json().error.message, `failed with ${status}`);
    });
  }

  test('nothing is, without retry', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.fails(503), up.chat('hello')] });
    const answer = await kit.answer({ provider: '@a' });
    assert.deepEqual([answer.status, answer.headers[count], kit.called()], [503, '0', ['a']]);
  });

  test('a good answer is not asked for twice', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.chat('hello')] });
    const answer = await kit.answer(retrying(5));
    assert.deepEqual([answer.status, answer.headers[count], kit.called()], [200, '0', ['a']]);
  });
});

describe('which failures of the network are tried again', () => {
  const failures: readonly [string, UpstreamScene, number][] = [
    ['a refused connection', up.refuses(), 502],
    ['a connection that never stands', up.neverConnects(), 502],
    ['a reset before the head', up.resetsBeforeHead(), 502],
    ['a reset after the head', up.resetsAfterHead(), 502],
    ['a reset in the body', up.resetsInBody(), 502],
    ['a body shorter than announced', up.tooShort(), 502],
    ['silence before the head', up.silent(), 504],
    ['silence after the head', up.stallsAfterHead(), 504],
  ];
  const bounds = providerPlugin({ connect_timeout_ms: 200, head_timeout_ms: 300, idle_timeout_ms: 100 });
  for (const [name, scene, status] of failures) {
    test(`${name}, as ${status}`, async (t) => {
      const kit = await startPlanGateway(t, { a: [scene, up.chat('hello')] }, { plugins: [bounds] });
      const answer = await kit.answer(retrying(1));
      assert.deepEqual([answer.status, answer.headers[count], kit.called().length], [200, '1', 2]);
    });

    test(`${name}, not when only other codes are listed; the client is told ${status}`, async (t) => {
      const kit = await startPlanGateway(t, { a: [scene, up.chat('hello')] }, { plugins: [bounds] });
      const answer = await kit.answer(retrying(1, { on_status_codes: [429] }));
      assert.deepEqual([answer.status, answer.headers[count], kit.called().length], [status, '0', 1]);
    });
  }

  test('an attempt that took too long, as 408, when that is listed', async (t) => {
    for (const [codes, statuses] of [
      [[408], [200, '1', 2]],
      [undefined, [408, '0', 1]],
    ] as const) {
      const kit = await startPlanGateway(t, { a: [up.silent(), up.chat('hello')] });
      const retry = { attempts: 1, ...(codes === undefined ? {} : { on_status_codes: codes }) };
      const answer = await kit.answer({ provider: '@a', request_timeout: 500, retry });
      assert.deepEqual([answer.status, answer.headers[count], kit.called().length], statuses);
    }
  });

  test('a stale connection is replaced, which is no retry', async (t) => {
    const kit = await startPlanGateway(t, {
      a: [up.resetsBeforeHead({ reused: true }), up.chat('hello')],
    });
    const answer = await kit.answer({ provider: '@a' });
    assert.deepEqual([answer.status, answer.headers[count], kit.times()], [200, '0', [0, 0]]);
    assert.equal((await answer.settled()).facts.resent, true);
  });
});

describe('how often, and when', () => {
  for (const [attempts, made] of [
    [1, 1],
    [3, 3],
    [5, 5],
    [6, 5],
    [100, 5],
  ] as const) {
    test(`attempts ${attempts}: ${made} after the first; the last answer reaches the client`, async (t) => {
      const scenes = Array.from({ length: made + 1 }, (_, i) =>
        up.answers(503, { error: { message: `no ${i}` } }),
      );
      const kit = await startPlanGateway(t, { a: scenes });
      const answer = await kit.answer(retrying(attempts));
      assert.deepEqual([answer.status, answer.headers[count]], [503, '-1']);
      assert.equal(answer.json().error.message, `no ${made}`);
      assert.equal(kit.called().length, made + 1);
      const { facts, outcome } = await answer.settled();
      assert.deepEqual([facts.attempts, outcome.kind], [made + 1, 'completed']);
    });
  }

  test('the count tells which retry was good', async (t) => {
    const kit = await startPlanGateway(t, {
      a: [up.fails(500), up.refuses(), up.fails(429), up.chat('hello')],
    });
    const answer = await kit.answer(retrying(5));
    assert.deepEqual([answer.status, answer.headers[count]], [200, '3']);
  });

  test('the back-off doubles from a second on, and is spread over its second half', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.fails(503)] });
    for (let round = 0; round < 5; round++) await kit.answer(retrying(5));
    const times = kit.times();
    const waits = [0, 1, 2, 3, 4].map((i) =>
      [0, 1, 2, 3, 4].map((r) => times[r * 6 + i + 1]! - times[r * 6 + i]!),
    );
    for (const [i, most] of [1000, 2000, 4000, 8000, 16_000].entries()) {
      for (const wait of waits[i]!)
        assert.ok(wait >= most / 2 && wait <= most, `retry ${i + 1} after ${wait} ms`);
      assert.ok(new Set(waits[i]).size > 1, 'two clients do not return together');
    }
  });

  test('nothing happens before the wait is over', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.fails(503), up.chat('hello')] });
    const one = await kit.ask(retrying(1));
    await kit.clock.pass(499);
    assert.deepEqual([one.status, kit.called().length], [0, 1]);
    await kit.clock.pass(501);
    assert.equal(kit.called().length, 2);
    assert.equal((await one.finish()).status, 200);
  });
});

describe('retry-after', () => {
  const asked = { use_retry_after_headers: true };
  const date = (now: number, ms: number): string => new Date(now + ms).toUTCString();
  /** The clock of a test starts at this time. */
  const now = 1_700_000_000_000;
  const forms: readonly [string, readonly string[], number][] = [
    ['retry-after-ms', ['retry-after-ms', '7250'], 7250],
    ['x-ms-retry-after-ms', ['x-ms-retry-after-ms', '7250'], 7250],
    ['retry-after in seconds', ['retry-after', '7'], 7000],
    ['retry-after as a date', ['retry-after', date(now, 7000)], 7000],
    ['the finest form of several', ['retry-after', '30', 'Retry-After-Ms', '3000'], 3000],
    ['zero: at once', ['retry-after', '0'], 0],
  ];
  for (const [name, headers, ms] of forms) {
    for (const option of ['use_retry_after_headers', 'use_retry_after_header']) {
      test(`${name}, with ${option}`, async (t) => {
        const kit = await startPlanGateway(t, { a: [up.fails(429, headers), up.chat('hello')] });
        const answer = await kit.answer(retrying(1, { [option]: true }));
        assert.deepEqual([answer.status, answer.headers[count]], [200, '1']);
        const wait = kit.times()[1]!;
        assert.ok(wait >= ms && wait <= ms + Math.max(100, ms / 10), `${wait} ms for ${ms} ms`);
      });
    }
  }

  const ignored: readonly [string, UpstreamScene, object][] = [
    ['without the option', up.fails(429, ['retry-after', '30']), {}],
    ['with the option off', up.fails(429, ['retry-after', '30']), { use_retry_after_header: false }],
    ['with a value that is none', up.fails(429, ['retry-after', 'soon', 'retry-after-ms', '-5']), asked],
    ['on a status that has no such header', up.fails(500, ['retry-after', '30']), asked],
    ['when there is no answer', up.refuses(), asked],
  ];
  for (const [name, scene, more] of ignored) {
    test(`the back-off rules ${name}`, async (t) => {
      const kit = await startPlanGateway(t, { a: [scene, up.chat('hello')] });
      assert.equal((await kit.answer(retrying(1, more))).status, 200);
      const wait = kit.times()[1]!;
      assert.ok(wait >= 500 && wait <= 1000, `${wait} ms`);
    });
  }

  for (const headers of [
    ['retry-after', '60'],
    ['retry-after-ms', '60000'],
    ['x-ms-retry-after-ms', '999999999'],
    ['retry-after', date(now, 61_000)],
  ]) {
    test(`a wait of a minute or more is not made: ${headers.join(' ')}`, async (t) => {
      const kit = await startPlanGateway(t, { a: [up.fails(429, headers), up.chat('hello')] });
      const answer = await kit.answer(retrying(5, asked));
      assert.deepEqual([answer.status, answer.headers[count], kit.called()], [429, '-1', ['a']]);
      assert.equal(kit.clock.monotonic(), now, 'the client is told at once');
    });
  }

  test('all waits of a request together stay within a minute', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.fails(429, ['retry-after', '25'])] });
    const answer = await kit.answer(retrying(5, asked));
    assert.deepEqual([answer.status, answer.headers[count], kit.called().length], [429, '-1', 3]);
    assert.ok(kit.clock.monotonic() - now <= 60_000);
  });
});

describe('a body that flows by', () => {
  const form = {
    type: 'multipart/form-data; boundary=x',
    bytes: Buffer.from('--x\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--x--\r\n'),
  };
  const two = {
    strategy: { mode: 'fallback' },
    targets: [{ provider: '@a', retry: { attempts: 3 } }, { provider: '@b' }],
  };

  test('is sent once: nothing is tried after it', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.fails(503)], b: [up.answers(200, '{}')] });
    const answer = await kit.answer(two, { path: '/v1/files', raw: form });
    assert.deepEqual([answer.status, kit.called()], [503, ['a']]);
    assert.deepEqual(kit.transport.calls[0]?.body, form.bytes);
  });

  test('reaches the provider whole, through a config', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.answers(200, '{"id":"f"}')] });
    const answer = await kit.answer(two, { path: '/v1/files', raw: form });
    assert.deepEqual([answer.status, answer.text], [200, '{"id":"f"}']);
    assert.deepEqual(kit.transport.calls[0]?.body, form.bytes);
  });
});
