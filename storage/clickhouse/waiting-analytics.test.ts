import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Analytics } from '../../core/ports/analytics.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { recordingLog } from '../embedded/chdb-fixture.ts';
import { createNoAnalytics } from '../none/no-analytics.ts';
import { AnalyticsStartError } from './store-errors.ts';
import { openWhenReachable } from './waiting-analytics.ts';

const place = { url: 'http://ch:1', username: 'u', database: 'd' };
const failure = (reason: string, lasting: boolean): AnalyticsStartError =>
  new AnalyticsStartError(place, { reason, remedy: 'Do this.', lasting });
const isAway = (reason: string) => (error: unknown) =>
  GatewayError.is(error) && error.code === 'store_unavailable' && error.message.includes(reason);
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Opens as the script says, one entry for each attempt; then with success. */
function scripted(...script: (Error | Promise<Analytics>)[]) {
  const clock = new ManualClock();
  const log = recordingLog();
  const store = { ...createNoAnalytics(), closed: 0, close: () => Promise.resolve(void (store.closed += 1)) };
  let attempts = 0;
  const open = (): Promise<Analytics> => {
    const next = script[attempts++];
    return next instanceof Error ? Promise.reject(next) : (next ?? Promise.resolve(store));
  };
  return { clock, log, store, open, attempts: () => attempts, parts: { clock, log, open } };
}

test('a server that answers is used at once', async () => {
  const { parts, clock, log, store } = scripted();
  const analytics = await openWhenReachable(parts);
  await analytics.ping();
  assert.deepEqual([clock.waiting, log.lines.length], [0, 0]);
  await analytics.close();
  assert.equal(store.closed, 1);
});

test('a server that is away refuses everything with the reason, until an attempt succeeds', async () => {
  const away = failure('nobody there', false);
  const { parts, clock, log, attempts } = scripted(away, away, away);
  const analytics = await openWhenReachable(parts);
  const window = { from: 0, to: 1 };
  const visibility = { organisationId: 'o' };
  const calls = [
    () => analytics.ping(),
    () => analytics.insert('requests', new Uint8Array(1), 't'),
    () => analytics.groups({ by: 'model', columns: [], window, visibility, limit: 1, offset: 0 }),
    () => analytics.requestById('x', window, visibility),
    () => analytics.feedbackById('x', window, visibility),
  ];
  for (const call of calls) await assert.rejects(call(), isAway('nobody there'));
  for (let i = 2; i <= 4; i += 1) {
    clock.advance(30_000);
    await settled();
    assert.equal(attempts(), i);
  }
  await analytics.ping();
  assert.equal(log.lines.length, 2, log.lines.join('\n'));
  assert.match(log.lines[0] ?? '', /nobody there.*Do this\..*wait in the journal/);
  assert.match(log.lines[1] ?? '', /answers now/);
});

test('attempts come at growing distances, at most half a minute apart', async () => {
  const { parts, clock, attempts } = scripted(...Array.from({ length: 40 }, () => failure('away', false)));
  await openWhenReachable(parts);
  clock.advance(500);
  await settled();
  assert.equal(attempts(), 2, 'the second attempt comes within half a second');
  for (let i = 3; i <= 12; i += 1) {
    clock.advance(30_000);
    await settled();
  }
  const before = attempts();
  clock.advance(14_999);
  await settled();
  assert.equal(attempts(), before, 'after many failures it waits for a quarter of a minute at least');
});

test('what waiting cannot mend ends the start, and later is an error in the log', async () => {
  const lasting = failure('wrong password', true);
  await assert.rejects(openWhenReachable(scripted(lasting).parts), lasting);
  const { parts, clock, log } = scripted(failure('away', false), lasting, lasting);
  const analytics = await openWhenReachable(parts);
  for (let i = 0; i < 2; i += 1) {
    clock.advance(30_000);
    await settled();
  }
  await assert.rejects(analytics.ping(), isAway('wrong password'));
  assert.deepEqual(
    log.lines.map((line) => /(away|wrong password)/.exec(line)?.[1]),
    ['away', 'wrong password'],
  );
  clock.advance(30_000);
  await settled();
  await analytics.ping();
});

test('a server that says nothing delays the start by ten seconds and may still answer', async () => {
  let answer: (store: Analytics) => void = () => undefined;
  const { parts, clock, store } = scripted(new Promise((resolve) => (answer = resolve)));
  const opening = openWhenReachable(parts);
  await settled();
  clock.advance(10_000);
  const analytics = await opening;
  await assert.rejects(analytics.ping(), isAway('has not answered yet'));
  answer(store);
  await settled();
  await analytics.ping();
});

test('closed while it waits, it tries no more; a store that opens after that is closed', async () => {
  const waiting = scripted(failure('away', false));
  await (await openWhenReachable(waiting.parts)).close();
  assert.equal(waiting.clock.waiting, 0);
  let answer: (store: Analytics) => void = () => undefined;
  const late = scripted(failure('away', false), new Promise((resolve) => (answer = resolve)));
  const analytics = await openWhenReachable(late.parts);
  late.clock.advance(500);
  await analytics.close();
  answer(late.store);
  await settled();
  assert.equal(late.store.closed, 1);
});

test('pings that come while one is under way share it, its failure too', async () => {
  const { parts, store } = scripted();
  let pings = 0;
  let settle: { resolve: () => void; reject: (error: Error) => void } | undefined;
  store.ping = () => {
    pings += 1;
    return new Promise((resolve, reject) => (settle = { resolve, reject }));
  };
  const analytics = await openWhenReachable(parts);
  const first = [analytics.ping(), analytics.ping()];
  assert.equal(pings, 1);
  settle?.reject(new Error('gone'));
  for (const ping of first) await assert.rejects(ping, /gone/);
  const next = analytics.ping();
  assert.equal(pings, 2);
  settle?.resolve();
  await next;
});
