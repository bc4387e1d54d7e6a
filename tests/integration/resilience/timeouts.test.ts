import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { messageEvents } from '../../kit/messages-stream-kit.ts';
import { startPlanGateway, type Asked } from '../../kit/plan-kit.ts';
import { delta, done, role } from '../../kit/chat-stream-kit.ts';
import * as up from '../../kit/upstream-scenes.ts';
import type { UpstreamScene } from '../../kit/upstream-scenes.ts';

const a = { provider: '@a' };
const b = { provider: '@b' };
const fallback = (...targets: readonly object[]) => ({ strategy: { mode: 'fallback' }, targets });
const streaming = { body: { stream: true } };
const said = (answer: Asked): string => answer.json().choices[0].message.content;

function assertTimedOut(answer: Asked, ms: number): void {
  assert.equal(answer.status, 408);
  const { message, type, param } = answer.json().error;
  assert.deepEqual(
    { message, type, param },
    {
      message: `Request exceeded the timeout sent in the request: ${ms}ms`,
      type: 'timeout_error',
      param: null,
    },
  );
}

describe('request_timeout', () => {
  const header = (ms: string) => ({ 'x-service-request-timeout': ms });
  const cases: readonly [string, object, Record<string, string>, number][] = [
    ['of the config', { ...a, request_timeout: 700 }, {}, 700],
    ['of a target', fallback({ ...a, request_timeout: 700 }), {}, 700],
    [
      'of the target before that of the config',
      { request_timeout: 5000, ...fallback({ ...a, request_timeout: 700 }) },
      {},
      700,
    ],
    ['of the config for its targets', { request_timeout: 700, ...fallback(a) }, {}, 700],
    ['of the header before a longer one', { ...a, request_timeout: 5000 }, header('700'), 700],
    ['of the header before a shorter one', { ...a, request_timeout: 50 }, header('700'), 700],
    ['of the header alone', a, header('700'), 700],
  ];
  for (const [name, config, headers, ms] of cases) {
    test(`${name} ends an attempt, to the millisecond`, async (t) => {
      const kit = await startPlanGateway(t, { a: [up.silent()] });
      const one = await kit.ask(config, { headers });
      await kit.clock.pass(ms - 1);
      assert.deepEqual([one.status, kit.transport.open], [0, 1]);
      await kit.clock.pass(1);
      assert.equal(kit.transport.open, 0);
      assertTimedOut(await one.finish(), ms);
      assert.equal(kit.transport.calls[0]?.error?.code, 'request_timeout');
    });
  }

  const slow: readonly [string, UpstreamScene][] = [
    ['connecting', up.neverConnects()],
    ['a head that does not come', up.silent()],
    ['a body that does not come', up.stallsAfterHead()],
    ['a body that comes byte by byte', up.slowly(90, '{"id":"c","choices":[]}')],
  ];
  for (const [name, scene] of slow) {
    test(`bounds ${name}`, async (t) => {
      const kit = await startPlanGateway(t, { a: [scene] });
      assertTimedOut(await kit.answer({ ...a, request_timeout: 700 }), 700);
    });
  }

  test('lets an answer through that is in time, and leaves no timer', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.after(699, up.chat('just'))] });
    const answer = await kit.answer({ ...a, request_timeout: 700 });
    assert.deepEqual([answer.status, said(answer)], [200, 'just']);
  });

  test('counts for each attempt anew', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.silent()], b: [up.after(600, up.chat('from b'))] });
    const answer = await kit.answer({ request_timeout: 700, ...fallback(a, b) });
    assert.deepEqual([said(answer), kit.times()], ['from b', [0, 700]]);
  });

  test('bounds a stream to its last byte, which then ends as an error', async (t) => {
    const pieces = Array.from({ length: 20 }, (_, i) => delta(`${i} `));
    const kit = await startPlanGateway(t, { a: [up.streams([role, ...pieces, done], 100)] });
    const one = await kit.ask({ ...a, request_timeout: 750 }, streaming);
    await kit.clock.pass(749);
    assert.equal(kit.transport.open, 1);
    const answer = await one.finish();
    const [call] = kit.transport.calls;
    assert.equal((call?.endedAt ?? 0) - (call?.startedAt ?? 0), 750);
    assert.deepEqual([answer.status, answer.complete], [200, false]);
    assert.match(answer.text, /"5 "/);
    assert.doesNotMatch(answer.text, /"6 "|\[DONE\]/);
    assert.match(answer.text, /Request exceeded the timeout sent in the request: 750ms/);
    const { outcome } = await answer.settled();
    assert.deepEqual([outcome.kind === 'completed', outcome.error?.code], [false, 'request_timeout']);
  });

  test('lets a stream through that is in time', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.streams([role, delta('all'), done], 100)] });
    const answer = await kit.answer({ ...a, request_timeout: 400 }, streaming);
    assert.deepEqual([answer.complete, answer.text.endsWith(done)], [true, true]);
  });

  test('ends a stream of another wire as an error in the client’s', async (t) => {
    const scene = up.streams(messageEvents('so far').slice(0, 3), 100, 'hang');
    const kit = await startPlanGateway(t, { claude: [scene], b: [up.chat('from b')] });
    const claude = { provider: '@claude', override_params: { max_tokens: 9 } };
    const answer = await kit.answer({ request_timeout: 500, ...fallback(claude, b) }, streaming);
    assert.deepEqual([answer.status, kit.called()], [200, ['claude']]);
    assert.match(answer.text, /"so far"/);
    assert.match(answer.text, /Request exceeded the timeout sent in the request: 500ms/);
    assert.doesNotMatch(answer.text, /\[DONE\]/);
  });

  test('goes on to the next target only when 408 is listed, where codes are', async (t) => {
    for (const [codes, called] of [
      [[408], ['a', 'b']],
      [[504], ['a']],
    ] as const) {
      const kit = await startPlanGateway(t, { a: [up.silent()], b: [up.chat('from b')] });
      const strategy = { mode: 'fallback', on_status_codes: codes };
      const answer = await kit.answer({ strategy, request_timeout: 500, targets: [a, b] });
      assert.deepEqual([kit.called(), answer.status], [called, called.length === 2 ? 200 : 408]);
    }
  });

  for (const value of ['soon', '-1', '1.5']) {
    test(`in a header that is no count of milliseconds is refused: ${value}`, async (t) => {
      const kit = await startPlanGateway(t, { a: [up.chat('x')] });
      const answer = await kit.answer(a, { headers: header(value) });
      assert.deepEqual([answer.status, kit.called()], [400, []]);
      assert.match(answer.json().error.message, /request-timeout/);
    });
  }
});

