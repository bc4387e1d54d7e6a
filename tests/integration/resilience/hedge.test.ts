import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { delta, done, finish, role, said } from '../../kit/chat-stream-kit.ts';
import type { Prices } from '../../../core/ports/prices.ts';
import { startPlanGateway, type Asked } from '../../kit/plan-kit.ts';
import * as up from '../../kit/upstream-scenes.ts';

const option = 'x-service-last-used-option-index';
const hedge = { after_ms: 300, max: 1 };
const pair = {
  strategy: { mode: 'fallback' },
  hedge,
  targets: [{ provider: '@a' }, { provider: '@b' }],
};
const three = { ...pair, hedge: { after_ms: 300, max: 2 }, targets: [...pair.targets, { provider: '@c' }] };
const streaming = { body: { stream: true } };
const content = (answer: Asked): string => answer.json().choices[0].message.content;
const stream = (text: string, everyMs: number) => up.streams([role, delta(text), finish, done], everyMs);

describe('a hedge', () => {
  test('is not made when the first answers in time', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.after(299, up.chat('from a'))], b: [up.chat('from b')] });
    const answer = await kit.answer(pair);
    assert.deepEqual(
      [content(answer), kit.called(), answer.headers[option]],
      ['from a', ['a'], 'config.targets[0]'],
    );
  });

  test('starts to the millisecond; its good answer wins, and the first attempt is broken off', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.silent()], b: [up.after(50, up.chat('from b'))] });
    const one = await kit.ask(pair);
    await kit.clock.pass(299);
    assert.deepEqual(kit.called(), ['a']);
    await kit.clock.pass(1);
    assert.deepEqual([kit.called(), kit.transport.open], [['a', 'b'], 2]);
    const answer = await one.finish();
    assert.deepEqual(
      [answer.status, content(answer), answer.headers[option]],
      [200, 'from b', 'config.targets[1]'],
    );
    assert.notEqual(kit.callsOf('a')[0]?.aborted, undefined);
    const { facts, outcome } = await answer.settled();
    assert.deepEqual([facts.provider, facts.attempts, outcome.kind], ['b', 2, 'completed']);
    assert.equal(facts.usage?.totalTokens, 7);
  });

  test('what the loser has cost is estimated from what it was sent, at its own price', async (t) => {
    const prices: Prices = {
      price: (usage, provider, model) => ({
        cost: String((usage?.promptTokens ?? 0) * (provider === 'a' && model === 'm-a' ? 2 : 100)),
        status: 'priced',
        version: '1',
      }),
      parts: () => undefined,
      rates: () => undefined,
    };
    const scenes = { a: [up.silent()], b: [up.chat('from b')] };
    const kit = await startPlanGateway(t, scenes, { prices });
    const targets = [{ provider: '@a', override_params: { model: 'm-a' } }, { provider: '@b' }];
    const answer = await kit.answer({ ...pair, targets });
    const { facts } = await answer.settled();
    const sent = kit.callsOf('b')[0]?.body.length ?? 0;
    assert.equal(facts.lostCost, Math.ceil(sent / 4) * 2);
    const lost = facts.attemptRecords
      .filter((one) => one.lost)
      .map(({ option: place, error }) => [place, error]);
    assert.deepEqual(lost, [['config.targets[0]', 'lost_race']]);
  });

  test('is broken off when the first answers after all', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.after(400, up.chat('from a'))], b: [up.silent()] });
    const answer = await kit.answer(pair);
    assert.deepEqual([content(answer), answer.headers[option]], ['from a', 'config.targets[0]']);
    assert.notEqual(kit.callsOf('b')[0]?.aborted, undefined);
    assert.equal((await answer.settled()).facts.provider, 'a');
  });

  test('a failure does not win while another attempt may be good', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.after(900, up.chat('from a'))], b: [up.fails(500)] });
    const answer = await kit.answer(pair);
    assert.deepEqual([content(answer), kit.called()], ['from a', ['a', 'b']]);
  });

  test('a failure of the first starts the next at once', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.fails(500)], b: [up.chat('from b')] });
    const answer = await kit.answer(pair);
    assert.deepEqual([content(answer), kit.times()], ['from b', [0, 0]]);
  });

  test('when all fail, the last failure is the answer, and the fallback goes on behind them', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.after(900, up.fails(500))], b: [up.fails(503)] });
    const answer = await kit.answer(pair);
    assert.deepEqual([answer.status, answer.headers[option]], [500, 'config.targets[0]']);
    const longer = await startPlanGateway(t, {
      a: [up.fails(500)],
      b: [up.fails(503)],
      c: [up.chat('from c')],
    });
    const saved = await longer.answer({ ...pair, targets: [...pair.targets, { provider: '@c' }] });
    assert.deepEqual([content(saved), longer.called()], ['from c', ['a', 'b', 'c']]);
  });

  test('max is how many are started beside the first, one after the other', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.silent()], b: [up.silent()], c: [up.chat('from c')] });
    const answer = await kit.answer(three);
    assert.deepEqual([content(answer), kit.times()], ['from c', [0, 300, 600]]);
    assert.deepEqual(
      kit.transport.calls.map(({ aborted }) => aborted !== undefined),
      [true, true, false],
    );
    const one = await startPlanGateway(t, { a: [up.silent()], b: [up.after(900, up.chat('from b'))] });
    await one.answer({ ...three, hedge });
    assert.deepEqual(one.called(), ['a', 'b']);
  });

  test('a target alone is asked a second time', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.silent(), up.chat('second')] });
    const answer = await kit.answer({ provider: '@a', hedge });
    assert.deepEqual([content(answer), kit.times()], ['second', [0, 300]]);
  });

  test('each attempt sends what its target wants', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.silent()], b: [up.chat('from b')] });
    await kit.answer(
      {
        ...pair,
        targets: [
          { provider: '@a', override_params: { model: 'm-a' } },
          { provider: '@b', drop_params: ['user'] },
        ],
      },
      { body: { user: 'u' } },
    );
    const sent = kit.transport.calls.map((call) => JSON.parse(String(call.body)));
    assert.deepEqual(
      sent.map(({ model, user }) => [model, user]),
      [
        ['m-a', 'u'],
        ['m', undefined],
      ],
    );
  });

  test('the first stream that begins is the answer, whole and alone', async (t) => {
    const kit = await startPlanGateway(t, { a: [stream('from a', 310)], b: [stream('from b', 5)] });
    const answer = await kit.answer(pair, streaming);
    assert.deepEqual([answer.text, answer.complete], [role + delta('from b') + finish + done, true]);
    assert.notEqual(kit.callsOf('a')[0]?.aborted, undefined);
  });

  test('a stream that has begun and then pauses is not raced', async (t) => {
    const kit = await startPlanGateway(t, { a: [stream('from a', 290)], b: [stream('from b', 5)] });
    const answer = await kit.answer(pair, streaming);
    assert.deepEqual([said(answer.text), kit.called()], ['from a', ['a']]);
  });

  test('a body that flows by is sent once', async (t) => {
    const kit = await startPlanGateway(t, {
      a: [up.after(900, up.answers(200, '{}'))],
      b: [up.answers(200, '{}')],
    });
    const raw = { type: 'multipart/form-data; boundary=x', bytes: Buffer.from('--x--\r\n') };
    const answer = await kit.answer(pair, { path: '/v1/files', raw });
    assert.deepEqual([answer.status, kit.called()], [200, ['a']]);
  });
});
