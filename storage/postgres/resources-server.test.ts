import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'drizzle-orm';
import type { Resources } from '../../core/ports/resources.ts';
import {
  aKey,
  anEntry,
  aWorkspace,
  changeOf,
  newOrganisation,
} from '../../tests/conformance/resources-records.ts';
import { startEngine, type TestEngine } from '../../tests/kit/postgres-kit.ts';
import { postgresMissing } from '../../tests/kit/postgres-server.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { recordingLog, testClock } from '../embedded/chdb-fixture.ts';
import type { Database } from './database.ts';
import { openDatabase } from './open-database.ts';
import { createResources } from './resources.ts';

const page = { offset: 0, limit: 1 };

// What needs several connections.
describe('resources of two processes on a server', { skip: postgresMissing }, () => {
  let engine: TestEngine;
  let databases: Database[] = [];
  let here: Resources;
  let there: Resources;

  before(async () => {
    engine = await startEngine('server');
    const log = recordingLog();
    const open = () => openDatabase({ place: engine.place, log, clock: testClock });
    databases = [await open(), await open()];
    [here, there] = databases.map((database) => createResources({ database, clock: testClock, log })) as [
      Resources,
      Resources,
    ];
  });
  after(async () => {
    for (const database of databases) await database.close();
    await engine.close();
  });

  test('writers of different organisations do not wait for each other', async () => {
    const [one, two] = [await newOrganisation(here), await newOrganisation(here)];
    await here.write(one, async (writer) => {
      await writer.workspaces.insert(aWorkspace(one));
      await there.write(two, (inner) => inner.workspaces.insert(aWorkspace(two)));
    });
    assert.equal(await changeOf(here, one), 2);
    assert.equal(await changeOf(here, two), 2);
  });

  test('a reader keeps its view while others write', async () => {
    const id = await newOrganisation(here);
    const add = () =>
      there.write(id, async (writer) => {
        await writer.apiKeys.insert(aKey(id));
        await writer.audit.append(anEntry(id));
      });
    await add();
    await here.read(async ({ apiKeys, audit }) => {
      assert.equal((await apiKeys.list(id, {}, page)).total, 1);
      await add();
      assert.equal((await apiKeys.list(id, {}, page)).total, 1);
      assert.equal((await audit.list(id, {}, page)).total, 1);
    });
    assert.equal((await here.read(({ apiKeys }) => apiKeys.list(id, {}, page))).total, 2);
  });

  test('what is not committed is seen by nobody', async () => {
    const id = await newOrganisation(here);
    const workspace = aWorkspace(id);
    await here.write(id, async (writer) => {
      await writer.workspaces.insert(workspace);
      assert.equal(await there.read(({ workspaces }) => workspaces.find(id, workspace.id)), undefined);
      assert.equal(await changeOf(there, id), 1);
    });
    assert.deepEqual(await there.read(({ workspaces }) => workspaces.find(id, workspace.id)), workspace);
  });

  test('a change is told to the other process', async () => {
    const id = await newOrganisation(here);
    let looks = 0;
    const stop = there.onChange(() => (looks += 1));
    // Listening begins a moment after it was asked for.
    await eventually(() => (looks > 0 ? true : undefined));
    const seen = looks;
    await touch(here, id);
    await eventually(() => (looks > seen ? true : undefined));
    stop();
  });

  test('losing the connection that listens loses no change', async () => {
    const id = await newOrganisation(here);
    let looks = 0;
    const stop = there.onChange(() => (looks += 1));
    await eventually(async () => {
      await touch(here, id);
      return looks > 0 ? true : undefined;
    });
    const ended = await databases[0]!.query((statements) =>
      statements.execute(
        sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ILIKE 'listen%' AND pid <> pg_backend_pid()`,
      ),
    );
    assert.ok(ended.rows.length > 0);
    const before = await changeOf(there, id);
    await touch(here, id);
    assert.equal(await changeOf(there, id), before + 1);
    const seen = looks;
    await eventually(async () => {
      await touch(here, id);
      return looks > seen ? true : undefined;
    });
    stop();
  });
});

function touch(resources: Resources, id: string): Promise<void> {
  return resources.write(id, (writer) => writer.workspaces.insert(aWorkspace(id)));
}
