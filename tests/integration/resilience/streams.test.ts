import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { delta, done, finish, frame, role, said } from '../../kit/chat-stream-kit.ts';
import { until } from '../../kit/http-kit.ts';
import { messageError, messageEvents } from '../../kit/messages-stream-kit.ts';
import { startPlanGateway } from '../../kit/plan-kit.ts';
import * as up from '../../kit/upstream-scenes.ts';
import type { UpstreamScene } from '../../kit/upstream-scenes.ts';

const streaming = { body: { stream: true } };
const config = {
  strategy: { mode: 'fallback' },
  idle_timeout: 500,
  targets: [{ provider: '@a' }, { provider: '@b' }],
};
const option = 'x-service-last-used-option-index';
const fromB = up.streams([role, delta('from b'), finish, done], 10);
const error = frame({ error: { message: 'we are overloaded', type: 'server_error', code: 'overloaded' } });
const third = Math.floor(error.length / 3);

describe('a stream that has said nothing yet gives way to the next target', () => {
  const scenes: readonly [string, UpstreamScene][] = [
    ['a status', up.fails(503)],
    ['no connection', up.refuses()],
    ['a reset before the head', up.resetsBeforeHead()],
    ['a reset after the head', up.streams([], 5, 'reset')],
    ['a close after the head', up.streams([], 5, 'close')],
    ['a stall after the head', up.streams([], 5, 'hang')],
    ['a stall within its first event', up.streams(['data: {"id":"c","cho'], 5, 'hang')],
    ['a cut within its first event', up.streams(['data: {"id":"c","cho'], 5, 'reset')],
    ['a stall after a comment', up.streams([': hello\n\n'], 5, 'hang')],
    ['an error as its first event', up.streams([error], 5)],
    ['an error as its first event, and the end marker', up.streams([error + done], 5)],
    ['an error as its first event, and silence', up.streams([error], 5, 'hang')],
    [
      'an error as its first event, in pieces',
      up.streams([error.slice(0, third), error.slice(third, 2 * third), error.slice(2 * third)], 5),
    ],
    ['an error as its first event, after a comment', up.streams([': hello\n\n', error], 5)],
    ['an error with a name', up.streams([`event: error\n${error}`], 5)],
  ];
  for (const [name, scene] of scenes) {
    test(`${name}`, async (t) => {
      const kit = await startPlanGateway(t, { a: [scene], b: [fromB] });
      const answer = await kit.answer(config, streaming);
      assert.deepEqual([answer.status, answer.complete, kit.called()], [200, true, ['a', 'b']]);
      assert.equal(answer.text, role + delta('from b') + finish + done, 'nothing of the first is heard');
      assert.equal(answer.headers[option], 'config.targets[1]');
      const { outcome } = await answer.settled();
      assert.equal(outcome.kind, 'completed');
    });

    test(`${name}; a retry does as well`, async (t) => {
      const kit = await startPlanGateway(t, { a: [scene, fromB] });
      const retry = { attempts: 1, on_status_codes: [502, 503, 504] };
      const answer = await kit.answer({ provider: '@a', idle_timeout: 500, retry }, streaming);
      assert.deepEqual([answer.status, said(answer.text), kit.called()], [200, 'from b', ['a', 'a']]);
      assert.equal(answer.headers['x-service-retry-attempt-count'], '1');
    });
  }

  test('when all do, the client is told the last error, with its status', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.fails(503)], b: [up.streams([error], 5)] });
    const answer = await kit.answer(config, streaming);
    assert.ok(answer.status >= 500, String(answer.status));
    assert.match(answer.json().error.message, /we are overloaded/);
    assert.equal(answer.headers[option], 'config.targets[1]');
  });

  test('the client hears nothing before the first event', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.streams([role, delta('x'), done], 100)] });
    const one = await kit.ask(config, streaming);
    await kit.clock.pass(99);
    assert.equal(one.status, 0);
    assert.equal((await one.finish()).text, role + delta('x') + done);
  });
});

