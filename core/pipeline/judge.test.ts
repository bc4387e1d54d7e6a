import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Hooks } from './plugin.ts';
import { definePlugin, judged } from './plugin.ts';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';

const asked = (stream = false) => ({
  path: '/v1/chat/completions',
  headers: { 'x-service-provider': 'mock', 'content-type': 'application/json' },
  body: { model: 'mock-gpt', messages: [{ role: 'user', content: 'Hi' }], stream },
});

/** What the log would say of the guardrails of one request. */
async function verdicts(
  t: TestContext,
  hooks: Hooks,
  options: { stream?: boolean; hold?: boolean; skip?: boolean } = {},
) {
  const plugin = definePlugin({
    name: 'guard',
    capabilities: { guardrail: true, ...(options.hold === true ? { stream: 'hold' as const } : {}) },
    create: () => hooks,
  });
  const observer = definePlugin({ name: 'observer', create: () => ({ request: () => undefined }) });
  const gateway = await startTestGateway(t, {
    plugins: [{ plugin, onError: options.skip === true ? 'skip' : 'fail' }, observer, providerPlugin()],
  });
  const { path, ...request } = asked(options.stream);
  const answer = await send(`${gateway.url}${path}`, { method: 'POST', ...request });
  const { facts } = await gateway.untilSettled();
  for (const { name, ms } of facts.verdicts) assert.ok(name === 'guard' && ms >= 0);
  return { status: answer.status, said: facts.verdicts.map(({ hook, verdict }) => `${hook} ${verdict}`) };
}

const refuse = (): never => {
  throw new GatewayError('hooks_failed', 'No.');
};
const breakDown = (): never => {
  throw new TypeError('broken');
};

describe('what is known of guardrails', () => {
  test('what the plugin says, of each hook for itself', async (t) => {
    const { said } = await verdicts(t, {
      request: (context) => context.set(judged, 'passed'),
      attempt: (context) => void context.set(judged, 'changed'),
      response: async (context) => {
        await Promise.resolve();
        context.set(judged, 'skipped');
      },
    });
    assert.deepEqual(said, ['request passed', 'attempt changed', 'response skipped']);
  });

  test('a hook that says nothing has not passed anything', async (t) => {
    const { said } = await verdicts(t, {
      request: () => undefined,
      attempt: () => Promise.resolve(undefined),
    });
    assert.deepEqual(said, ['request unknown', 'attempt unknown']);
  });

  const refusals: [string, Hooks, string[]][] = [
    ['a refusal', { request: refuse }, ['request refused']],
    ['a refusal that takes its time', { request: () => Promise.resolve().then(refuse) }, ['request refused']],
    ['a refused answer', { response: refuse }, ['response refused']],
  ];
  for (const [name, hooks, expected] of refusals) {
    test(name, async (t) => {
      assert.deepEqual(await verdicts(t, hooks), { status: 446, said: expected });
    });
  }

  test('a guardrail that fails has passed nothing, also where requests go on without it', async (t) => {
    assert.deepEqual(await verdicts(t, { request: breakDown }), { status: 500, said: ['request failed'] });
    const going = { request: breakDown, response: () => Promise.reject(new TypeError('broken')) };
    assert.deepEqual(await verdicts(t, going, { skip: true }), {
      status: 200,
      said: ['request failed', 'response failed'],
    });
  });

  test('a stream that is held is judged as a whole', async (t) => {
    const { said } = await verdicts(
      t,
      { response: (context) => context.set(judged, 'passed') },
      { stream: true, hold: true },
    );
    assert.deepEqual(said, ['stream passed']);
  });

  test('a tap is judged at its end', async (t) => {
    const tap = (end?: Hooks['stream']): Hooks => ({
      stream:
        end ??
        ((context) => ({ event: (event, emit) => emit(event), end: () => context.set(judged, 'passed') })),
    });
    assert.deepEqual((await verdicts(t, tap(), { stream: true })).said, ['stream passed']);
    assert.deepEqual(
      (
        await verdicts(
          t,
          tap(() => ({ event: refuse })),
          { stream: true },
        )
      ).said,
      ['stream refused'],
    );
    const failing = tap(() => ({ event: breakDown }));
    assert.deepEqual((await verdicts(t, failing, { stream: true, skip: true })).said, ['stream failed']);
  });

  test('a guardrail that the request never reached has no verdict', async (t) => {
    const first = definePlugin({ name: 'first', create: () => ({ request: refuse }) });
    const guard = definePlugin({
      name: 'guard',
      capabilities: { guardrail: true },
      create: () => ({ request: () => undefined }),
    });
    const gateway = await startTestGateway(t, { plugins: [first, guard, providerPlugin()] });
    const { path, ...request } = asked();
    await send(`${gateway.url}${path}`, { method: 'POST', ...request });
    assert.deepEqual((await gateway.untilSettled()).facts.verdicts, []);
  });
});
