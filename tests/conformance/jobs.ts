/** What every store of jobs must do. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import {
  type Line,
  realClock,
  recordingLog,
  RecordingMetrics,
} from '../../core/lifecycle/recording-services.test-support.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { JobRun, Jobs } from '../../core/ports/jobs.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Metrics } from '../../core/ports/metrics.ts';
import { eventually } from '../kit/process-kit.ts';

/** How a suite opens jobs. */
interface OpenOptions {
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly firstWaitMs: number;
  readonly maxWaiting: number;
}

/** A store of jobs, empty at first. */
interface JobsPlace {
  /** Opens it: again after what was opened before is closed, or at the same time when it is `shared`. */
  open(options: OpenOptions): Promise<Jobs>;
  /** For `jobs-child.ts`, which opens it in a process of its own. */
  readonly child: readonly string[];
}

/** What the suite needs of a store. */
interface JobsSubject {
  readonly name: string;
  readonly skip: string | false;
  /** True when several gateways may use it at the same time. */
  readonly shared: boolean;
  /** Called for each test. */
  place(t: TestContext): Promise<JobsPlace>;
}

const firstWaitMs = 40;
const maxWaiting = 5;

/** Jobs with what they have done, logged and counted. */
async function begin(t: TestContext, place: JobsPlace, bounds = { maxWaiting }) {
  const lines: Line[] = [];
  const metrics = new RecordingMetrics();
  const runs: JobRun<unknown>[] = [];
  const jobs = await place.open({
    log: recordingLog(lines),
    clock: realClock,
    metrics,
    firstWaitMs,
    ...bounds,
  });
  t.after(() => jobs.close());
  return {
    jobs,
    lines,
    runs,
    total: (name: string, outcome: string) =>
      metrics.values.get(`weir_jobs_total{name=${name},outcome=${outcome}}`),
    /** Defines a job that is remembered in `runs`. */
    define: (
      name: string,
      work: (run: JobRun<unknown>) => Promise<void> | void = () => undefined,
      more = {},
    ) =>
      jobs.define({
        name,
        ...more,
        async handle(run: JobRun<unknown>) {
          runs.push(run);
          await work(run);
        },
      }),
    ran: (count: number) =>
      eventually(
        () => (runs.length >= count ? true : undefined),
        () => `${count} runs, not ${runs.length}: ${JSON.stringify(lines)}`,
      ),
    idle: () =>
      eventually(async () => {
        const { waiting, running } = await jobs.counts();
        return waiting + running === 0 || undefined;
      }),
  };
}

const codeOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => 'nothing',
    (error: { code?: unknown; name: string }) => error.code ?? error.name,
  );
/** When a repeated job was to begin: its id ends with it. */
const slotOf = ({ id }: JobRun<unknown>): number => Number(/(\d+)$/.exec(id)?.[1]);

