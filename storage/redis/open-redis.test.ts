import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, beforeEach, describe, test, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import {
  type Line,
  realClock,
  recordingLog,
  RecordingMetrics,
} from '../../core/lifecycle/recording-services.test-support.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { patientClock, redisMissing, type RedisServer, startRedis } from '../../tests/kit/redis-server.ts';
import type { Counters } from '../../core/ports/counters.ts';
import { encodedCommands, type RedisReply } from './encoded-command.ts';
import { openRedis } from './open-redis.ts';
import { createRedisCache } from './redis-cache.ts';
import { createRedisCounters } from './open-shared-stores.ts';

let server: RedisServer;

async function begin(t: TestContext, { url = server.url, clock = patientClock() } = {}) {
  const lines: Line[] = [];
  const metrics = new RecordingMetrics();
  const redis = await openRedis({
    url,
    clock,
    log: recordingLog(lines),
    metrics,
    stores: 'counters',
  });
  t.after(() => redis.close());
  const value = (name: string): number | undefined => metrics.values.get(name);
  return {
    redis,
    lines,
    value,
    up: () => value('weir_redis_up{stores=counters}'),
    back: () =>
      eventually(
        () => redis.available || undefined,
        () => JSON.stringify(lines),
      ),
  };
}

function reasonOf(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => assert.fail('it was answered'),
    (error: Error) => error.message,
  );
}

describe('the connection to a Redis server', { skip: redisMissing }, () => {
  before(async () => {
    server = await startRedis();
  });
  beforeEach(async () => {
    server.resume();
    await server.kill();
    await server.start();
  });
  after(() => server.stop());

  test('answers, and says nothing while all is well', async (t) => {
    const { redis, lines, up } = await begin(t);
    assert.equal(redis.available, true);
    await redis.ping();
    assert.equal(await redis.call((client) => client.incr('a')), 1);
    assert.equal(up(), 1);
    assert.deepEqual(lines, []);
  });

  test('to a server that is not there yet fails at once and comes up by itself', async (t) => {
    await server.kill();
    const { redis, lines, up, back } = await begin(t, { clock: realClock });
    assert.equal(redis.available, false);
    assert.match(await reasonOf(redis.ping()), /ECONNREFUSED/);
    assert.equal(up(), 0);
    await server.start();
    await back();
    await redis.ping();
    assert.equal(up(), 1);
    assert.deepEqual(
      lines.map(({ level }) => level),
      ['warn', 'info'],
    );
    assert.match(
      lines[0]!.message,
      /^Redis at redis:\/\/127\.0\.0\.1:\d+\/0 \(counters\) cannot be used: .*ECONNREFUSED/,
    );
    assert.equal(lines[1]!.fields['failed_calls'], 1);
  });

  test('to a server that hangs: three calls are given up, the rest fail at once, and nothing is lost', async (t) => {
    const { redis, lines, value, back } = await begin(t, { clock: patientClock(4) });
    server.pause();
    const late: unknown[] = [];
    const command = {
      name: 'incr',
      bytes: encodedCommands.count(2) + encodedCommands.parts(['INCR', 'hung']),
    };
    const increment = () =>
      redis.send<RedisReply>(command, {
        read: (reply) => reply,
        without: (error) => Promise.reject(error),
        late: (reply) => late.push(reply),
      });
    for (let i = 0; i < 3; i += 1) {
      assert.equal(redis.available, true);
      assert.equal(await reasonOf(increment()), 'no answer within 50 ms');
    }
    assert.equal(redis.available, false);
    for (let i = 0; i < 100; i += 1)
      assert.equal(await reasonOf(increment()), 'no answer within 50 ms, 3 times in a row');
    assert.deepEqual(late, []);
    server.resume();
    await back();
    assert.deepEqual(
      late,
      [1, 2, 3],
      'the calls that were given up came through, those that failed at once were not sent',
    );
    assert.equal(await increment(), 4);
    assert.deepEqual(
      lines.map(({ level }) => level),
      ['warn', 'info'],
    );
    assert.equal(value('weir_redis_failed_calls_total{stores=counters,reason=slow}'), 3);
    assert.equal(value('weir_redis_failed_calls_total{stores=counters,reason=away}'), 100);
  });

  test('to a server that hangs for long is made anew', async (t) => {
    const { redis, back } = await begin(t, { clock: realClock });
    const name = await redis.call((client) => client.client('ID'));
    server.pause();
    for (let miss = 0; miss < 3; miss += 1) await reasonOf(redis.ping());
    await pause(2300);
    server.resume();
    await back();
    assert.notEqual(await redis.call((client) => client.client('ID')), name);
  });

  test('to a server that dies: what was on its way fails, a new server is found', async (t) => {
    const { redis, lines, back } = await begin(t, { clock: patientClock(4) });
    server.pause();
    const reason = reasonOf(redis.call((client) => client.incr('a'), { budgetMs: 10_000 }));
    await server.kill();
    assert.match(await reason, /retr|clos|reset/i);
    assert.equal(redis.available, false);
    await server.start();
    await back();
    assert.equal(await redis.call((client) => client.exists('a')), 0, 'nothing is sent again');
    assert.equal(lines.filter(({ level }) => level === 'warn').length, 1);
  });

  test('tells of errors of the server once a minute', async (t) => {
    const { redis, lines, value } = await begin(t);
    await redis.call((client) => client.set('text', 'a'));
    for (let i = 0; i < 3; i += 1)
      assert.match(await reasonOf(redis.call((client) => client.lpush('text', 'b'))), /WRONGTYPE/);
    assert.equal(redis.available, true);
    assert.equal(lines.length, 1);
    assert.match(lines[0]!.message, /refuses a command: WRONGTYPE/);
    assert.equal(value('weir_redis_failed_calls_total{stores=counters,reason=error}'), 3);
  });

  test('can be closed at any time, and then fails at once', async (t) => {
    const open = await begin(t);
    await open.redis.close();
    await open.redis.close();
    assert.equal(open.redis.available, false);
    assert.equal(await reasonOf(open.redis.ping()), 'not connected');
    server.pause();
    await (await begin(t, { clock: realClock })).redis.close();
    server.resume();
    await server.kill();
    const away = await begin(t, { clock: realClock });
    await away.redis.close();
    await server.start();
    await pause(100);
    assert.equal(away.redis.available, false);
    assert.deepEqual(open.lines, []);
  });
});

