/** Each process hears what the others have measured, and no more than it can take. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TargetLatency } from '../../core/ports/latencies.ts';
import { RoutingState, SharedLatencies } from '../../core/routing/plan/routing-state.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { LatencyExchange, tellLatencies } from './latencies.ts';

/** Processes of one gateway. */
function open() {
  const clock = new ManualClock();
  const exchange = new LatencyExchange(new SharedLatencies(clock), clock);
  const join = () => {
    const state = new RoutingState(clock);
    const messages = { reports: 0, heard: 0, largest: 0 };
    const size = (known: readonly unknown[]): void => {
      messages.largest = Math.max(messages.largest, known.length);
    };
    const member = exchange.join((known) => {
      messages.heard++;
      size(known);
      state.learn(known, false);
      return Promise.resolve();
    });
    tellLatencies(state, clock, (reports, onAnswer) => {
      messages.reports++;
      size(reports);
      onAnswer(member.report(reports));
    });
    return { state, member, messages };
  };
  const pass = (ms: number): Promise<void> => clock.pass(ms);
  return { clock, exchange, join, pass };
}

test('a measurement is known to all after a second, and one that starts asks for it', async () => {
  const { join, pass } = open();
  const [one, other, third] = [join(), join(), join()];
  one.state.recordLatency('a', 100);
  await pass(1000);
  for (const { state } of [one, other, third]) assert.equal(state.latency('a'), 100);
  const successor = join();
  assert.deepEqual(
    successor.member.recent().map(({ id, ms }) => [id, ms]),
    [['a', 100]],
  );
});

test('many measurements are few messages, and nothing is sent while nothing is measured', async () => {
  const { join, pass } = open();
  const [one, other] = [join(), join()];
  for (let i = 0; i < 1000; i++) one.state.recordLatency('a', 100);
  await pass(5000);
  assert.deepEqual(one.messages, { reports: 1, heard: 0, largest: 1 });
  assert.deepEqual(other.messages, { reports: 0, heard: 1, largest: 1 });
  for (let i = 0; i < 50; i++) {
    one.state.recordLatency('a', 100);
    other.state.recordLatency('a', 300);
    await pass(100);
  }
  await pass(2000);
  for (const { messages } of [one, other]) {
    assert.ok(messages.reports <= 12, String(messages.reports));
    assert.ok(messages.heard <= 14, String(messages.heard));
  }
  const [known, same] = [one.state.latency('a') ?? 0, other.state.latency('a') ?? 0];
  assert.ok(Math.abs(known - same) < 1, `${known} and ${same}`);
});

test('no message holds more than 1,000 targets; the others follow', async () => {
  const { join, pass } = open();
  const [one, other] = [join(), join()];
  for (let id = 0; id < 2500; id++) one.state.recordLatency(`t${id}`, id);
  await pass(4000);
  assert.equal(one.messages.largest, 1000);
  assert.equal(other.messages.largest, 1000);
  for (const id of [0, 1200, 2499]) assert.equal(other.state.latency(`t${id}`), id);
});

test('a process that does not hear gets one message, and the rest when it hears again', async () => {
  const { exchange, join, pass } = open();
  const one = join();
  const heard: (readonly TargetLatency[])[] = [];
  let hear: () => void = () => undefined;
  exchange.join((known) => {
    heard.push(known);
    return new Promise((resolve) => (hear = resolve));
  });
  for (const ms of [100, 200, 300]) {
    one.state.recordLatency('a', ms);
    one.state.recordLatency(`only ${ms}`, ms);
    await pass(2000);
  }
  assert.equal(heard.length, 1);
  hear();
  await pass(1000);
  assert.deepEqual(heard[1]?.map(({ id }) => id).sort(), ['a', 'only 200', 'only 300']);
});

test('one that has ended is told nothing, and a report that gets lost does not stop the next', async () => {
  const { clock, exchange, join, pass } = open();
  const ended: unknown[] = [];
  exchange.join((known) => Promise.resolve(void ended.push(known))).end();
  const [one, other] = [join(), join()];
  const state = new RoutingState(clock);
  let isLost = true;
  const member = exchange.join(() => Promise.resolve());
  tellLatencies(state, clock, (reports, onAnswer, onError) =>
    isLost ? onError(new Error('lost')) : onAnswer(member.report(reports)),
  );
  state.recordLatency('a', 100);
  await pass(1000);
  isLost = false;
  state.recordLatency('a', 100);
  await pass(1000);
  assert.deepEqual([one.state.latency('a'), other.state.latency('a')], [100, 100]);
  assert.deepEqual(ended, []);
});
