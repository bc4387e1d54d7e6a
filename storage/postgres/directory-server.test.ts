import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createDirectory, type LiveDirectory } from '../../core/administration/directory/live-directory.ts';
import { RecordingMetrics } from '../../core/lifecycle/recording-services.test-support.ts';
import { withoutStore } from '../../core/organisation/without-store.ts';
import { type Clock, systemClock } from '../../core/ports/clock.ts';
import { aKey, aRecord, aWorkspace } from '../../tests/conformance/resources-records.ts';
import { startEngine, type TestEngine } from '../../tests/kit/postgres-kit.ts';
import { postgresMissing } from '../../tests/kit/postgres-server.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { recordingLog } from '../embedded/chdb-fixture.ts';
import type { Database } from './database.ts';
import { openDatabase } from './open-database.ts';
import { createResources } from './resources.ts';

const organisationId = '7c1e2a38-5a0c-4f0e-9a51-3a4f2f6f0c01';
const workspaceId = '7c1e2a38-5a0c-4f0e-9a51-3a4f2f6f0c02';
const owner = { id: '7c1e2a38-5a0c-4f0e-9a51-3a4f2f6f0c03', email: 'owner@localhost' };
const base = {
  keyByHash: () => undefined,
  ...withoutStore,
  defaultOrganisationId: organisationId,
  defaultWorkspaceId: workspaceId,
};

/** Its looks every two seconds never come: what is known is known because somebody was told. */
const clock: Clock = {
  now: () => systemClock.now(),
  monotonic: () => systemClock.monotonic(),
  after: (ms, run) => (ms === 2000 ? () => undefined : systemClock.after(ms, run)),
};

// Two gateways with one store, each with the whole directory that requests are served from.
describe('directories of two processes on a server', { skip: postgresMissing }, () => {
  let engine: TestEngine;
  const databases: Database[] = [];
  const directories: LiveDirectory[] = [];

  before(async () => {
    engine = await startEngine('server');
    for (let count = 0; count < 2; count += 1) {
      const log = recordingLog();
      const database = await openDatabase({ place: engine.place, log, clock });
      const resources = createResources({ database, clock, log });
      const metrics = new RecordingMetrics();
      const directory = createDirectory({ base, owner, resources, clock, log, metrics });
      databases.push(database);
      directories.push(directory);
      await directory.start();
    }
  });
  after(async () => {
    for (const directory of directories) directory.close();
    for (const database of databases) await database.close();
    await engine.close();
  });

  test('a key, its workspace, a record and their removal are known here at once, and there a moment later', async () => {
    const [here, there] = directories as [LiveDirectory, LiveDirectory];
    const workspace = aWorkspace(organisationId);
    const key = aKey(organisationId, { workspaceId: workspace.id, defaults: { configId: 'main' } });
    const hash = key.secrets[0]?.hash ?? '';
    const record = aRecord(organisationId, { workspaceId: workspace.id });
    const place = { organisationId, workspaceId: workspace.id };
    await here.resources.write(organisationId, async (writer) => {
      await writer.records.insert(record);
      await writer.workspaces.insert(workspace);
      await writer.apiKeys.insert(key);
      await writer.members.insert({
        organisationId,
        workspaceId: workspace.id,
        userId: owner.id,
        role: 'manager',
        createdAt: 1,
        updatedAt: 1,
        version: 1,
      });
    });
    assert.equal(here.keyByHash(hash)?.id, key.id);
    await eventually(() => there.keyByHash(hash));
    assert.deepEqual(there.keyByHash(hash), here.keyByHash(hash));
    await eventually(() => there.memberRole(workspace.id, owner.id));
    assert.equal(there.workspaceId(organisationId, workspace.slug), workspace.id);
    assert.deepEqual(there.user(organisationId, owner.email), { id: owner.id, role: 'owner' });

    assert.deepEqual(there.records('config', place), [record]);
    assert.deepEqual(here.record('config', place, record.slug), record);

    await there.resources.write(organisationId, async ({ apiKeys, workspaces, users, records }) => {
      await records.remove('config', organisationId, record.id);
      await apiKeys.remove(organisationId, key.id);
      await workspaces.replace({ ...workspace, status: 'archived', version: 2 });
      await users.remove(organisationId, owner.id);
    });
    assert.equal(there.keyByHash(hash), undefined);
    assert.deepEqual(there.records('config', place), []);
    await eventually(() => (here.memberRole(workspace.id, owner.id) === undefined ? true : undefined));
    assert.deepEqual(
      [here.keyByHash(hash), here.isArchived(workspace.id), here.user(organisationId, owner.id)],
      [undefined, true, undefined],
    );
    await eventually(() => (here.record('config', place, record.id) === undefined ? true : undefined));
  });
});
