import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { delta, role } from '../../kit/chat-stream-kit.ts';
import { definePlugin } from '../../../core/pipeline/plugin.ts';
import { providerPlugin } from '../../kit/gateway-kit.ts';
import { until } from '../../kit/http-kit.ts';
import { startPlanGateway, type Asked, type PlanKit } from '../../kit/plan-kit.ts';
import * as up from '../../kit/upstream-scenes.ts';
import type { UpstreamScene } from '../../kit/upstream-scenes.ts';

interface AbortCase {
  readonly name: string;
  readonly config: object;
  readonly a?: readonly UpstreamScene[];
  readonly b?: readonly UpstreamScene[];
  readonly stream?: boolean;
  /** Comes to the point at which the client leaves. */
  readonly reach?: (kit: PlanKit, one: Asked) => Promise<unknown>;
  /** Calls by then; none is made after it. */
  readonly calls: readonly string[];
  /** Of these, how many are open. */
  readonly open: number;
}

const every = { request_timeout: 600_000, first_token_timeout: 500_000, idle_timeout: 400_000 };
const breaker = { failure_threshold: 3, cooldown_interval: 30_000 };
const retry = { attempts: 5, on_status_codes: [429, 499, 500, 502, 503, 504] };
const alone = { provider: '@a', ...every, retry, cb_config: breaker };
const both = {
  ...every,
  retry,
  strategy: { mode: 'fallback', cb_config: breaker },
  targets: [{ provider: '@a', retry: { attempts: 0 } }, { provider: '@b' }],
};
const racing = { ...both, hedge: { after_ms: 300, max: 1 } };
const pieces = [role, delta('x'), delta('y')];
const pass = (ms: number) => (kit: PlanKit) => kit.clock.pass(ms);
const heard = (ms: number) => async (kit: PlanKit, one: Asked) => {
  await kit.clock.pass(ms);
  await until(() => one.text.includes('"x"'), 'the first words');
};

const cases: readonly AbortCase[] = [
  { name: 'while it connects', config: alone, a: [up.neverConnects()], calls: ['a'], open: 1 },
  {
    name: 'while the head is awaited',
    config: alone,
    a: [up.silent()],
    reach: pass(50),
    calls: ['a'],
    open: 1,
  },
  {
    name: 'after the head',
    config: alone,
    a: [up.stallsAfterHead()],
    reach: pass(50),
    calls: ['a'],
    open: 1,
  },
  {
    name: 'in the middle of a whole answer',
    config: alone,
    a: [up.slowly(10, '{"id":"c"}')],
    reach: pass(55),
    calls: ['a'],
    open: 1,
  },
  {
    name: 'before the first event of a stream',
    config: alone,
    stream: true,
    a: [up.streams([], 10, 'hang')],
    reach: pass(50),
    calls: ['a'],
    open: 1,
  },
  {
    name: 'in the middle of a stream',
    config: alone,
    stream: true,
    a: [up.streams(pieces, 10, 'hang')],
    reach: heard(50),
    calls: ['a'],
    open: 1,
  },
  {
    name: 'in the middle of a stream of a fallback',
    config: both,
    stream: true,
    a: [up.fails(500)],
    b: [up.streams(pieces, 10, 'hang')],
    reach: heard(50),
    calls: ['a', 'b'],
    open: 1,
  },
  {
    name: 'during the wait before a retry',
    config: alone,
    a: [up.fails(503)],
    reach: pass(100),
    calls: ['a'],
    open: 0,
  },
  {
    name: 'during the wait that a provider asked for',
    config: { ...alone, retry: { ...retry, use_retry_after_header: true } },
    a: [up.fails(429, ['retry-after', '30'])],
    reach: pass(15_000),
    calls: ['a'],
    open: 0,
  },
  {
    name: 'during a retry',
    config: alone,
    a: [up.fails(503), up.silent()],
    reach: pass(1100),
    calls: ['a', 'a'],
    open: 1,
  },
  {
    name: 'while a fallback is tried',
    config: both,
    a: [up.fails(500)],
    b: [up.silent()],
    reach: pass(50),
    calls: ['a', 'b'],
    open: 1,
  },
  {
    name: 'during a race, before the second attempt',
    config: racing,
    a: [up.silent()],
    b: [up.silent()],
    reach: pass(299),
    calls: ['a'],
    open: 1,
  },
  {
    name: 'during a race of two',
    config: racing,
    a: [up.silent()],
    b: [up.silent()],
    reach: pass(350),
    calls: ['a', 'b'],
    open: 2,
  },
  {
    name: 'during a race of two streams that have not begun',
    config: racing,
    stream: true,
    a: [up.streams([], 10, 'hang')],
    b: [up.streams([], 10, 'hang')],
    reach: pass(350),
    calls: ['a', 'b'],
    open: 2,
  },
  {
    name: 'during a race in which one waits for its retry',
    config: { ...racing, targets: [{ provider: '@a' }, { provider: '@b' }] },
    a: [up.silent()],
    b: [up.fails(503)],
    reach: pass(400),
    calls: ['a', 'b'],
    open: 1,
  },
  {
    name: 'in the middle of the stream that won a race',
    config: racing,
    stream: true,
    a: [up.silent()],
    b: [up.streams(pieces, 10, 'hang')],
    reach: heard(400),
    calls: ['a', 'b'],
    open: 1,
  },
];

