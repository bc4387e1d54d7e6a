import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test, type TestContext } from 'node:test';
import { Redis } from 'ioredis';
import { type Line, realClock, recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { jobsConformance } from '../../tests/conformance/jobs.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { redisMissing, startRedis, type RedisServer } from '../../tests/kit/redis-server.ts';
import { openBullmqJobs } from './bullmq-jobs.ts';

let server: RedisServer;
let database = 0;
const lockMs = 300;

describe('with a server', { skip: redisMissing }, () => {
  before(async () => {
    server = await startRedis(['--databases', '100']);
  });
  after(() => server.stop());

  jobsConformance({
    name: 'on a Redis server',
    skip: false,
    shared: true,
    place() {
      const url = `${server.url}/${++database}`;
      return Promise.resolve({
        async open(options) {
          const jobs = openBullmqJobs({ ...options, url, lockMs });
          await eventually(() =>
            jobs.ping().then(
              () => true,
              () => undefined,
            ),
          );
          return jobs;
        },
        child: ['redis', url, String(lockMs)],
      });
    },
  });
});

/** What docs/jobs.md tells operators to allow. */
const documentedPermissions =
  /~weir:\* ([^`]+)`/
    .exec(readFileSync(new URL('../../docs/jobs.md', import.meta.url), 'utf8'))?.[1]
    ?.split(' ') ?? [];

/** Runs out ten times as fast: what waits for a server that hangs need not be waited for. */
const hastyClock: Clock = { ...realClock, after: (ms, run) => realClock.after(ms / 10, run) };

describe('a server that is away', { skip: redisMissing }, () => {
  let own: RedisServer;
  before(async () => {
    own = await startRedis([...['--user', 'weir', 'on', '>s3cret', '~weir:*', ...documentedPermissions]]);
  });
  after(() => own.stop());

  function begin(t: TestContext, clock: Clock = realClock, login = '') {
    const lines: Line[] = [];
    const url = `redis://${login}127.0.0.1:${own.port}`;
    const jobs = openBullmqJobs({ url, clock, log: recordingLog(lines) });
    t.after(() => jobs.close());
    const ran: string[] = [];
    jobs.define({ name: 'mail.send', handle: ({ id }) => Promise.resolve(void ran.push(id)) });
    return { jobs, ran, lines };
  }
  const refused = { code: 'store_unavailable' };
  const stored = (jobs: { add(name: string, id: string, data: unknown): Promise<void> }, id: string) =>
    eventually(() =>
      jobs.add('mail.send', id, {}).then(
        () => true,
        () => undefined,
      ),
    );
  const came = (ran: readonly string[], id: string) => eventually(() => ran.includes(id) || undefined);

  test('refuses jobs at once, and runs them when it has come, also those that repeat', async (t) => {
    await own.kill();
    const { jobs, ran, lines } = begin(t);
    jobs.repeat({ name: 'mail.send', everyMs: 60_000 });
    await jobs.start();
    await assert.rejects(jobs.add('mail.send', 'a', {}), refused);
    await assert.rejects(jobs.counts(), refused);
    await assert.rejects(jobs.ping(), refused);
    await own.start();
    await stored(jobs, 'b');
    await came(ran, 'b');
    await eventually(() => ran.some((id) => id.startsWith('repeat:')) || undefined);
    assert.equal(ran.includes('a'), false);
    assert.deepEqual(
      lines.map(({ level }) => level),
      ['warn', 'info'],
    );
    assert.match(
      lines[0]?.message ?? '',
      /\(jobs\) cannot be used: .* No jobs are taken or begun until it is back/,
    );
    // A server that dies takes along what it kept in memory: the schedule is made anew.
    ran.length = 0;
    await own.kill();
    await own.start();
    await eventually(() => ran.some((id) => id.startsWith('repeat:')) || undefined);
  });

  test('refuses jobs after a bounded time when it hangs', async (t) => {
    const { jobs, ran } = begin(t, hastyClock);
    await jobs.start();
    await stored(jobs, 'a');
    await came(ran, 'a');
    own.pause();
    t.after(() => own.resume());
    await assert.rejects(jobs.add('mail.send', 'b', {}), /no answer within 2000 ms/);
    own.resume();
    await stored(jobs, 'c');
    await came(ran, 'c');
  });

  test('does not hold up the end', async (t) => {
    await own.kill();
    const { jobs } = begin(t);
    await jobs.start();
    await jobs.close();
    await assert.rejects(jobs.add('mail.send', 'a', {}), { code: 'shutting_down' });
    await own.start();
  });

  test('needs to allow no more than the documentation says, and keeps all of it in one slot', async (t) => {
    const { jobs, ran, lines } = begin(t, realClock, 'weir:s3cret@');
    jobs.repeat({ name: 'mail.send', everyMs: 60_000 });
    jobs.define({ name: 'mail.never', attempts: 1, handle: () => Promise.reject(new Error('refused')) });
    await jobs.start();
    await stored(jobs, 'a');
    await came(ran, 'a');
    await jobs.add('mail.never', 'n', {});
    await eventually(async () => (await jobs.counts()).failed === 1 || undefined);
    await jobs.add('mail.send', 'n', {}, { delayMs: 50 });
    await came(ran, 'n');
    await eventually(() => ran.some((id) => id.startsWith('repeat:')) || undefined);
    assert.deepEqual(
      lines.map(({ level, message }) => [level, message]),
      [['error', 'The job "mail.never" failed and is given up']],
    );
    const client = new Redis({ port: own.port });
    t.after(() => client.disconnect());
    const keys = await client.keys('*');
    assert.ok(keys.length > 0);
    for (const key of keys) assert.match(key, /^weir:\{jobs\}:queue:/);
  });

  test('with an address that cannot be used is refused when it is opened', () => {
    assert.throws(
      () => openBullmqJobs({ url: 'redis://:s3cret@', clock: realClock, log: recordingLog([]) }),
      (error: Error) => !error.message.includes('s3cret'),
    );
  });
});
