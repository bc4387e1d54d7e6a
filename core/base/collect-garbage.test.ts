import assert from 'node:assert/strict';
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { collectAfterStart } from './collect-garbage.ts';

/** Long enough that what the test runner does beside it is no work. */
const lookMs = 1500;

/** Forced collections by when they began: at the end of the start, and after `work`. */
async function collections(work: () => void): Promise<{ atStart: number; later: number }> {
  const times: number[] = [];
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      const { flags = 0 } = (entry as { detail?: { flags?: number } }).detail ?? {};
      // Those that V8 begins by itself do not count.
      if ((flags & constants.NODE_PERFORMANCE_GC_FLAGS_FORCED) !== 0) times.push(entry.startTime);
    }
  });
  await pause(300);
  observer.observe({ entryTypes: ['gc'] });
  const start = performance.now();
  collectAfterStart(lookMs);
  const started = performance.now();
  work();
  await pause(1.3 * lookMs);
  observer.disconnect();
  return {
    atStart: times.filter((time) => time >= start && time < started).length,
    later: times.filter((time) => time >= started).length,
  };
}

function workFor(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

test('a process is collected at the end of its start, and once more when it is idle after it', async () => {
  assert.deepEqual(await collections(() => undefined), { atStart: 1, later: 1 });
});

test('a process that works after its start is left alone', async () => {
  assert.deepEqual(await collections(() => workFor(lookMs / 3)), { atStart: 1, later: 0 });
});