describe('first_token_timeout', () => {
  const late: readonly [string, UpstreamScene][] = [
    ['no head', up.silent()],
    ['a head and nothing more', up.streams([], 5, 'hang')],
    [
      'comments only',
      up.streams(
        Array.from({ length: 40 }, () => ': wait\n\n'),
        100,
        'hang',
      ),
    ],
  ];
  for (const [name, scene] of late) {
    test(`${name}: the next target is tried`, async (t) => {
      const kit = await startPlanGateway(t, { a: [scene], b: [up.streams([role, delta('b'), done], 5)] });
      const answer = await kit.answer(fallback({ ...a, first_token_timeout: 300 }, b), streaming);
      assert.deepEqual([answer.status, answer.complete, kit.times()], [200, true, [0, 300]]);
      assert.ok(answer.text.endsWith(done));
    });
  }

  test('does not bound what comes after the first token', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.streams([role, delta('x'), delta('y'), done], 140)] });
    const answer = await kit.answer({ ...a, first_token_timeout: 300 }, streaming);
    assert.deepEqual([answer.complete, answer.text.endsWith(done)], [true, true]);
  });

  test('bounds the first byte of an answer that does not stream', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.after(400, up.chat('late'))] });
    const answer = await kit.answer({ ...a, first_token_timeout: 300 });
    assert.deepEqual([answer.status, answer.json().error.type], [504, 'timeout_error']);
    assert.match(answer.json().error.message, /300 ms/);
  });
});

describe('idle_timeout', () => {
  test('bounds the pauses between the pieces, not their sum', async (t) => {
    const pieces = Array.from({ length: 10 }, (_, i) => delta(`${i} `));
    const kit = await startPlanGateway(t, { a: [up.streams([role, ...pieces, done], 90)] });
    const answer = await kit.answer({ ...a, idle_timeout: 100 }, streaming);
    assert.deepEqual([answer.complete, answer.text.endsWith(done)], [true, true]);
  });

  test('ends a stream that stops, as an error', async (t) => {
    const kit = await startPlanGateway(t, {
      a: [up.streams([role, delta('x')], 10, 'hang')],
      b: [up.chat('b')],
    });
    const answer = await kit.answer({ idle_timeout: 100, ...fallback(a, b) }, streaming);
    assert.deepEqual([answer.status, answer.complete, kit.called()], [200, false, ['a']]);
    assert.equal(kit.transport.calls[0]?.error?.code, 'upstream_timeout');
    assert.doesNotMatch(answer.text, /\[DONE\]/);
  });

  test('of the target wins over that of the config, for a whole answer too', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.stallsAfterHead()] });
    const answer = await kit.answer({ idle_timeout: 9000, ...fallback({ ...a, idle_timeout: 100 }) });
    assert.deepEqual([answer.status, answer.json().error.code], [504, 'upstream_timeout']);
    assert.equal(kit.transport.calls[0]?.request.idleTimeoutMs, 100);
  });
});
