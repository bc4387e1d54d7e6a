import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createMemoryCounters } from '../../../storage/memory/counters.ts';
import { ManualClock } from '../../../tests/conformance/manual-clock.ts';
import {
  type Line,
  recordingLog,
  RecordingMetrics,
} from '../../lifecycle/recording-services.test-support.ts';
import type { Counters, Decision } from '../../ports/counters.ts';
import { cooldownAtMost, cooldownMs, group, leafWith } from './breaker-leaf.test-support.ts';
import { Breakers, type AttemptOutcome } from './breakers.ts';

describe('breakers and their store', () => {
  const failing: readonly [string, () => Decision | Promise<Decision>][] = [
    [
      'throws',
      () => {
        throw new Error('away');
      },
    ],
    ['rejects', () => Promise.reject(new Error('away'))],
    ['answers without windows', () => ({ allowed: true, refusedBy: -1, windows: [] })],
    [
      'has no room',
      () => ({
        allowed: false,
        refusedBy: 0,
        windows: [{ limit: 1, windowMs: 1, remaining: 0, resetMs: 0 }],
      }),
    ],
  ];
  for (const [name, take] of failing)
    test(`one that ${name} concerns no request and opens nothing`, async () => {
      const clock = new ManualClock();
      const asked: number[] = [];
      const counters: Counters = {
        take: (_windows, amount) => {
          asked.push(amount);
          if (amount === 0) return { allowed: true, refusedBy: -1, windows: [] };
          return take();
        },
        adjust: () => Promise.reject(new Error('away')),
      };
      const breakers = new Breakers({ counters, clock });
      const leaf = leafWith({ failureThreshold: 1 });
      breakers.begin(leaf, group)?.end({ status: 500 });
      await new Promise(setImmediate);
      assert.equal(breakers.isOpen(leaf, group), false);
      assert.deepEqual(asked, [0, 1]);
    });

  test('is asked once a second at the most, also while its answer is awaited and after it failed', async () => {
    const clock = new ManualClock();
    let asked = 0;
    let answer: (() => void) | undefined;
    const counters: Counters = {
      take: () => {
        asked++;
        return new Promise((_resolve, reject) => (answer = () => reject(new Error('away'))));
      },
      adjust: () => undefined,
    };
    const breakers = new Breakers({ counters, clock });
    const leaf = leafWith({});
    for (let i = 0; i < 10; i++) breakers.isOpen(leaf, group);
    clock.advance(5000);
    breakers.isOpen(leaf, group);
    assert.equal(asked, 1);
    answer?.();
    await new Promise(setImmediate);
    for (let i = 0; i < 10; i++) breakers.begin(leaf, group)?.end('abandoned');
    assert.equal(asked, 2);
  });

  test('successes are not counted unless a share of failures is asked for', () => {
    const clock = new ManualClock();
    const keys: string[] = [];
    const memory = createMemoryCounters({ clock, log: recordingLog([]) });
    const counters: Counters = {
      take(windows, amount) {
        if (amount > 0) keys.push(...windows.map(({ key }) => key));
        return memory.take(windows, amount);
      },
      adjust: (windows, delta) => memory.adjust(windows, delta),
    };
    const breakers = new Breakers({ counters, clock });
    breakers.begin(leafWith({}, 'plain#a'), group)?.end({ status: 200 });
    breakers.begin(leafWith({ failureThresholdPercentage: 50 }, 'share#a'), group)?.end({ status: 200 });
    assert.deepEqual(keys, ['cb:all:org-1/share#a']);
    memory.close();
  });
});

describe('breakers whose store answers late', () => {
  /** Counters whose answers are kept back, in the order of the questions. */
  function late(failureThreshold: number) {
    const clock = new ManualClock();
    const memory = createMemoryCounters({ clock, log: recordingLog([]) });
    const kept: (() => void)[] = [];
    const counters: Counters = {
      take(windows, amount) {
        const decision = memory.take(windows, amount);
        return new Promise((resolve) => kept.push(() => resolve(decision)));
      },
      adjust: (windows, delta) => memory.adjust(windows, delta),
    };
    const lines: Line[] = [];
    const breakers = new Breakers({ counters, clock, log: recordingLog(lines) });
    const release = async (count = kept.length): Promise<void> => {
      for (const answer of kept.splice(0, count)) answer();
      await new Promise(setImmediate);
    };
    const opened = (): number => lines.filter(({ level }) => level === 'warn').length;
    return { clock, breakers, kept, release, opened, leaf: leafWith({ failureThreshold }) };
  }

  test('several failures at once open it once', async () => {
    const { breakers, leaf, release, opened } = late(2);
    for (let i = 0; i < 5; i++) breakers.begin(leaf, group)?.end({ status: 500 });
    await release();
    assert.equal(breakers.isOpen(leaf, group), true);
    assert.equal(opened(), 1);
  });

  test('what it says of an earlier turn changes nothing', async () => {
    const { breakers, clock, leaf, kept, release, opened } = late(1);
    breakers.begin(leaf, group)?.end({ status: 500 });
    await release(2);
    assert.equal(kept.length, 1, 'the mark is on its way');
    clock.advance(cooldownMs);
    breakers.begin(leaf, group)?.end({ status: 200 });
    assert.equal(breakers.isOpen(leaf, group), false);
    // Of these, the one that was asked for the mark says that it stands.
    await release();
    assert.equal(breakers.isOpen(leaf, group), false);
    assert.equal(opened(), 1);
  });

  test('is not asked while the breaker is open', async () => {
    const { breakers, clock, leaf, kept, release } = late(1);
    breakers.begin(leaf, group)?.end({ status: 500 });
    await release(2);
    await release();
    clock.advance(5000);
    breakers.isOpen(leaf, group);
    breakers.begin(leaf, group)?.end({ status: 500 });
    assert.equal(kept.length, 0);
  });
});

