import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { sql } from 'drizzle-orm';
import type { GatewayError } from '../../core/errors/gateway-error.ts';
import { freePort } from '../../tests/kit/free-port.ts';
import { startEngine, type TestEngine } from '../../tests/kit/postgres-kit.ts';
import { postgresMissing, startPostgres, type PostgresServer } from '../../tests/kit/postgres-server.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { certificate } from '../../tests/kit/test-certificate.ts';
import { recordingLog, temporaryFolder, testClock } from '../embedded/chdb-fixture.ts';
import type { Database } from './database.ts';
import { hastyClock, insert, keepAlive, migrations } from './database.test-support.ts';
import { openDatabase } from './open-database.ts';
import { postgresPlace, type PostgresPlace } from './postgres-address.ts';

keepAlive();

describe('a PostgreSQL server', { skip: postgresMissing }, () => {
  let engine: TestEngine;
  before(async () => {
    engine = await startEngine('server');
  });
  after(() => engine.close());
  const open = (log = recordingLog()): Promise<Database> =>
    openDatabase({ place: engine.place, log, clock: hastyClock(5), migrations });

  test('gateways that start at once apply each migration once', async () => {
    const databases = await Promise.all([1, 2, 3, 4, 5].map(() => open()));
    const { rows } = await (databases[0] as Database).query((statements) =>
      statements.execute(sql`SELECT id FROM weir_migrations`),
    );
    assert.deepEqual(rows, [{ id: 1 }]);
    await Promise.all(databases.map((database) => database.close()));
  });

  test('another gateway hears of a change, also after the connection was lost', async () => {
    const [writer, reader] = [await open(), await open()];
    let looks = 0;
    reader.listen('weir_test', () => (looks += 1));
    // One when it begins to listen.
    await eventually(
      () => looks > 0 || undefined,
      () => 'the first look',
    );
    const hears = async (name: string): Promise<void> => {
      const before = looks;
      await writer.transaction(insert(name), { notify: 'weir_test' });
      await eventually(
        () => looks > before || undefined,
        () => `the change ${name}`,
      );
    };
    await hears('first');
    const before = looks;
    await engine.crash();
    await eventually(
      () => looks > before || undefined,
      () => 'a look after the loss',
    );
    await writer.ping().catch(() => undefined);
    await hears('second');
    await Promise.all([writer.close(), reader.close()]);
  });

  test('ten transactions run beside each other, each on one view', async () => {
    const database = await open();
    let inside = 0;
    let most = 0;
    await Promise.all(
      Array.from({ length: 10 }, () =>
        database.transaction(
          async (statements) => {
            inside += 1;
            most = Math.max(most, inside);
            await eventually(
              () => most === 10 || undefined,
              () => 'all ten to be inside',
            );
            await statements.execute(sql`SELECT 1`);
            inside -= 1;
          },
          { readOnly: true },
        ),
      ),
    );
    assert.equal(most, 10);
    await database.close();
  });

  test('the connection says who it is and bounds statements', async () => {
    const database = await open();
    const { rows } = await database.query((statements) =>
      statements.execute(
        sql`SELECT current_setting('application_name') AS a, current_setting('statement_timeout') AS s, current_setting('idle_in_transaction_session_timeout') AS i`,
      ),
    );
    assert.deepEqual(rows, [{ a: 'weir', s: '15s', i: '15s' }]);
    await database.close();
  });

  test('a server that is away is store_unavailable, and is used again when it is back', async () => {
    const database = await open();
    await database.ping();
    await engine.crash();
    const outcomes = await Promise.allSettled([database.ping(), database.ping()]);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected')
        assert.equal((outcome.reason as GatewayError).code, 'store_unavailable');
    await database.ping();
    await database.close();
  });

  const url = (change: (url: URL) => void): string => {
    const { host, port, user, password } = (engine.place as PostgresPlace).connection;
    const address = new URL(`postgres://${String(host)}:${String(port)}/postgres`);
    address.username = String(user);
    address.password = encodeURIComponent(String(password));
    change(address);
    return address.href;
  };
  const refusals: readonly (readonly [string, (url: URL) => void, RegExp])[] = [
    [
      'a wrong password',
      (address) => (address.password = 'wrong-secret'),
      /refuses the user or the password \(error 28P01\)/,
    ],
    [
      'an unknown database',
      (address) => (address.pathname = '/nowhere'),
      /there is no such database \(error 3D000\).*CREATE DATABASE/,
    ],
    [
      'TLS where there is none',
      (address) => (address.search = 'sslmode=require'),
      /speaks no TLS.*sslmode=disable/,
    ],
  ];
  for (const [name, change, expected] of refusals) {
    test(`${name} is explained at once, without the password`, async () => {
      const place = await postgresPlace({ url: url(change) }, '/');
      const opening = openDatabase({ place, log: recordingLog(), clock: testClock, migrations });
      await assert.rejects(opening, (error: Error) => {
        assert.match(error.message, expected);
        assert.match(error.message, /^the resources store \(127\.0\.0\.1:\d+\//);
        assert.doesNotMatch(error.message, /secret/);
        return true;
      });
    });
  }
});

test('a server that does not come is waited for, and then named with the remedy', async () => {
  const place = await postgresPlace(
    { url: `postgres://weir:secret@127.0.0.1:${await freePort()}/weir` },
    '/',
  );
  const log = recordingLog();
  const opening = openDatabase({ place, log, clock: hastyClock(10), migrations, patienceMs: 200 });
  await assert.rejects(
    opening,
    /^ResourcesStartError: the resources store \(127\.0\.0\.1:\d+\/weir\) cannot be opened: the connection failed \(ECONNREFUSED\)\. Check that it runs/,
  );
  assert.equal(log.lines.length, 1);
  assert.doesNotMatch(log.lines.join(), /secret/);
});

describe('a PostgreSQL server with TLS', { skip: postgresMissing }, () => {
  let server: PostgresServer;
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  before(async () => {
    folder = await temporaryFolder();
    await writeFile(path.join(folder.path, 'ca.pem'), certificate);
    server = await startPostgres({ tls: true });
  });
  after(async () => {
    await server.stop();
    await folder.remove();
  });
  const open = async (mode: string, authority?: string): Promise<Database> => {
    const settings = {
      url: `${server.url}?sslmode=${mode}`,
      ...(authority !== undefined && { ca_file: authority }),
    };
    const place = await postgresPlace(settings, folder.path);
    return openDatabase({ place, log: recordingLog(), clock: testClock, migrations });
  };

  for (const [mode, authority, encrypted] of [
    ['disable', undefined, false],
    ['require', undefined, true],
    ['verify-full', 'ca.pem', true],
  ] as const) {
    test(`sslmode=${mode} is ${encrypted ? '' : 'not '}encrypted`, async () => {
      const database = await open(mode, authority);
      const { rows } = await database.query((statements) =>
        statements.execute(sql`SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`),
      );
      assert.deepEqual(rows, [{ ssl: encrypted }]);
      await database.close();
    });
  }

  test('verify-full refuses a certificate that nobody vouches for, with the remedy', async () => {
    await assert.rejects(
      open('verify-full'),
      /its certificate is not accepted \(DEPTH_ZERO_SELF_SIGNED_CERT\)\. Name the authority that signed it in storage\.resources\.ca_file/,
    );
  });
});
