import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { startPlanGateway, type PlanKit } from '../../kit/plan-kit.ts';
import * as up from '../../kit/upstream-scenes.ts';

const cooldown = 30_000;
/** One of the store's ticks more. */
const surelyOver = cooldown + 1;
const breaker = { failure_threshold: 3, cooldown_interval: cooldown };
const config = {
  strategy: { mode: 'fallback', cb_config: breaker },
  targets: [{ provider: '@a' }, { provider: '@b' }],
};

/** A gateway whose breaker of the first target has just opened. */
async function opened(
  t: TestContext,
  then: readonly up.UpstreamScene[],
  used: object = config,
): Promise<PlanKit> {
  const failures = [up.fails(500), up.refuses(), up.fails(503)];
  const kit = await startPlanGateway(t, { a: [...failures, ...then], b: [up.chat('from b')] });
  for (let i = 0; i < 3; i++) assert.equal((await kit.answer(used)).status, 200);
  assert.deepEqual(kit.called(), ['a', 'b', 'a', 'b', 'a', 'b']);
  return kit;
}

/** The provider that one more request calls. */
async function next(kit: PlanKit, used: object = config): Promise<string[]> {
  const before = kit.called().length;
  await kit.answer(used);
  return kit.called().slice(before);
}

describe('a breaker', () => {
  test('opens after so many failures, and its target is left alone', async (t) => {
    const kit = await opened(t, [up.chat('from a')]);
    for (let i = 0; i < 3; i++) assert.deepEqual(await next(kit), ['b']);
    const answer = await kit.answer(config);
    assert.equal(answer.headers['x-service-last-used-option-index'], 'config.targets[1]');
    await kit.clock.pass(cooldown - 1);
    assert.deepEqual(await next(kit), ['b']);
  });

  test('without one, the target is tried every time', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.fails(500)], b: [up.chat('from b')] });
    for (let i = 0; i < 6; i++) await kit.answer({ ...config, strategy: { mode: 'fallback' } });
    assert.equal(kit.callsOf('a').length, 6);
  });

  test('fewer failures than that do not open it, nor do those of another minute', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.fails(500)], b: [up.chat('from b')] });
    for (let i = 0; i < 6; i++) {
      assert.deepEqual(await next(kit), ['a', 'b']);
      assert.deepEqual(await next(kit), ['a', 'b']);
      await kit.clock.pass(61_001);
    }
  });

  test('after the cooldown one request tries: when that is good, it closes', async (t) => {
    const kit = await opened(t, [up.chat('from a')]);
    await kit.clock.pass(surelyOver);
    assert.deepEqual(await next(kit), ['a']);
    assert.deepEqual(await next(kit), ['a']);
  });

  test('when the request that tries fails, it opens again', async (t) => {
    const kit = await opened(t, [up.fails(500), up.chat('from a')]);
    await kit.clock.pass(surelyOver);
    assert.deepEqual(await next(kit), ['a', 'b'], 'its client is served all the same');
    assert.deepEqual(await next(kit), ['b']);
    await kit.clock.pass(surelyOver);
    assert.deepEqual(await next(kit), ['a']);
  });

  test('while that request is under way, others keep away', async (t) => {
    const kit = await opened(t, [up.after(5000, up.chat('from a'))]);
    await kit.clock.pass(surelyOver);
    const probe = await kit.ask(config);
    const other = await kit.ask(config);
    assert.deepEqual(kit.called().slice(6), ['a', 'b']);
    for (const one of [other, probe]) assert.equal((await one.finish()).status, 200);
    assert.deepEqual(await next(kit), ['a']);
  });

  test('when the client of that request leaves, the next one tries', async (t) => {
    const kit = await opened(t, [up.silent(), up.chat('from a')]);
    await kit.clock.pass(surelyOver);
    const probe = await kit.ask(config);
    probe.abort();
    assert.equal((await probe.settled()).outcome.kind, 'cancelled');
    assert.deepEqual(await next(kit), ['a']);
  });

  test('when all are open, they are tried as if there were none', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.fails(500)], b: [up.fails(502)] });
    for (let i = 0; i < 3; i++) await kit.answer(config);
    assert.deepEqual(await next(kit), ['a', 'b']);
    kit.transport.script('http://a.test', up.chat('from a'));
    assert.deepEqual(await next(kit), ['a']);
  });

  for (const [codes, status, opens] of [
    [[429], 429, true],
    [[429], 500, false],
    [undefined, 429, false],
    [undefined, 404, false],
    [undefined, 500, true],
    [undefined, 529, true],
  ] as const) {
    const named = codes === undefined ? 'by default' : `with failure_status_codes ${codes.join(', ')}`;
    test(`${status} ${opens ? 'counts' : 'does not count'} ${named}`, async (t) => {
      const strategy = {
        mode: 'fallback',
        cb_config: codes === undefined ? breaker : { ...breaker, failure_status_codes: codes },
      };
      const kit = await startPlanGateway(t, { a: [up.fails(status)], b: [up.chat('from b')] });
      for (let i = 0; i < 3; i++) await kit.answer({ ...config, strategy });
      assert.deepEqual(await next(kit, { ...config, strategy }), opens ? ['b'] : ['a', 'b']);
    });
  }

  test('every retry counts, and a stream that breaks before its first event does', async (t) => {
    const retry = { attempts: 2 };
    const used = { ...config, targets: [{ provider: '@a', retry }, { provider: '@b' }] };
    const broken = up.streams([], 5, 'reset');
    const kit = await startPlanGateway(t, { a: [broken, broken, broken, up.chat('a')], b: [up.chat('b')] });
    await kit.answer(used, { body: { stream: true } });
    assert.deepEqual(kit.called(), ['a', 'a', 'a', 'b']);
    assert.deepEqual(await next(kit, used), ['b']);
  });

  test('of one config is no other’s', async (t) => {
    const kit = await opened(t, [up.chat('from a')]);
    assert.deepEqual(await next(kit, { ...config, request_timeout: 9000 }), ['a']);
  });

  test('takes its target out of a load balance', async (t) => {
    const strategy = { mode: 'loadbalance', cb_config: breaker };
    const used = { ...config, strategy };
    const kit = await startPlanGateway(t, { a: [up.fails(500)], b: [up.chat('from b')] });
    while (kit.callsOf('a').length < 3) await kit.answer(used);
    for (let i = 0; i < 12; i++) assert.deepEqual(await next(kit, used), ['b']);
  });
});