describe('breakers as they are remembered', () => {
  function lone(maxBreakers?: number) {
    const clock = new ManualClock();
    const counters = createMemoryCounters({ clock, log: recordingLog([]) });
    const options = maxBreakers === undefined ? {} : { maxBreakers };
    return { clock, counters, breakers: new Breakers({ counters, clock, ...options }) };
  }

  test('never more than the bound; the longest unused leave first, and what was open stays open', () => {
    const { clock, counters, breakers } = lone(20);
    const broken = leafWith({});
    for (let i = 0; i < 3; i++) breakers.begin(broken, group)?.end({ status: 500 });
    for (let i = 0; i < 500; i++) {
      clock.advance(1);
      breakers.begin(leafWith({}), `org-${i % 7}`)?.end({ status: 200 });
      assert.ok(breakers.size <= 20);
    }
    assert.ok(breakers.size >= 17, `${breakers.size}`);
    assert.equal(breakers.isOpen(broken, group), true);
    counters.close();
  });

  test('idle ones are forgotten', () => {
    const { clock, counters, breakers } = lone();
    for (let i = 0; i < 50; i++) breakers.isOpen(leafWith({}), group);
    assert.equal(breakers.size, 50);
    clock.advance(11 * 60_000);
    breakers.isOpen(leafWith({}), 'org-2');
    assert.equal(breakers.size, 1);
    counters.close();
  });

  test('a changed config keeps what is open and brings its new settings', () => {
    const { clock, counters, breakers } = lone();
    const leaf = leafWith({});
    for (let i = 0; i < 3; i++) breakers.begin(leaf, group)?.end({ status: 500 });
    const changed = leafWith({ failureThreshold: 1, cooldownMs: 90_000 }, leaf.id);
    assert.equal(breakers.isOpen(changed, group), true);
    clock.advance(cooldownAtMost);
    assert.equal(breakers.isOpen(changed, group), false);
    breakers.begin(changed, group)?.end({ status: 500 });
    clock.advance(89_000);
    assert.equal(breakers.isOpen(changed, group), true);
    counters.close();
  });
});

test('turns are logged with the target and counted, without its secrets', () => {
  const clock = new ManualClock();
  const lines: Line[] = [];
  const metrics = new RecordingMetrics();
  const counters = createMemoryCounters({ clock, log: recordingLog([]) });
  const breakers = new Breakers({ counters, clock, metrics, log: recordingLog(lines) });
  const leaf = leafWith({}, 'my-config#config.targets[0]');
  const scraped = (): number | undefined => {
    for (const collect of metrics.scrapes) collect();
    return metrics.values.get('weir_breakers_open');
  };
  assert.equal(scraped(), 0);
  for (let i = 0; i < 3; i++) breakers.begin(leaf, group)?.end({ status: 500 });
  assert.equal(scraped(), 1);
  clock.advance(cooldownAtMost);
  breakers.begin(leaf, group)?.end({ status: 200 });
  assert.equal(scraped(), 0);
  counters.close();
  const fields = { target: 'my-config#config.targets[0]', name: 'first', provider: 'openai' };
  const path = 'breaker of config.targets[0] is';
  assert.deepEqual(lines, [
    { level: 'warn', message: `${path} open: 3 failures within a minute`, fields },
    { level: 'info', message: `${path} half-open: the cooldown is over, one request tries`, fields },
    { level: 'info', message: `${path} closed: the request that tried came out with 200`, fields },
  ]);
  for (const to of ['open', 'half-open', 'closed'])
    assert.equal(metrics.values.get(`weir_breaker_turns_total{to=${to}}`), 1);
});

test('whatever happens: one probe at a time, and after the cooldown there is one', () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant('wait' as const), ms: fc.nat(40_000) }),
    fc.record({ do: fc.constant('begin' as const), past: fc.boolean() }),
    fc.record({
      do: fc.constant('end' as const),
      which: fc.nat(9),
      result: fc.constantFrom<AttemptOutcome>({ status: 200 }, { status: 500 }, 'abandoned'),
    }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const clock = new ManualClock();
      const counters = createMemoryCounters({ clock, log: recordingLog([]) });
      const lines: Line[] = [];
      const breakers = new Breakers({ counters, clock, log: recordingLog(lines) });
      const leaf = leafWith({ failureThreshold: 2 });
      for (let i = 0; i < 2; i++) breakers.begin(leaf, group)?.end({ status: 500 });
      const running: { end(result: AttemptOutcome): void; readonly isProbe: boolean }[] = [];
      for (const one of steps) {
        if (one.do === 'wait') clock.advance(one.ms);
        if (one.do === 'end') running.splice(one.which, 1)[0]?.end(one.result);
        if (one.do !== 'begin' || (breakers.isOpen(leaf, group) && !one.past)) continue;
        const before = lines.length;
        const attempt = breakers.begin(leaf, group);
        const isProbe = lines.length > before;
        assert.ok(!isProbe || !running.some((other) => other.isProbe), 'two probes');
        running.push({ end: (result) => attempt?.end(result), isProbe });
      }
      for (const attempt of running) attempt.end('abandoned');
      clock.advance(cooldownAtMost);
      assert.equal(breakers.isOpen(leaf, group), false);
      counters.close();
    }),
    { numRuns: 300 },
  );
});