/** What docs/redis.md tells operators to allow. */
const documentedPermissions =
  /~weir:\* ([^`]+)`/
    .exec(readFileSync(new URL('../../docs/redis.md', import.meta.url), 'utf8'))?.[1]
    ?.split(' ') ?? [];

describe('a Redis server with passwords', { skip: redisMissing }, () => {
  let guarded: RedisServer;
  before(async () => {
    guarded = await startRedis([
      ...['--requirepass', 'pass@word'],
      ...['--user', 'weir', 'on', '>own:word', '~weir:*', ...documentedPermissions],
    ]);
  });
  after(() => guarded.stop());
  const at = (login: string, database = '') => `redis://${login}127.0.0.1:${guarded.port}${database}`;

  test('lets in who knows them, into the database that is named', async (t) => {
    const { redis } = await begin(t, { url: at(':pass%40word@', '/3') });
    await redis.call((client) => client.set('weir:place', 'three'));
    const named = await begin(t, { url: at('weir:own%3Aword@', '/3') });
    assert.equal(await named.redis.call((client) => client.get('weir:place')), 'three');
    const client = new Redis({ port: guarded.port, password: 'pass@word' });
    t.after(() => client.disconnect());
    assert.equal(await client.exists('weir:place'), 0);
  });

  test('needs to allow no more than the documentation says', async (t) => {
    const { redis, lines } = await begin(t, { url: at('weir:own%3Aword@', '/1') });
    const clock = patientClock();
    const local: Counters = { take: () => assert.fail('no permission'), adjust: () => undefined };
    const counters = createRedisCounters({ redis, local });
    const windows = [{ key: 'a', group: 'org-1', limit: 5, windowMs: 60_000 }];
    await counters.take(windows, 3);
    await counters.adjust(windows, -1);
    assert.equal((await counters.take(windows, 0)).windows[0]?.remaining, 3);
    const cache = createRedisCache({ redis, clock, maxValueBytes: 100 });
    await cache.set('a', Buffer.from('b'), 60_000);
    assert.equal((await cache.get('a'))?.bytes.length, 1);
    await cache.delete('a');
    assert.equal(await cache.get('a'), undefined);
    await redis.ping();
    assert.deepEqual(lines, []);
  });

  for (const [what, login, reason] of [
    ['a wrong password', ':wr0ng@', /WRONGPASS/],
    ['a wrong name', 'wr0ng:pass%40word@', /WRONGPASS/],
    ['no password', '', /NOAUTH/],
  ] as const) {
    test(`is away for ${what}, and the log says why without the secret`, async (t) => {
      const { redis, lines } = await begin(t, { url: at(login), clock: realClock });
      assert.equal(redis.available, false);
      assert.match(await reasonOf(redis.ping()), reason);
      assert.equal(lines.length, 1);
      assert.match(lines[0]!.message, reason);
      assert.doesNotMatch(JSON.stringify(lines), /wr0ng|pass@word|pass%40word/);
    });
  }
});

test('an address that cannot be used is refused when it is opened', async () => {
  const refused = openRedis({ url: 'redis://:s3cret@', clock: realClock, log: recordingLog([]) });
  assert.doesNotMatch(await reasonOf(refused), /s3cret/);
});
