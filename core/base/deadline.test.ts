import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { DeadlineWheel } from './deadline.ts';

describe('DeadlineWheel', () => {
  it('expires what is past, once, and leaves the rest', async () => {
    const wheel = new DeadlineWheel();
    const expired: string[] = [];
    const add = (name: string, ms: number) => {
      const deadline = wheel.create(() => expired.push(name));
      deadline.set(ms);
      return deadline;
    };
    add('short', 10);
    add('other short', 20);
    add('cleared', 10).clear();
    add('stopped', 10).set(0);
    add('moved', 10).set(60_000);
    await pause(150);
    assert.deepEqual(expired.sort(), ['other short', 'short']);
  });

  it('counts a refreshed limit anew', async () => {
    const wheel = new DeadlineWheel();
    let expired = 0;
    const deadline = wheel.create(() => expired++);
    deadline.set(150);
    for (let i = 0; i < 5; i++) {
      await pause(50);
      deadline.refresh();
    }
    assert.equal(expired, 0);
    await pause(400);
    assert.equal(expired, 1);
    deadline.refresh();
    await pause(250);
    assert.equal(expired, 1, 'a limit that ran out is not refreshed');
  });

  it('survives deadlines that clear each other and start again while they expire', async () => {
    const wheel = new DeadlineWheel();
    const deadlines = Array.from({ length: 5 }, () =>
      wheel.create(() => {
        for (const other of deadlines) other.clear();
        count++;
        if (count < 3) deadlines[count]?.set(5);
      }),
    );
    let count = 0;
    for (const deadline of deadlines) deadline.set(5);
    await pause(300);
    assert.equal(count, 3);
  });
});
