import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type Line,
  recordingLog,
  RecordingMetrics,
} from '../../lifecycle/recording-services.test-support.ts';
import { ManualClock, settle } from '../../../tests/conformance/manual-clock.ts';
import { JobRegistry } from './job-registry.ts';

function begin() {
  const clock = new ManualClock();
  const lines: Line[] = [];
  const metrics = new RecordingMetrics();
  return { clock, lines, metrics, registry: new JobRegistry({ clock, log: recordingLog(lines), metrics }) };
}

const work = { name: 'mail.send', id: 'a', data: {}, attempt: 1 };

describe('how jobs are done', () => {
  test('the waits between attempts double up to a minute, or to what the definition says', () => {
    const { registry } = begin();
    registry.define({ name: 'mail.send', longestWaitMs: 90_000, handle: () => Promise.resolve() });
    assert.deepEqual(
      [1, 2, 3, 6, 7, 1000].map((failed) => registry.waitMs('other', failed)),
      [1000, 2000, 4000, 32_000, 60_000, 60_000],
    );
    assert.deepEqual(
      [1, 7, 8, 1000].map((failed) => registry.waitMs('mail.send', failed)),
      [1000, 64_000, 90_000, 90_000],
    );
  });

  test('there are 5 attempts of a minute unless the definition says otherwise', async () => {
    const { registry, clock } = begin();
    registry.define({ name: 'mail.send', handle: () => new Promise<void>(() => undefined) });
    assert.equal(registry.attemptsOf('mail.send'), 5);
    const attempt = registry.attempt({ ...work, attempt: 4 });
    await clock.pass(59_999);
    assert.equal(clock.waiting, 1);
    await clock.pass(1);
    assert.equal((await attempt).outcome, 'retried');
    const last = registry.attempt({ ...work, attempt: 5 });
    await clock.pass(60_000);
    assert.equal((await last).outcome, 'given_up');
    assert.equal(clock.waiting, 0);
  });

  test('a name that nobody defined fails, and is counted under a name of its own', async () => {
    const { registry, metrics, lines } = begin();
    assert.equal((await registry.attempt({ ...work, name: 'mail.other' })).outcome, 'retried');
    assert.equal(metrics.values.get('weir_jobs_total{name=unknown,outcome=retried}'), 1);
    assert.equal(lines[0]?.fields['job'], 'mail.other');
  });

  test('of each job is known how its last attempt ended, how long it took, and the last error, without secrets', async () => {
    const { registry, clock } = begin();
    let refusal: string | undefined;
    registry.define({
      name: 'mail.send',
      handle: () =>
        new Promise((resolve, reject) => {
          clock.after(20, () => (refusal === undefined ? resolve() : reject(new Error(refusal))));
        }),
    });
    registry.define({ name: 'keys.expire', handle: () => Promise.resolve() });
    registry.repeat({ name: 'keys.expire', everyMs: 60_000 });
    const started = clock.now();
    const attempt = async (attempt: number): Promise<void> => {
      const ended = registry.attempt({ ...work, attempt });
      await clock.pass(20);
      await ended;
    };
    refusal = `https://u:pw@hooks.test/secret?key=k said no to ann@example.test; ${'x'.repeat(1000)}`;
    await attempt(1);
    refusal = undefined;
    await attempt(2);
    await registry.attempt({ ...work, name: 'mail.other' });
    const [keys, mail, ...others] = registry.runs();
    const never = { attempts: 0, failed: 0, last: undefined, error: undefined };
    assert.deepEqual([keys, others], [{ name: 'keys.expire', everyMs: 60_000, ...never }, []]);
    const message = mail?.error?.message ?? '';
    assert.match(message, /^https:\/\/…@hooks\.test\/… said no to …@example\.test; x+$/);
    assert.equal(message.length, 300);
    assert.deepEqual(mail, {
      name: 'mail.send',
      everyMs: undefined,
      attempts: 2,
      failed: 1,
      last: { at: started + 20, tookMs: 20, outcome: 'done' },
      error: { at: started, message },
    });
  });

  test('at the end handlers are told, waited for 5 s at the most, and no attempt begins', async () => {
    const { registry, clock } = begin();
    const told: boolean[] = [];
    registry.define({
      name: 'mail.send',
      handle: ({ signal }) =>
        new Promise<void>(() => signal.addEventListener('abort', () => told.push(signal.aborted))),
    });
    const attempt = registry.attempt(work);
    const stopped = registry.stop(attempt);
    assert.deepEqual(told, [true]);
    assert.equal((await registry.attempt(work)).outcome, 'interrupted');
    await clock.pass(5000);
    assert.equal(await stopped, false);
    const another = begin();
    assert.equal(await another.registry.stop(Promise.resolve()), true);
    await settle();
    assert.equal(another.clock.waiting, 0);
  });
});
