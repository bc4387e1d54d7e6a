import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { GatewayError } from '../errors/gateway-error.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { recordingLog, type Line } from '../lifecycle/recording-services.test-support.ts';
import { isPromise } from '../base/turns.ts';
import { callHook, PendingHooks, type PluginInstance } from './call-hook.ts';
import { definePlugin } from './plugin.ts';

function bench(change: Partial<PluginInstance> = {}, bounded = false) {
  const clock = new ManualClock();
  const pending = new PendingHooks(clock);
  const lines: Line[] = [];
  const errors: string[] = [];
  const runtime = {
    clock,
    log: recordingLog(lines),
    countPluginError: (plugin: string, hook: string) => void errors.push(`${plugin}/${hook}`),
    ...(bounded ? { pending } : {}),
  };
  const instance: PluginInstance = {
    definition: definePlugin({ name: 'one', create: () => ({}) }),
    name: 'one',
    hooks: {},
    onError: 'fail',
    timeoutMs: 100,
    builtIn: false,
    ...change,
  };
  const call = <T>(run: () => T | Promise<T>) => callHook(instance, 'request', runtime, run);
  return { clock, lines, errors, call, pending };
}

describe('callHook', () => {
  it('gives back what a synchronous hook returns, without a promise', () => {
    const { call, clock } = bench();
    assert.equal(
      call(() => 7),
      7,
    );
    assert.equal(clock.waiting, 0);
  });

  it('bounds a promise, and stops its timer when it has settled', async () => {
    const { call, clock, errors } = bench();
    const quick = call(() => Promise.resolve(7));
    assert.equal(clock.waiting, 1);
    assert.equal(await quick, 7);
    await clock.pass(0);
    assert.equal(clock.waiting, 0);
    const slow = call(() => new Promise(() => undefined));
    const refused = assert.rejects(Promise.resolve(slow), { code: 'plugin_timeout', plugin: 'one' });
    await clock.pass(100);
    await refused;
    assert.deepEqual(errors, ['one/request']);
  });

  it('a shutdown bounds hooks that are under way and those that begin, whatever their own bound is', async () => {
    for (const timeoutMs of [0, 30_000]) {
      const { call, clock, pending } = bench({ timeoutMs }, true);
      const before = call(() => new Promise(() => undefined));
      const refusedBefore = assert.rejects(Promise.resolve(before), /within 5000 ms/);
      const quick = call(() => Promise.resolve(7));
      pending.beginShutdown();
      const after = call(() => new Promise(() => undefined));
      const refusedAfter = assert.rejects(Promise.resolve(after), /within 5000 ms/);
      assert.equal(await quick, 7);
      await clock.pass(5000);
      await Promise.all([refusedBefore, refusedAfter]);
    }
  });

  it('a shutdown leaves the hooks of built-in plugins alone: an upstream may take its time', async () => {
    const { call, clock, pending } = bench({ timeoutMs: 0, builtIn: true }, true);
    let answer: (value: number) => void = () => undefined;
    const slow = call(() => new Promise<number>((resolve) => (answer = resolve)));
    pending.beginShutdown();
    await clock.pass(20_000);
    answer(7);
    assert.equal(await slow, 7);
  });

  it('0 is no bound', () => {
    const { call, clock } = bench({ timeoutMs: 0 });
    assert.ok(isPromise(call(() => Promise.resolve())));
    assert.equal(clock.waiting, 0);
  });

  it('a refusal is thrown on with the name of the plugin, and is no failure', async () => {
    const { call, errors } = bench({ onError: 'skip' });
    const refusal = new GatewayError('hooks_failed', 'No.');
    assert.throws(
      () =>
        call(() => {
          throw refusal;
        }),
      refusal,
    );
    assert.equal(refusal.plugin, 'one');
    const named = new GatewayError('hooks_failed', 'No.', { plugin: 'other' });
    await assert.rejects(Promise.resolve(call(() => Promise.reject(named))), { plugin: 'other' });
    assert.deepEqual(errors, []);
  });

  it('anything else is a failure: logged, counted, and its text kept from the client', async () => {
    for (const thrown of [new TypeError('a secret'), 'text', undefined] as Error[]) {
      const { call, errors, lines } = bench();
      const fail = (): never => {
        throw thrown;
      };
      assert.throws(
        () => call(fail),
        (error) => GatewayError.is(error) && error.code === 'plugin_failed' && error.cause === thrown,
      );
      await assert.rejects(
        Promise.resolve(call(async () => fail())),
        (error) => GatewayError.is(error) && !error.message.includes('secret'),
      );
      assert.deepEqual(errors, ['one/request', 'one/request']);
      assert.deepEqual(lines[0]?.fields, { plugin: 'one', hook: 'request', on_error: 'fail', error: thrown });
    }
  });

  it('skip goes on as if nothing had been returned', async () => {
    const { call, clock, errors } = bench({ onError: 'skip' });
    assert.equal(
      call(() => {
        throw new Error('broken');
      }),
      undefined,
    );
    assert.equal(await call(() => Promise.reject(new Error('broken'))), undefined);
    const late = call(() => new Promise<number>(() => undefined));
    await clock.pass(100);
    assert.equal(await late, undefined);
    assert.equal(errors.length, 3);
  });

  it('takes anything with a `then` for a promise, and nothing else', () => {
    assert.equal(isPromise<unknown>({ then: () => undefined }), true);
    for (const value of [null, undefined, 0, 'then', {}, { then: 1 }]) assert.equal(isPromise(value), false);
  });
});