describe('a client that leaves', () => {
  for (const { name, config, a = [], b = [], stream = false, reach, calls, open } of cases) {
    test(`${name}: nothing is left of it`, async (t) => {
      const kit = await startPlanGateway(t, { a, b });
      const one = await kit.ask(config, { body: { stream } });
      await reach?.(kit, one);
      assert.deepEqual([kit.called(), kit.transport.open], [calls, open], 'the point is reached');
      one.abort();
      const { outcome, facts } = await one.settled();
      await kit.assertNothingLeft();
      assert.deepEqual([outcome.kind, outcome.error?.code], ['cancelled', 'client_closed']);
      assert.equal(facts.attempts, calls.length, 'not one more attempt was begun');
      // Not by time either.
      await kit.clock.pass(700_000);
      assert.deepEqual(kit.called(), calls, 'nobody is called for a client that has left');
      const aborted = kit.transport.calls.filter((call) => call.aborted !== undefined).length;
      const lost = config === racing && name.includes('won') ? 1 : 0;
      assert.equal(aborted, open + lost, 'the calls that were open were broken off');
      assert.equal(kit.gateway.settled.length, 1, 'it settled once');
    });
  }

  test('while its body comes: nobody is called', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.chat('from a')] });
    const one = kit.begin(both, { unfinished: true });
    await until(() => kit.gateway.held() === 1, 'the request has begun');
    one.abort();
    assert.equal((await one.settled()).outcome.kind, 'cancelled');
    await kit.clock.pass(700_000);
    assert.deepEqual(kit.called(), []);
  });

  test('while a plugin thinks about an attempt: its provider is not called', async (t) => {
    let release: () => void = () => undefined;
    const thinking = definePlugin({
      name: 'thinking',
      create: () => ({ attempt: () => new Promise<void>((resolve) => (release = resolve)) }),
    });
    const plugins = [thinking, providerPlugin()];
    const kit = await startPlanGateway(t, { a: [up.chat('from a')], b: [up.chat('from b')] }, { plugins });
    for (const config of [both, racing, alone]) {
      const one = kit.begin(config);
      const before = kit.gateway.held();
      await until(() => kit.gateway.held() > before, 'the request has begun');
      await kit.clock.pass(10);
      one.abort();
      await kit.clock.pass(10);
      release();
      assert.equal((await one.settled()).outcome.kind, 'cancelled');
    }
    await kit.clock.pass(700_000);
    assert.deepEqual(kit.called(), []);
  });

  test('while a token is fetched for it: the provider is not called', async (t) => {
    const azure = {
      base_url: 'http://a.test',
      credentials: 'entra' as const,
      azure_entra_client_id: 'client',
      azure_entra_tenant_id: 'tenant',
      azure_entra_client_secret: 'secret',
    };
    const kit = await startPlanGateway(t, { a: [up.chat('from a')] }, { providers: { azure } });
    const token = up.answers(200, { access_token: 'token', expires_in: 3600, token_type: 'Bearer' });
    kit.transport.script('https://login.microsoftonline.com', up.after(900, token));
    const one = await kit.ask({ ...alone, provider: '@azure' });
    assert.deepEqual(kit.called(), ['login.microsoftonline.com']);
    one.abort();
    await kit.clock.pass(1000);
    assert.equal((await one.settled()).outcome.kind, 'cancelled');
    await kit.assertNothingLeft();
    assert.deepEqual(kit.called(), ['login.microsoftonline.com'], 'not even to be broken off');
    const next = await kit.answer({ ...alone, provider: '@azure' });
    assert.deepEqual([next.status, kit.called()], [200, ['login.microsoftonline.com', 'a']]);
  });

  test('says nothing about its provider: the breaker stays closed', async (t) => {
    const kit = await startPlanGateway(t, { a: [up.silent()], b: [up.chat('from b')] });
    for (let i = 0; i < 6; i++) {
      const one = await kit.ask(both);
      one.abort();
      await one.settled();
    }
    assert.deepEqual(kit.called(), ['a', 'a', 'a', 'a', 'a', 'a']);
  });
});
