import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { readFileSync } from 'node:fs';
import { after, before, describe, test, type TestContext } from 'node:test';
import { type Line, realClock, recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import type { Counters, Window } from '../../core/ports/counters.ts';
import { eventually, stopEverything, temporaryFolder } from '../../tests/kit/process-kit.ts';
import { type RedisCluster, startRedisCluster } from '../../tests/kit/redis-cluster.ts';
import { patientClock, redisMissing, type RedisServer } from '../../tests/kit/redis-server.ts';
import { certificate, certificateKey } from '../../tests/kit/test-certificate.ts';
import { encodedCommands } from './encoded-command.ts';
import { openRedis } from './open-redis.ts';
import { createRedisCounters } from './open-shared-stores.ts';

const never: Counters = {
  take: () => assert.fail('the local counters were asked'),
  adjust: () => assert.fail('the local counters were adjusted'),
};
let cluster: RedisCluster;

/** A tenth of the usual speed: a busy machine misses no timeout that the test is not about. */
async function begin(t: TestContext, url = cluster.url, clock = patientClock(10)) {
  const lines: Line[] = [];
  const redis = await openRedis({ url, clock, log: recordingLog(lines) });
  t.after(() => redis.close());
  const counters = createRedisCounters({ redis, local: never });
  const take = (windows: readonly Window[]) => counters.take(windows, 1, 'closed');
  const levels = (): string[] => lines.map(({ level }) => level);
  /** Resolves when the outage is over and the windows have admitted a call. */
  const taken = (windows: readonly Window[]) =>
    eventually(
      () => {
        if (levels().length < 2) return undefined;
        return Promise.resolve()
          .then(() => take(windows))
          .catch(() => undefined);
      },
      () => JSON.stringify(lines),
    );
  return { redis, lines, levels, take, taken };
}

const limitOf = (group: string): Window[] => [{ key: 'a', group, limit: 1000, windowMs: 600_000 }];

/** Organisations, one for each server. */
async function oneForEach(servers: readonly RedisServer[]): Promise<Map<RedisServer, Window[]>> {
  const found = new Map<RedisServer, Window[]>();
  for (let count = 0; found.size < servers.length; count += 1) {
    const server = await cluster.serverOf(`weir:{org-${count}}:`);
    if (!found.has(server)) found.set(server, limitOf(`org-${count}`));
  }
  return found;
}

describe('a cluster without replicas', { skip: redisMissing, timeout: 120_000 }, () => {
  before(async () => {
    cluster = await startRedisCluster();
  });
  after(() => cluster.stop());

  test('loses only the keys of a server that dies, at once, and has them again when it is back', async (t) => {
    const { redis, lines, levels, take, taken } = await begin(t, cluster.url, realClock);
    const windows = await oneForEach(cluster.servers);
    const [dead, ...others] = cluster.servers as [RedisServer, ...RedisServer[]];
    await dead.kill();
    const ofDead = windows.get(dead) as Window[];
    await eventually(() => (levels().length > 0 ? true : undefined));
    for (let count = 0; count < 50; count += 1) {
      await assert.rejects(async () => take(ofDead), { code: 'limits_unavailable' });
      for (const server of others) assert.equal((await take(windows.get(server) as Window[])).allowed, true);
    }
    assert.equal(redis.available, true);
    assert.match(
      lines[0]?.message ?? '',
      new RegExp(`cannot be used: 127.0.0.1:${dead.port}: .*For the keys of`),
    );
    await assert.rejects(redis.ping(), new RegExp(String(dead.port)));
    await dead.start();
    await taken(ofDead);
    await redis.ping();
    // For a moment a server that comes back says that the cluster is down.
    assert.deepEqual(levels().slice(0, 2), ['warn', 'info']);
    assert.ok(lines.slice(2).every(({ message }) => message.includes('refuses a command: CLUSTERDOWN')));
  });

  test('loses only the keys of a server that hangs', async (t) => {
    const { redis, levels, take, taken } = await begin(t);
    const windows = await oneForEach(cluster.servers);
    const [hung, ...others] = cluster.servers as [RedisServer, ...RedisServer[]];
    const ofHung = windows.get(hung) as Window[];
    hung.pause();
    for (let miss = 0; miss < 3; miss += 1)
      await assert.rejects(async () => take(ofHung), { code: 'limits_unavailable' });
    const begun = performance.now();
    for (let count = 0; count < 20; count += 1)
      await assert.rejects(async () => take(ofHung), { code: 'limits_unavailable' });
    assert.ok(performance.now() - begun < 500, 'calls for it fail at once');
    for (const server of others) assert.equal((await take(windows.get(server) as Window[])).allowed, true);
    hung.resume();
    await taken(ofHung);
    await redis.ping();
    assert.deepEqual(levels(), ['warn', 'info']);
  });

  test('that is away as a whole is used when it comes up', async (t) => {
    await Promise.all(cluster.servers.map((server) => server.kill()));
    const { redis, levels, take, taken } = await begin(t, cluster.url, realClock);
    assert.equal(redis.available, false);
    assert.equal(redis.session, undefined);
    await assert.rejects(redis.ping(), /ECONNREFUSED/);
    await assert.rejects(async () => take(limitOf('whole')), { code: 'limits_unavailable' });
    await Promise.all(cluster.servers.map((server) => server.start()));
    await taken(limitOf('whole'));
    assert.deepEqual(levels().slice(0, 2), ['warn', 'info']);
  });
});

describe('a cluster with replicas', { skip: redisMissing, timeout: 120_000 }, () => {
  before(async () => {
    cluster = await startRedisCluster({ hasReplicas: true });
  });
  after(() => cluster.stop());

  test('goes on with the replica of a server that dies, and with what that has counted', async (t) => {
    const { redis, levels, take, taken } = await begin(t, cluster.url, realClock);
    const primaries = cluster.servers.slice(0, 3);
    const windows = await oneForEach(primaries);
    const [dead] = primaries as [RedisServer];
    const ofDead = windows.get(dead) as Window[];
    for (let count = 0; count < 5; count += 1) await take(ofDead);
    // Waits for what this connection has written, and so for all before it.
    const [{ group }] = ofDead as [Window];
    await cluster.ask(dead, 'SET', `weir:{${group}}:last`, 1);
    assert.equal(await cluster.ask(dead, 'WAIT', 1, 5000), 1);
    const session = redis.session ?? 0;
    await dead.kill();
    const begun = performance.now();
    await taken(ofDead);
    const seconds = (performance.now() - begun) / 1000;
    t.diagnostic(`its keys were away for ${seconds.toFixed(1)} s`);
    assert.equal((await take(ofDead)).windows[0]?.remaining, 1000 - 7);
    assert.ok((redis.session ?? 0) > session, 'what was on its way to the dead server may not have run');
    await redis.ping();
    assert.deepEqual(levels(), ['warn', 'info']);
  });

  test('follows a failover by hand without a lost call', async (t) => {
    const [first] = cluster.servers as [RedisServer];
    await first.start();
    const replica = await eventually(async () => {
      for (const server of cluster.servers) {
        const info = String(await cluster.ask(server, 'INFO', 'replication').catch(() => ''));
        if (info.includes('role:slave') && info.includes('master_link_status:up')) return server;
      }
      return undefined;
    });
    const { lines, take } = await begin(t);
    const groups = Array.from({ length: 30 }, (_, index) => limitOf(`by-hand-${index}`));
    let over = false;
    const traffic = (async () => {
      while (!over) await Promise.all(groups.map(async (windows) => take(windows)));
    })();
    await cluster.ask(replica, 'CLUSTER', 'FAILOVER');
    await eventually(
      async () =>
        String(await cluster.ask(replica, 'INFO', 'replication')).includes('role:master') || undefined,
    );
    for (const windows of groups) await take(windows);
    over = true;
    await traffic;
    assert.deepEqual(lines, []);
  });
});

/** What docs/redis.md tells operators to allow. */
const documentedPermissions =
  /~weir:\* ([^`]+)`/
    .exec(readFileSync(new URL('../../docs/redis.md', import.meta.url), 'utf8'))?.[1]
    ?.split(' ') ?? [];

describe('a cluster with TLS and users', { skip: redisMissing, timeout: 120_000 }, () => {
  before(async () => {
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
    const folder = await temporaryFolder();
    const [keyFile, certFile] = [path.join(folder, 'key.pem'), path.join(folder, 'cert.pem')];
    await writeFile(keyFile, certificateKey);
    await writeFile(certFile, certificate);
    const files = ['--tls-key-file', keyFile, '--tls-cert-file', certFile, '--tls-ca-cert-file', certFile];
    cluster = await startRedisCluster({
      args: (port) => [
        ...['--port', '0', '--tls-port', String(port), '--tls-auth-clients', 'no', '--tls-cluster', 'yes'],
        ...files,
        ...['--user', 'weir', 'on', '>own:word', '~weir:*', ...documentedPermissions],
      ],
      connect: { tls: {} },
      cli: ['--tls', '--insecure'],
    });
  });
  after(async () => {
    await cluster.stop();
    await stopEverything();
    delete process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
  });
  const urlFor = (login: string) => cluster.url.replace('redis+cluster://', `rediss+cluster://${login}@`);

  test('is used with no more permissions than the documentation says', async (t) => {
    const { redis, lines, take } = await begin(t, urlFor('weir:own%3Aword'), patientClock());
    await redis.ping();
    for (let count = 0; count < 20; count += 1) await take(limitOf(`tls-${count}`));
    const key = 'weir:{tls-1}:';
    const at = cluster.servers.indexOf(await cluster.serverOf(key));
    await cluster.moveSlot(encodedCommands.slotOfKey(key), cluster.servers[(at + 1) % 3] as RedisServer, {
      afterStep: async () => void (await take(limitOf('tls-1'))),
    });
    assert.deepEqual(lines, []);
  });

  test('is away for a wrong password, and the log says why without it', async (t) => {
    const { redis, lines } = await begin(t, urlFor('weir:wr0ng'), realClock);
    assert.equal(redis.available, false);
    assert.match(lines[0]?.message ?? '', /WRONGPASS/);
    assert.doesNotMatch(JSON.stringify(lines), /wr0ng/);
  });
});