describe('a stream that has begun is never begun again', () => {
  const begun = [role, delta('one '), delta('two')];
  const scenes: readonly [string, UpstreamScene, string][] = [
    ['a reset', up.streams(begun, 5, 'reset'), 'upstream_reset'],
    ['a close before its end', up.streams(begun, 5, 'close'), 'upstream_reset'],
    ['a stall', up.streams(begun, 5, 'hang'), 'upstream_timeout'],
    ['a cut within an event', up.streams([...begun, 'data: {"id":"c","cho'], 5, 'reset'), 'upstream_reset'],
  ];
  for (const [name, scene, code] of scenes) {
    test(`${name}: it ends as an error`, async (t) => {
      const kit = await startPlanGateway(t, { a: [scene], b: [fromB] });
      const retry = { attempts: 3, on_status_codes: [502, 504, 408] };
      const answer = await kit.answer({ ...config, retry }, streaming);
      assert.deepEqual([answer.status, answer.complete, kit.called()], [200, false, ['a']]);
      assert.equal(said(answer.text), 'one two');
      assert.doesNotMatch(answer.text, /\[DONE\]|from b/);
      assert.match(answer.text, /"error"/, 'the client can read why');
      const { outcome } = await answer.settled();
      assert.deepEqual([outcome.kind, outcome.error?.code], ['failed', code]);
      assert.equal(answer.headers[option], 'config.targets[0]');
    });
  }

  test('an error among its events is passed on, and nothing else is tried', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.streams([...begun, error], 5)], b: [fromB] });
    const answer = await kit.answer(config, streaming);
    assert.deepEqual([answer.status, kit.called()], [200, ['a']]);
    assert.equal(answer.text.slice(0, (begun.join('') + error).length), begun.join('') + error);
    assert.doesNotMatch(answer.text, /\[DONE\]|from b/);
  });

  test('slow bytes are no failure', async (t) => {
    const text = role + delta('slow') + finish + done;
    const kit = await startPlanGateway(t, { a: [up.streams([...text], 499)], b: [fromB] });
    const answer = await kit.answer(config, streaming);
    assert.deepEqual([answer.text, answer.complete, kit.called()], [text, true, ['a']]);
  });
});

describe('a stream of a target alone', () => {
  test('that begins with an error is passed on as it is', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.streams([error], 5)] });
    const answer = await kit.answer({ provider: '@a' }, streaming);
    assert.deepEqual([answer.status, kit.called()], [200, ['a']]);
    assert.ok(answer.text.startsWith(error));
  });
});

describe('a stream of another wire', () => {
  const begun = messageEvents('from claude').slice(0, 3);
  const both = {
    ...config,
    targets: [{ provider: '@claude', override_params: { max_tokens: 9 } }, { provider: '@b' }],
  };
  const silentScenes: readonly [string, UpstreamScene][] = [
    ['a stall after the head', up.streams([], 5, 'hang')],
    ['a cut after the head', up.streams([], 5, 'reset')],
    ['an error as its first event', up.streams([messageError], 5)],
  ];
  for (const [name, scene] of silentScenes) {
    test(`${name}: gives way to the next target`, async (t) => {
      const kit = await startPlanGateway(t, { claude: [scene], b: [fromB] });
      const answer = await kit.answer(both, streaming);
      assert.deepEqual([said(answer.text), answer.complete, kit.called()], ['from b', true, ['claude', 'b']]);
    });
  }

  for (const [name, scene] of [
    ['a cut', up.streams(begun, 5, 'reset')],
    ['an error', up.streams([...begun, messageError], 5)],
  ] as const) {
    test(`${name} after its first words: it ends as an error in the client’s wire`, async (t) => {
      const kit = await startPlanGateway(t, { claude: [scene], b: [fromB] });
      const answer = await kit.answer(both, streaming);
      assert.deepEqual([said(answer.text), kit.called()], ['from claude', ['claude']]);
      assert.match(answer.text, /"error"/);
      assert.doesNotMatch(answer.text, /\[DONE\]/);
    });
  }
});

describe('a client that reads slowly', () => {
  test('holds the provider back, through a stream that had to prove itself, and loses nothing', async (t) => {
    const piece = delta('x'.repeat(64 * 1024));
    const pieces = Array.from({ length: 400 }, () => piece);
    const kit = await startPlanGateway(t, { a: [up.streams([role, ...pieces, done], 1)], b: [fromB] });
    const one = await kit.ask(config, streaming);
    await kit.clock.pass(2);
    await until(() => one.status === 200, 'the head');
    one.pause();
    // Far longer than the idle timeout: while the client is slow, the provider owes nothing.
    await kit.clock.pass(60_000);
    const taken = kit.transport.calls[0]!.receivedBytes;
    assert.ok(taken < (400 * piece.length) / 2, `${taken} bytes were taken for a client that takes none`);
    one.resume();
    await until(() => one.over, 'the whole stream');
    assert.deepEqual([one.text === role + pieces.join('') + done, one.complete], [true, true]);
  });
});

describe('an answer that is no event stream', () => {
  const get = { method: 'GET', path: '/v1/files/f/content' };

  test('of a request without a body is tried elsewhere until its first byte', async (t) => {
    for (const scene of [up.stallsAfterHead(), up.resetsAfterHead(), up.fails(500), up.refuses()]) {
      const kit = await startPlanGateway(t, { a: [scene], b: [up.answers(200, 'from b')] });
      const answer = await kit.answer(config, get);
      assert.deepEqual([answer.status, answer.text, kit.called()], [200, 'from b', ['a', 'b']]);
    }
  });

  test('and is cut after it', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.resetsInBody()], b: [up.answers(200, 'from b')] });
    const answer = await kit.answer(config, get);
    assert.deepEqual([answer.status, answer.complete, kit.called()], [200, false, ['a']]);
    assert.doesNotMatch(answer.text, /from b/);
  });
});
