import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createDirectory } from '../../core/administration/directory/live-directory.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { RecordingMetrics } from '../../core/lifecycle/recording-services.test-support.ts';
import { UndoStack } from '../../core/lifecycle/undo-stack.ts';
import { withoutStore } from '../../core/organisation/without-store.ts';
import { type Clock, systemClock } from '../../core/ports/clock.ts';
import { openResources } from '../../main/open-resources.ts';
import { aKey } from '../../tests/conformance/resources-records.ts';
import { postgresMissing, type PostgresServer, startPostgres } from '../../tests/kit/postgres-server.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { recordingLog } from '../embedded/chdb-fixture.ts';
import { keepAlive } from './database.test-support.ts';
import { createResources } from './resources.ts';

keepAlive();

const organisationId = '7c1e2a38-5a0c-4f0e-9a51-3a4f2f6f0d01';
const workspaceId = '7c1e2a38-5a0c-4f0e-9a51-3a4f2f6f0d02';
const owner = { id: '7c1e2a38-5a0c-4f0e-9a51-3a4f2f6f0d03', email: 'owner@localhost' };
const base = {
  keyByHash: () => undefined,
  ...withoutStore,
  defaultOrganisationId: organisationId,
  defaultWorkspaceId: workspaceId,
};

/** Waits of the store and of the start are a tenth; looks every two seconds never come, so notifications have to. */
const clock: Clock = {
  now: () => systemClock.now(),
  monotonic: () => systemClock.monotonic() * 10,
  after: (ms, run) => (ms === 2000 ? () => undefined : systemClock.after(ms / 10, run)),
};

/** What a gateway has of a store, opened as it does. */
async function startParts(url: string) {
  const log = recordingLog();
  const opened = new UndoStack({ clock: systemClock, onError: (error) => assert.fail(String(error)) });
  const config = { storage: { resources: { url } } } as Parameters<typeof openResources>[0]['config'];
  const places = { file: '/gateway.config.yaml', data: '/nowhere' };
  const database = await openResources({ config, log, clock, opened, ...places, serves: true });
  assert.ok(database);
  const store = createResources({ database, clock, log });
  const metrics = new RecordingMetrics();
  const directory = createDirectory({ base, owner, resources: store, clock, log, metrics });
  opened.push(() => directory.close());
  await directory.start();
  return { log, directory, close: () => opened.dispose() };
}

type Parts = Awaited<ReturnType<typeof startParts>>;

describe('gateways that start before their PostgreSQL server', { skip: postgresMissing }, () => {
  let server: PostgresServer;
  let here: Parts;
  let there: Parts;
  before(async () => {
    server = await startPostgres();
    await server.kill();
    [here, there] = await Promise.all([startParts(server.url), startParts(server.url)]);
  });
  after(async () => {
    await Promise.all([here.close(), there.close()]);
    await server.stop();
  });

  const insert = async ({ directory }: Parts): Promise<string> => {
    const key = aKey(organisationId);
    await directory.resources.write(organisationId, ({ apiKeys }) => apiKeys.insert(key));
    return key.secrets[0]?.hash ?? '';
  };
  const isAway = (error: unknown): boolean => GatewayError.is(error) && error.code === 'store_unavailable';
  const answers = ({ directory }: Parts): Promise<true> =>
    eventually(() =>
      directory.resources.ping().then(
        () => true as const,
        () => undefined,
      ),
    );

  test('they start, and refuse to administer with the place and without the password', async () => {
    for (const { directory } of [here, there])
      for (const refused of [directory.resources.ping(), insert(here)])
        await assert.rejects(refused, (error: Error) => {
          assert.ok(isAway(error));
          assert.match(
            error.message,
            new RegExp(`127\\.0\\.0\\.1:${server.port}/postgres\\).*ECONNREFUSED.*Meanwhile`),
          );
          assert.doesNotMatch(error.message, /a( |%20)secret/);
          return true;
        });
    assert.equal(here.log.lines.filter((line) => line.startsWith('The resources store')).length, 1);
  });

  test('when it comes one of them makes the tables, both know everything, and hear of each other', async () => {
    await server.start();
    await Promise.all([answers(here), answers(there)]);
    assert.equal([...here.log.lines, ...there.log.lines].filter((line) => line.includes('0001-')).length, 1);
    const hash = await insert(here);
    assert.ok(here.directory.keyByHash(hash));
    await eventually(() => there.directory.keyByHash(hash));
    assert.ok(await here.directory.resources.read(({ users }) => users.find(organisationId, owner.id)));
  });

  test('when it goes again known keys stay, and it is used again when it is back', async () => {
    const hash = await insert(here);
    await server.kill();
    await assert.rejects(insert(here), isAway);
    assert.ok(here.directory.keyByHash(hash));
    await server.start();
    await answers(there);
    const next = await eventually(() => insert(there).catch(() => undefined));
    await eventually(() => here.directory.keyByHash(next));
    assert.doesNotMatch([...here.log.lines, ...there.log.lines].join(), /a( |%20)secret/);
  });

  test('a wrong password ends the start with one sentence', async () => {
    await assert.rejects(
      startParts(server.url.replace(/:[^:@]+@/, ':wrong@')),
      /^ResourcesStartError: the resources store \(127\.0\.0\.1:\d+\/postgres\) cannot be opened: it refuses the user or the password/,
    );
  });
});
