import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test, type TestContext } from 'node:test';
import { type Line, realClock, recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import { eventually, stopEverything, temporaryFolder } from '../../tests/kit/process-kit.ts';
import { redisMissing, type RedisServer, startRedis } from '../../tests/kit/redis-server.ts';
import { certificate, certificateKey } from '../../tests/kit/test-certificate.ts';
import { openRedis } from './open-redis.ts';

describe('rediss:', { skip: redisMissing }, () => {
  let server: RedisServer;
  before(async () => {
    const folder = await temporaryFolder();
    const [keyFile, certFile] = [path.join(folder, 'key.pem'), path.join(folder, 'cert.pem')];
    await writeFile(keyFile, certificateKey);
    await writeFile(certFile, certificate);
    server = await startRedis((port) => [
      ...['--port', '0', '--tls-port', String(port), '--tls-auth-clients', 'no'],
      ...['--tls-key-file', keyFile, '--tls-cert-file', certFile, '--tls-ca-cert-file', certFile],
    ]);
  });
  after(async () => {
    await server.stop();
    await stopEverything();
  });

  async function open(t: TestContext, scheme: string) {
    const lines: Line[] = [];
    const url = `${scheme}://127.0.0.1:${server.port}`;
    const redis = await openRedis({ url, clock: realClock, log: recordingLog(lines) });
    t.after(() => redis.close());
    return { redis, lines };
  }

  test('refuses a certificate that nobody vouches for', async (t) => {
    const { redis, lines } = await open(t, 'rediss');
    assert.equal(redis.available, false);
    assert.match(lines[0]?.message ?? '', /self-signed certificate/);
  });

  test('speaks TLS', async (t) => {
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
    t.after(() => delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']);
    const { redis } = await open(t, 'rediss');
    await eventually(() => redis.available || undefined);
    assert.equal((await open(t, 'redis')).redis.available, false, 'the port speaks nothing else');
  });
});
