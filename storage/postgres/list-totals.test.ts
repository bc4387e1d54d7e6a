import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'drizzle-orm';
import {
  aGroupMapping,
  aKey,
  aMember,
  anInvite,
  aRecord,
  aUser,
  aVersion,
  aWorkspace,
  newOrganisation,
} from '../../tests/conformance/resources-records.ts';
import { startEngine, type TestEngine } from '../../tests/kit/postgres-kit.ts';
import { recordingLog, testClock } from '../embedded/chdb-fixture.ts';
import type { Resources } from '../../core/ports/resources.ts';
import type { Database } from './database.ts';
import { readMigrations } from './migrate.ts';
import { openDatabase } from './open-database.ts';
import { createResources } from './resources.ts';

const lists = {
  api_keys: ["coalesce(workspace_id, '')", 'type'],
  workspaces: ["''", 'status'],
  users: ["''", 'role'],
  members: ['workspace_id', 'role'],
  invites: ["''", 'status'],
  group_mappings: ['workspace_id', 'role'],
  records: ["coalesce(workspace_id, '')", "kind || ' ' || status"],
} as const;

describe('what migrations 3 and 4 keep, and make of what was there', () => {
  let engine: TestEngine;
  let database: Database;
  let resources: Resources;
  const log = recordingLog();

  before(async () => {
    engine = await startEngine('embedded');
    const migrations = (await readMigrations()).slice(0, 2);
    const old = await openDatabase({ place: engine.place, log, clock: testClock, migrations });
    await old.query(async (statements) => {
      for (const statement of oldRows) await statements.execute(sql.raw(statement));
    });
    await old.close();
    database = await openDatabase({ place: engine.place, log, clock: testClock });
    resources = createResources({ database, clock: testClock, log });
  });
  after(async () => {
    await resources.close();
    await engine.close();
  });

  /** By list, part and kind: what is kept, and what is there. */
  async function totals(): Promise<readonly [kept: unknown, counted: unknown]> {
    const counts = Object.entries(lists).map(
      ([list, [part, kind]]) =>
        `SELECT organisation_id, '${list}' AS list, ${part} AS part, ${kind} AS kind, count(*)::int AS total
         FROM ${list} GROUP BY 1, 2, 3, 4`,
    );
    const order = 'ORDER BY 1, 2, 3, 4';
    const kept = `SELECT organisation_id, list, part, kind, total::int FROM list_totals WHERE total <> 0 ${order}`;
    return database.query(async (statements) => [
      (await statements.execute(sql.raw(kept))).rows,
      (await statements.execute(sql.raw(`${counts.join(' UNION ALL ')} ${order}`))).rows,
    ]);
  }

  test('secrets are with their keys, what was there is counted, and removals are remembered', async () => {
    const [kept, counted] = await totals();
    assert.deepEqual(kept, counted);
    assert.ok(Array.isArray(kept) && kept.length === 3);
    await resources.read(async ({ apiKeys }) => {
      assert.deepEqual((await apiKeys.find('old', 'rotated'))?.secrets, [
        { hash: 'present', expiresAt: undefined },
        { hash: 'before', expiresAt: Date.parse('2031-01-01T00:00:00.007Z') },
      ]);
      assert.deepEqual((await apiKeys.find('old', 'without'))?.secrets, []);
      assert.deepEqual(await apiKeys.removedSince('old', 6), ['gone']);
      assert.deepEqual(await apiKeys.removedSince('old', 7), []);
    });
  });

  test('totals follow every change of a list', async () => {
    const id = await newOrganisation(resources);
    const [ada, ben] = [aUser(id), aUser(id)];
    const workspace = aWorkspace(id);
    const mine = { type: 'workspace-user', userId: ada.id, expiresAt: 5000 } as const;
    const [key, service] = [aKey(id, mine), aKey(id)];
    const group = aGroupMapping(id);
    const [record, shared] = [aRecord(id), aRecord(id, { workspaceId: undefined })];
    const follow = async (work: Parameters<typeof resources.write>[1]): Promise<void> => {
      await resources.write(id, work);
      const [kept, counted] = await totals();
      assert.deepEqual(kept, counted);
    };
    await follow(async (writer) => {
      for (const user of [ada, ben]) await writer.users.insert(user);
      for (const user of [ada, ben]) await writer.members.insert(aMember(user));
      await writer.members.insert(aMember(ada, { workspaceId: 'another', role: 'manager' }));
      await writer.workspaces.insert(workspace);
      for (const record of [key, service, aKey(id, mine)]) await writer.apiKeys.insert(record);
      await writer.invites.insert(anInvite(id, { expiresAt: 5000 }));
      await writer.groupMappings.insert(group);
      for (const one of [record, shared, aRecord(id)]) await writer.records.insert(one);
    });
    await follow(async (writer) => {
      await writer.users.replace({ ...ben, role: 'owner', version: 2 });
      await writer.members.replace(aMember(ben, { role: 'manager', version: 2 }));
      await writer.workspaces.replace({ ...workspace, status: 'archived', version: 2 });
      await writer.apiKeys.expireDue(id, 6000);
      await writer.records.replace({ ...record, status: 'archived', version: 2 });
      await writer.records.addVersion('config', id, aVersion(shared));
      await writer.invites.expireDue(id, 6000);
    });
    await follow(async (writer) => {
      await writer.users.remove(id, ada.id);
      await writer.apiKeys.removeOfUser(id, ada.id);
      await writer.apiKeys.remove(id, service.id);
      await writer.groupMappings.remove(id, group.id);
      for (const one of [record, shared]) await writer.records.remove('config', id, one.id);
    });
    const { total } = await resources.read(({ apiKeys }) => apiKeys.list(id, {}, { offset: 0, limit: 0 }));
    assert.equal(total, 0);
  });

  test('a change that fails counts nothing', async () => {
    const id = await newOrganisation(resources);
    const failing = resources.write(id, async ({ users }) => {
      await users.insert(aUser(id));
      throw new Error('changed my mind');
    });
    await assert.rejects(failing);
    const listed = await resources.read(({ users }) => users.list(id, {}, { offset: 0, limit: 0 }));
    assert.equal(listed.total, 0);
  });
});

const key = (id: string): string => `INSERT INTO api_keys (id, organisation_id, workspace_id, user_id, name,
  description, type, status, scopes, rate_limits, defaults, alert_emails, masked, creation_mode, created_at,
  updated_at, version, change) VALUES ('${id}', 'old', 'one', '', '${id}', '', 'workspace-service', 'active', '{}',
  '[]', '{}', '{}', '', 'api', now(), now(), 1, 1)`;
const oldRows = [
  `INSERT INTO organisations VALUES ('old', 'Old', now())`,
  ...['rotated', 'without'].map(key),
  `INSERT INTO api_keys SELECT 'own', organisation_id, NULL, user_id, 'own', description, 'organisation-service',
    status, scopes, rate_limits, usage_limits, defaults, alert_emails, masked, creation_mode, expires_at, created_at,
    updated_at, version, change FROM api_keys WHERE id = 'rotated'`,
  `INSERT INTO api_key_secrets VALUES ('old', 'rotated', 0, 'present', NULL),
    ('old', 'rotated', 1, 'before', '2031-01-01T00:00:00.007Z')`,
  `INSERT INTO api_key_removals VALUES ('old', 'gone', 7, now())`,
  `INSERT INTO users VALUES ('ada', 'old', 'ada@example.com', '', '', 'owner', now(), now(), 1)`,
];
