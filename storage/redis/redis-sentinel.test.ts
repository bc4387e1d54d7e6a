import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, afterEach, before, beforeEach, describe, test, type TestContext } from 'node:test';
import { type Line, realClock, recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import type { Counters, Window } from '../../core/ports/counters.ts';
import { eventually, stopEverything, temporaryFolder } from '../../tests/kit/process-kit.ts';
import { primaryName, type RedisSentinels, startRedisSentinels } from '../../tests/kit/redis-sentinel.ts';
import { redisMissing, type RedisServer } from '../../tests/kit/redis-server.ts';
import { certificate, certificateKey } from '../../tests/kit/test-certificate.ts';
import { openBullmqJobs } from './bullmq-jobs.ts';
import { openRedis } from './open-redis.ts';
import { createRedisCounters } from './open-shared-stores.ts';

const never: Counters = {
  take: () => assert.fail('the local counters were asked'),
  adjust: () => assert.fail('the local counters were adjusted'),
};
let watched: RedisSentinels;

async function begin(t: TestContext, url = `redis+sentinel://${watched.sentinels}/${primaryName}`) {
  const lines: Line[] = [];
  const redis = await openRedis({ url, clock: realClock, log: recordingLog(lines), budgetMs: 500 });
  t.after(() => redis.close());
  const counters = createRedisCounters({ redis, local: never });
  const take = async (windows: readonly Window[]) => counters.take(windows, 1, 'closed');
  const levels = (): string[] => lines.map(({ level }) => level);
  return { redis, lines, levels, take };
}

const windows: Window[] = [{ key: 'a', group: 'org-1', limit: 1000, windowMs: 600_000 }];

/** The server that is the primary now, and the other one. */
async function roles(): Promise<{ readonly primary: RedisServer; readonly replica: RedisServer }> {
  const [one, two] = watched.servers;
  const reply = await watched.askSentinel('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', primaryName);
  const port = Number((reply as string[])[1]);
  return port === one.port ? { primary: one, replica: two } : { primary: two, replica: one };
}

// Once in three runs the process stayed after the last test, with a timer of the client and no socket: it ends all the
// same then, and says what was open.
after(() => {
  const end = (): void => {
    process.stderr.write(`still open after the last test: ${process.getActiveResourcesInfo().join(', ')}\n`);
    process.exit();
  };
  setTimeout(end, 15_000).unref();
});

describe('a primary that sentinels watch', { skip: redisMissing, timeout: 120_000 }, () => {
  beforeEach(async () => {
    watched = await startRedisSentinels();
  });
  afterEach(() => watched.stop());

  test('is found, also when some sentinels are away', async (t) => {
    const url = `redis+sentinel://127.0.0.1:1,${watched.sentinels}/${primaryName}/3`;
    const { redis, lines, take } = await begin(t, url);
    assert.equal(redis.available, true);
    await redis.ping();
    assert.equal((await take(windows)).allowed, true);
    assert.deepEqual(lines, []);
  });

  test('under another name is away, and the log says why', async (t) => {
    const { redis, lines } = await begin(t, `redis+sentinel://${watched.sentinels}/other`);
    assert.equal(redis.available, false);
    assert.match(lines[0]?.message ?? '', /All sentinels are unreachable|invalid reply/);
  });

  for (const how of ['dies', 'hangs'] as const) {
    test(`that ${how} is replaced, and what it had counted goes on`, async (t) => {
      const { redis, lines, levels, take } = await begin(t);
      const { primary } = await roles();
      const before = (await take(windows)).windows[0]?.remaining as number;
      await watched.ask(primary, 'SET', 'weir:last', 1);
      assert.equal(await watched.ask(primary, 'WAIT', 1, 5000), 1);
      const session = redis.session ?? 0;
      if (how === 'dies') await primary.kill();
      else primary.pause();
      const begun = performance.now();
      const decision = await eventually(
        () =>
          take(windows).then(
            (taken) => (levels().length > 1 ? taken : undefined),
            () => undefined,
          ),
        () => JSON.stringify(lines),
      );
      t.diagnostic(`away for ${((performance.now() - begun) / 1000).toFixed(1)} s`);
      assert.ok((decision.windows[0]?.remaining as number) < before);
      assert.ok((redis.session ?? 0) > session);
      await redis.ping();
      assert.deepEqual(levels(), ['warn', 'info']);
    });
  }

  test('that is replaced by hand is followed', async (t) => {
    const { lines, levels, take } = await begin(t);
    const { replica } = await roles();
    await take(windows);
    await watched.askSentinel('SENTINEL', 'FAILOVER', primaryName);
    await eventually(async () => ((await roles()).primary === replica ? true : undefined));
    const begun = performance.now();
    await eventually(
      async () => {
        await take(windows).catch(() => undefined);
        const info = String(await watched.ask(replica, 'INFO', 'commandstats'));
        return info.includes('cmdstat_eval') || undefined;
      },
      () => JSON.stringify(lines),
    );
    t.diagnostic(`asked after ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    assert.equal((await take(windows)).allowed, true);
    assert.ok(levels().filter((level) => level === 'warn').length <= 1, JSON.stringify(lines));
  });

  test('keeps jobs, which go on after a failover', async (t) => {
    const lines: Line[] = [];
    const url = `redis+sentinel://${watched.sentinels}/${primaryName}`;
    const jobs = openBullmqJobs({ url, log: recordingLog(lines), clock: realClock, lockMs: 1000 });
    t.after(() => jobs.close());
    const done: string[] = [];
    jobs.define({ name: 'test.note', handle: ({ id }) => Promise.resolve(void done.push(id)) });
    await jobs.start();
    const add = (id: string) =>
      eventually(
        () =>
          jobs.add('test.note', id, {}).then(
            () => true,
            () => undefined,
          ),
        () => JSON.stringify(lines),
      );
    await add('before');
    await eventually(() => (done.includes('before') ? true : undefined));
    const { primary } = await roles();
    await primary.kill();
    await eventually(() => (lines.length > 0 ? true : undefined));
    await add('after');
    await eventually(
      () => (done.includes('after') ? true : undefined),
      () => JSON.stringify(lines),
    );
    assert.deepEqual(lines.map(({ level }) => level).slice(0, 2), ['warn', 'info']);
  });
});

/** What docs/redis.md tells operators to allow. */
const documentedPermissions =
  /~weir:\* ([^`]+)`/
    .exec(readFileSync(new URL('../../docs/redis.md', import.meta.url), 'utf8'))?.[1]
    ?.split(' ') ?? [];

const ofSentinels =
  /A sentinel needs `([^`]+)`/.exec(
    readFileSync(new URL('../../docs/redis.md', import.meta.url), 'utf8'),
  )?.[1] ?? '';

describe('a primary and sentinels with TLS and users', { skip: redisMissing, timeout: 120_000 }, () => {
  before(async () => {
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
    const folder = await temporaryFolder();
    const [keyFile, certFile] = [path.join(folder, 'key.pem'), path.join(folder, 'cert.pem')];
    await writeFile(keyFile, certificateKey);
    await writeFile(certFile, certificate);
    const files = [`tls-key-file ${keyFile}`, `tls-cert-file ${certFile}`, `tls-ca-cert-file ${certFile}`];
    watched = await startRedisSentinels({
      args: (port) => [
        ...[
          '--port',
          '0',
          '--tls-port',
          String(port),
          '--tls-auth-clients',
          'no',
          '--tls-replication',
          'yes',
        ],
        ...files.flatMap((line) => `--${line}`.split(' ')),
        ...['--user', 'weir', 'on', '>own:word', '~weir:*', ...documentedPermissions],
      ],
      lines: (port) => [
        ...['port 0', `tls-port ${port}`, 'tls-auth-clients no', 'tls-replication yes', ...files],
        'requirepass sentinels',
        'sentinel sentinel-pass sentinels',
        `user watcher on >his:word ${ofSentinels}`,
      ],
      connect: { tls: {} },
      connectSentinel: { tls: {}, password: 'sentinels' },
    });
  });
  after(async () => {
    await watched.stop();
    await stopEverything();
    delete process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
  });
  const urlFor = (login: string, query: string) =>
    `rediss+sentinel://${login}@${watched.sentinels}/${primaryName}${query}`;

  test('are used with their own users', async (t) => {
    const query = '?sentinel_username=watcher&sentinel_password=his%3Aword';
    const { redis, lines, take } = await begin(t, urlFor('weir:own%3Aword', query));
    assert.equal(redis.available, true, JSON.stringify(lines));
    assert.equal((await take(windows)).allowed, true);
    const clients = String(await watched.askSentinel('CLIENT', 'LIST'));
    assert.match(clients, /name=weir .* sub=1 .*user=watcher/, 'it hears of failovers');
    assert.deepEqual(lines, []);
  });

  for (const [what, login, query, reason] of [
    ['a wrong password', 'weir:wr0ng', '?sentinel_password=sentinels', /WRONGPASS/],
    ['a wrong password of the sentinels', 'weir:own%3Aword', '?sentinel_password=wr0ng', /WRONGPASS/],
    ['no password of the sentinels', 'weir:own%3Aword', '', /NOAUTH/],
  ] as const) {
    test(`are away for ${what}, and the log says why without it`, async (t) => {
      const { redis, lines } = await begin(t, urlFor(login, query));
      assert.equal(redis.available, false);
      assert.match(lines[0]?.message ?? '', reason);
      assert.doesNotMatch(JSON.stringify(lines), /wr0ng|own.word|=sentinels/);
    });
  }
});