/** Runs the suite. */
export function jobsConformance({ name, skip, shared, place }: JobsSubject): void {
  describe(`jobs: ${name}`, { skip }, () => {
    test('are run in their order, with their id and data, once', async (t) => {
      const { jobs, define, ran, runs, idle, total } = await begin(t, await place(t));
      define('mail.send');
      for (let n = 0; n < 4; n += 1) await jobs.add('mail.send', `${n}:ä`, { n, text: '"ä\n' });
      assert.deepEqual(await jobs.counts(), { waiting: 4, running: 0, failed: 0 });
      await jobs.start();
      await ran(4);
      await idle();
      assert.deepEqual(
        runs.map(({ id, data, attempt }) => ({ id, data, attempt })),
        [0, 1, 2, 3].map((n) => ({ id: `${n}:ä`, data: { n, text: '"ä\n' }, attempt: 1 })),
      );
      await jobs.add('mail.send', '0:ä', null);
      await ran(5);
      await idle();
      assert.equal(runs[4]?.data, null, 'an id may come again when its job is done');
      assert.equal(total('mail.send', 'done'), 5);
    });

    test('that fail are tried again, later each time, and the log names them', async (t) => {
      const { jobs, define, ran, runs, lines, idle, total } = await begin(t, await place(t));
      const at: number[] = [];
      define('mail.send', ({ attempt }) => {
        at.push(performance.now());
        if (attempt < 3) throw new Error('refused');
      });
      await jobs.start();
      await jobs.add('mail.send', 'a', {});
      await ran(3);
      await idle();
      assert.deepEqual(
        runs.map(({ id, attempt }) => [id, attempt]),
        [1, 2, 3].map((attempt) => ['a', attempt]),
      );
      const [first = 0, second = 0, third = 0] = at;
      assert.ok(second - first >= firstWaitMs - 2 && third - second >= 2 * firstWaitMs - 2, String(at));
      assert.deepEqual([total('mail.send', 'retried'), total('mail.send', 'done')], [2, 1]);
      assert.deepEqual(
        lines.map(({ level, fields }) => [level, fields['job'], fields['id'], fields['attempt']]),
        [
          ['warn', 1],
          ['debug', 2],
        ].map(([level, attempt]) => [level, 'mail.send', 'a', attempt]),
      );
    });

    test('that fail for good are given up, counted, and can be added again', async (t) => {
      const { jobs, define, ran, lines, total } = await begin(t, await place(t));
      define('mail.send');
      jobs.define({
        name: 'mail.never',
        attempts: 2,
        handle(): Promise<void> {
          throw 'text' as unknown as Error;
        },
      });
      await jobs.start();
      await jobs.add('mail.never', 'a', {});
      const failed = async (expected: number) =>
        eventually(async () => (await jobs.counts()).failed === expected || undefined);
      await failed(1);
      assert.deepEqual(await jobs.counts(), { waiting: 0, running: 0, failed: 1 });
      assert.equal(total('mail.never', 'given_up'), 1);
      const said = lines.map(({ level, message }) => `${level} ${message}`).join('\n');
      assert.match(
        said,
        /^warn The job "mail.never" failed and is tried again\nerror .* failed and is given up$/,
      );
      await jobs.add('mail.send', 'a', {});
      await ran(1);
      await failed(0);
    });

    test('that take too long are told to stop and count as failed', async (t) => {
      const { jobs, define, lines, runs, total } = await begin(t, await place(t));
      define('mail.send', () => new Promise(() => undefined), { attempts: 1, timeoutMs: 30 });
      await jobs.start();
      await jobs.add('mail.send', 'a', {});
      await eventually(() => total('mail.send', 'given_up'));
      assert.equal(runs[0]?.signal.aborted, true);
      assert.match(String(lines[0]?.fields['error']), /not ended within 30 ms/);
    });

    test('that wait or run already are not added again', async (t) => {
      const { jobs, define, ran, runs, idle } = await begin(t, await place(t));
      let end = (): void => undefined;
      const held = new Promise<void>((resolve) => (end = resolve));
      define('mail.send', () => held);
      const add = (data: unknown) => jobs.add('mail.send', 'a', data);
      await Promise.all([add(1), add(2)]);
      await jobs.start();
      await ran(1);
      await add(3);
      assert.deepEqual(await jobs.counts(), { waiting: 0, running: 1, failed: 0 });
      end();
      await idle();
      assert.equal(runs.length, 1);
    });

    test('that are to be done once are not added again when they are done, also after a restart', async (t) => {
      const there = await place(t);
      const first = await begin(t, there);
      const once = { onceForMs: 60_000, attempts: 1 };
      first.define('mail.once', ({ id }) => assert.notEqual(id, 'fails'), once);
      first.define('mail.brief', undefined, { onceForMs: 50 });
      await first.jobs.start();
      for (const id of ['a', 'fails']) await first.jobs.add('mail.once', id, {});
      await first.jobs.add('mail.brief', 'b', {});
      await first.ran(3);
      await first.idle();
      await first.jobs.add('mail.once', 'a', {});
      await pause(60);
      await first.jobs.add('mail.brief', 'b', {});
      await first.ran(4);
      await first.idle();
      assert.deepEqual(first.runs.map(({ id }) => id).sort(), ['a', 'b', 'b', 'fails']);
      await first.jobs.close();
      // Opened twice: the file is written anew in between.
      await (await begin(t, there)).jobs.close();
      const again = await begin(t, there);
      again.define('mail.once', undefined, once);
      await again.jobs.start();
      for (const id of ['a', 'fails']) await again.jobs.add('mail.once', id, {});
      await again.ran(1);
      await again.idle();
      assert.deepEqual(
        again.runs.map(({ id }) => id),
        ['fails'],
      );
    });

    test('can be delayed', async (t) => {
      const { jobs, define, ran, runs } = await begin(t, await place(t));
      define('mail.send');
      await jobs.start();
      const from = Date.now();
      await jobs.add('mail.send', 'later', {}, { delayMs: 150 });
      await jobs.add('mail.send', 'now', {});
      await ran(2);
      assert.equal(runs.map(({ id }) => id).join(), 'now,later');
      assert.ok(Date.now() - from >= 148);
    });

    test('are refused when they cannot be kept or run', async (t) => {
      const { jobs, define } = await begin(t, await place(t));
      define('mail.send');
      assert.throws(() => define('mail.send'), TypeError);
      assert.throws(() => define('Mail'), TypeError);
      assert.throws(() => define('mail.none', undefined, { attempts: 0 }), TypeError);
      assert.throws(() => jobs.repeat({ name: 'mail.send', everyMs: 999 }), TypeError);
      assert.throws(() => jobs.repeat({ name: 'mail.other', everyMs: 1000 }), TypeError);
      assert.equal(await codeOf(jobs.add('mail.other', 'a', {})), 'TypeError');
      assert.equal(await codeOf(jobs.add('mail.send', '', {})), 'TypeError');
      assert.equal(await codeOf(jobs.add('mail.send', 'a', undefined)), 'TypeError');
      assert.equal(await codeOf(jobs.add('mail.send', 'a', 'x'.repeat(65_535))), 'TypeError');
      await jobs.add('mail.send', 'a', 'x'.repeat(65_534));
      for (let n = 1; n < maxWaiting; n += 1) await jobs.add('mail.send', String(n), {}, { delayMs: 60_000 });
      await jobs.add('mail.send', 'a', {});
      assert.equal(await codeOf(jobs.add('mail.send', 'more', {})), 'too_many_jobs');
      await jobs.start();
      assert.throws(() => define('mail.late'), TypeError);
      assert.throws(() => jobs.repeat({ name: 'mail.send', everyMs: 1000 }), TypeError);
      await jobs.close();
      assert.equal(await codeOf(jobs.add('mail.send', 'b', {})), 'shutting_down');
    });

    test('that repeat come once in each period, and what was missed is made up once', async (t) => {
      const there = await place(t);
      const first = await begin(t, there);
      first.define('mail.sweep');
      first.jobs.repeat({ name: 'mail.sweep', everyMs: 1000 });
      await first.jobs.start();
      await first.ran(1);
      await first.jobs.close();
      const lastSlot = slotOf(first.runs.at(-1)!);
      // Until two periods have gone by.
      await pause(Math.max(0, lastSlot + 2100 - Date.now()));
      const again = await begin(t, there);
      again.define('mail.sweep');
      again.jobs.repeat({ name: 'mail.sweep', everyMs: 1000 });
      const reopened = Date.now();
      await again.jobs.start();
      await again.ran(2);
      const [missed, next] = again.runs.map(slotOf) as [number, number];
      assert.equal(missed, lastSlot + 1000);
      assert.ok(next > reopened, `${next} was to begin before ${reopened}`);
      assert.deepEqual(again.runs[0]?.data, {});
    });

    test('that run are waited for at the end, those that wait are kept', async (t) => {
      const there = await place(t);
      const first = await begin(t, there);
      first.define('mail.slow', () => pause(100));
      first.define('mail.send');
      await first.jobs.start();
      await first.jobs.add('mail.slow', 'slow', {});
      await first.jobs.add('mail.send', 'kept', { kept: true }, { delayMs: 200 });
      await first.ran(1);
      await first.jobs.close();
      assert.equal(first.total('mail.slow', 'done'), 1);
      assert.equal(first.runs[0]?.signal.aborted, true, 'it was told');
      const again = await begin(t, there);
      for (const job of ['mail.slow', 'mail.send']) again.define(job);
      await again.jobs.start();
      await again.ran(1);
      await again.idle();
      assert.deepEqual(
        again.runs.map(({ id, data }) => [id, data]),
        [['kept', { kept: true }]],
      );
      assert.equal(first.runs.length, 1);
    });

    test('that stop because they are told to are begun anew later, and no attempt is lost', async (t) => {
      const there = await place(t);
      const first = await begin(t, there);
      const untilStopped = ({ signal }: JobRun<unknown>) =>
        new Promise<void>((_, reject) =>
          signal.addEventListener('abort', () => reject(new Error('stopped'))),
        );
      first.define('mail.send', untilStopped, { attempts: 1 });
      await first.jobs.start();
      await first.jobs.add('mail.send', 'a', {});
      await first.ran(1);
      await first.jobs.close();
      assert.equal(first.total('mail.send', 'interrupted'), 1);
      const again = await begin(t, there);
      again.define('mail.send', undefined, { attempts: 1 });
      await again.jobs.start();
      await again.ran(1);
      assert.deepEqual([again.runs[0]?.id, again.runs[0]?.attempt], ['a', 1]);
    });

    test('survive kill -9, also those that were being run', async (t) => {
      const there = await place(t);
      const file = fileURLToPath(new URL('./jobs-child.ts', import.meta.url));
      const child = spawn(process.execPath, ['--import', 'tsx', file, ...there.child], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      t.after(() => child.kill('SIGKILL'));
      let output = '';
      child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
      await eventually(() => output.includes('running\n') || undefined);
      child.kill('SIGKILL');
      await once(child, 'exit');
      const { jobs, define, ran, runs } = await begin(t, there);
      define('mail.hang');
      define('mail.wait');
      await jobs.start();
      await ran(3);
      assert.deepEqual(runs.map(({ id, data }) => [id, data]).sort(), [
        ['hung', { n: 1 }],
        ['waiting-1', { n: 2 }],
        ['waiting-2', { n: 3 }],
      ]);
    });

    if (shared) sharedTests(place);
  });
}

function sharedTests(place: JobsSubject['place']): void {
  test('are run by one of several gateways', async (t) => {
    const there = await place(t);
    const bounds = { maxWaiting: 100 };
    const gateways = [await begin(t, there, bounds), await begin(t, there, bounds)];
    const all = () => gateways.flatMap(({ runs }) => runs);
    for (const { jobs, define } of gateways) {
      define('mail.send', () => pause(20));
      define('mail.sweep');
      jobs.repeat({ name: 'mail.sweep', everyMs: 1000 });
      await jobs.start();
    }
    for (let n = 0; n < 20; n += 1) await gateways[n % 2]!.jobs.add('mail.send', `mail-${n}`, {});
    await eventually(() => all().filter(({ id }) => !id.startsWith('mail-')).length >= 3 || undefined);
    const ids = all().map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length);
    assert.equal(ids.filter((id) => id.startsWith('mail-')).length, 20);
    const slots = all()
      .filter(({ id }) => !id.startsWith('mail-'))
      .map(slotOf)
      .sort((a, b) => a - b);
    for (const [index, slot] of slots.entries())
      if (index > 0) assert.ok(slot - slots[index - 1]! >= 1000, String(slots));
  });
}
