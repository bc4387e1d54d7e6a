import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { defaultSettings } from '../../core/ports/organisation-settings.ts';
import type { Resources } from '../../core/ports/resources.ts';
import { writersTakeTurns } from './resources-concurrency.ts';
import { groupMappingsAreStored, invitesAreStored } from './resources-invites.ts';
import { keysEnd, keysRotate } from './resources-key-ends.ts';
import { keysAreStored } from './resources-keys.ts';
import { auditIsChained } from './resources-audit.ts';
import { organisationsAreApart } from './resources-isolation.ts';
import { peopleAreApart } from './resources-isolation-people.ts';
import { listsHavePages } from './resources-pages.ts';
import { peopleAreStored } from './resources-people.ts';
import { recordChangesAreTold } from './resources-records-changes.ts';
import { recordsAreApart } from './resources-records-isolation.ts';
import { recordsAreStored } from './resources-records-store.ts';
import { versionsAreKept } from './resources-records-versions.ts';
import {
  aGroupMapping,
  aKey,
  aMember,
  anEntry,
  anInvite,
  anOrganisation,
  aRecord,
  aUser,
  aVersion,
  aWorkspace,
  changeOf,
  newOrganisation,
} from './resources-records.ts';
import { changesAreMarked, settingsAreStored } from './resources-settings.ts';
import { workspacesAreStored } from './resources-workspaces.ts';

/** Resources that were opened for a suite. */
export interface ResourcesUnderTest {
  readonly resources: Resources;
  /** The same store as another process sees it; absent where all share one connection. */
  readonly other?: Resources;
  close(): void | Promise<void>;
}

/** Gives the resources that a suite's `before` has opened. */
export type Subject = () => Resources;

/**
 * What every implementation of `Resources` promises. One store serves all tests: each uses organisations of its own.
 */
export function resourcesConformance(name: string, open: () => Promise<ResourcesUnderTest>): void {
  describe(`${name}: conformance`, () => {
    let opened: ResourcesUnderTest | undefined;
    before(async () => {
      opened = await open();
    });
    after(() => opened?.close());
    const subject: Subject = () => {
      assert.ok(opened !== undefined);
      return opened.resources;
    };
    describe('organisations and changes', () => changesAreNumbered(subject));
    describe('workspaces', () => workspacesAreStored(subject));
    describe('keys', () => keysAreStored(subject));
    describe('keys that end', () => keysEnd(subject));
    describe('keys that rotate', () => keysRotate(subject));
    describe('people', () => peopleAreStored(subject));
    describe('invites', () => invitesAreStored(subject));
    describe('group mappings', () => groupMappingsAreStored(subject));
    describe('records', () => recordsAreStored(subject));
    describe('versions of records', () => versionsAreKept(subject));
    describe('changes of records', () => recordChangesAreTold(subject));
    describe('settings', () => settingsAreStored(subject));
    describe('marks', () => changesAreMarked(subject));
    describe('lists', () => listsHavePages(subject));
    describe('audit', () => auditIsChained(subject));
    const other: Subject = () => opened?.other ?? subject();
    describe('concurrency', () => writersTakeTurns(subject, other));
    describe('isolation', () => {
      organisationsAreApart(subject);
      peopleAreApart(subject);
      recordsAreApart(subject);
    });
  });
}

function changesAreNumbered(subject: Subject): void {
  test('an organisation is stored once; storing it again changes nothing', async () => {
    const resources = subject();
    const organisation = anOrganisation();
    await resources.write(organisation.id, (writer) => writer.organisations.ensure(organisation));
    await resources.write(organisation.id, (writer) =>
      writer.organisations.ensure({ ...organisation, name: 'Another name' }),
    );
    await resources.read(async ({ organisations }) => {
      assert.deepEqual(await organisations.byId(organisation.id), organisation);
      assert.deepEqual(await organisations.byId(`${organisation.id}-not`), undefined);
      const listed = (await organisations.list()).filter(({ id }) => id === organisation.id);
      assert.deepEqual(listed, [organisation]);
    });
    assert.equal(await changeOf(resources, organisation.id), 1);
  });

  test('everything that is written together is one change, and writing nothing is none', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const answer = await resources.write(id, async (writer) => {
      await writer.workspaces.insert(aWorkspace(id));
      await writer.apiKeys.insert(aKey(id));
      await writer.audit.append(anEntry(id));
      return 'what work gave';
    });
    assert.equal(answer, 'what work gave');
    assert.equal(await changeOf(resources, id), 2);
    await resources.write(id, async (writer) => {
      assert.equal(await writer.apiKeys.remove(id, 'nobody'), false);
      assert.equal(await writer.workspaces.replace(aWorkspace(id, { version: 2 })), false);
      assert.equal((await writer.workspaces.list(id, {}, { offset: 0, limit: 10 })).total, 1);
    });
    assert.equal(await changeOf(resources, id), 2);
  });

  test('work that throws leaves nothing, and its error comes through', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const mine = new Error('changed my mind');
    const writing = resources.write(id, async (writer) => {
      await writer.workspaces.insert(aWorkspace(id));
      await writer.apiKeys.insert(aKey(id));
      await writer.audit.append(anEntry(id));
      throw mine;
    });
    await assert.rejects(writing, (error) => error === mine);
    await assertEmpty(resources, id);
    assert.equal(await changeOf(resources, id), 1);
  });

  test('after a verb has failed nothing of its work remains, even if the work goes on', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const writing = resources.write(id, async (writer) => {
      await writer.apiKeys.insert(aKey(id, { name: 'Same' }));
      await assert.rejects(writer.apiKeys.insert(aKey(id, { name: 'Same' })), { code: 'already_exists' });
    });
    await assert.rejects(writing);
    await assertEmpty(resources, id);
    assert.equal(await changeOf(resources, id), 1);
  });

  test('a writer sees what it wrote, readers only when it is done', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const workspace = aWorkspace(id);
    await resources.write(id, async (writer) => {
      await writer.workspaces.insert(workspace);
      assert.deepEqual(await writer.workspaces.find(id, workspace.slug), workspace);
    });
    assert.deepEqual(await resources.read((reader) => reader.workspaces.find(id, workspace.slug)), workspace);
  });

  test('a change is told to whoever asked, until they no longer do', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    let looks = 0;
    let wake: () => void = () => undefined;
    const told = new Promise<void>((resolve) => (wake = resolve));
    const stop = resources.onChange(() => {
      looks += 1;
      wake();
    });
    await resources.write(id, (writer) => writer.workspaces.insert(aWorkspace(id)));
    await told;
    stop();
    const before = looks;
    await resources.write(id, (writer) => writer.workspaces.insert(aWorkspace(id)));
    await resources.ping();
    assert.equal(looks, before);
    assert.equal(await changeOf(resources, id), 3);
  });

  test('a writer refuses records of another organisation, and use after its end', async () => {
    const resources = subject();
    const [one, two] = [await newOrganisation(resources), await newOrganisation(resources)];
    const verbs: readonly ((writer: Parameters<Parameters<Resources['write']>[1]>[0]) => Promise<unknown>)[] =
      [
        (writer) => writer.organisations.ensure({ ...anOrganisation(), id: two }),
        (writer) => writer.workspaces.insert(aWorkspace(two)),
        (writer) => writer.workspaces.replace(aWorkspace(two)),
        (writer) => writer.apiKeys.insert(aKey(two)),
        (writer) => writer.apiKeys.replace(aKey(two)),
        (writer) => writer.apiKeys.remove(two, 'any'),
        (writer) => writer.apiKeys.removeOfUser(two, 'any'),
        (writer) => writer.apiKeys.expireDue(two, 1),
        (writer) => writer.users.insert(aUser(two)),
        (writer) => writer.users.replace(aUser(two)),
        (writer) => writer.users.remove(two, 'any'),
        (writer) => writer.members.insert(aMember(aUser(two))),
        (writer) => writer.members.replace(aMember(aUser(two))),
        (writer) => writer.members.remove(two, 'any', 'any'),
        (writer) => writer.invites.insert(anInvite(two)),
        (writer) => writer.invites.replace(anInvite(two)),
        (writer) => writer.invites.expireDue(two, 1),
        (writer) => writer.groupMappings.insert(aGroupMapping(two)),
        (writer) => writer.groupMappings.remove(two, 'any'),
        (writer) => writer.settings.replaceOrganisation({ ...defaultSettings(two), version: 1 }),
        (writer) =>
          writer.settings.replaceWorkspace({
            organisationId: two,
            workspaceId: 'any',
            overrides: {},
            updatedAt: 1,
            version: 1,
          }),
        (writer) => writer.records.insert(aRecord(two)),
        (writer) => writer.records.replace(aRecord(two)),
        (writer) => writer.records.remove('config', two, 'any'),
        (writer) => writer.records.addVersion('config', two, aVersion(aRecord(two))),
        (writer) => writer.records.label('config', two, 'any', 'any'),
        (writer) => writer.audit.append(anEntry(two)),
      ];
    for (const verb of verbs) await assert.rejects(resources.write(one, verb), { code: 'internal' });
    await assertEmpty(resources, two);
    const kept = await resources.write(one, async (writer) => writer);
    await assert.rejects(kept.workspaces.insert(aWorkspace(one)), /after|ended/);
  });

  test('a text that the database cannot hold is the fault of the request', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    for (const bad of [{ name: 'a\0b' }, { defaults: { metadata: { team: 'a\0b' } } }]) {
      const writing = resources.write(id, (writer) => writer.workspaces.insert(aWorkspace(id, bad)));
      await assert.rejects(writing, (error) => GatewayError.is(error) && error.code === 'invalid_request');
    }
    await assertEmpty(resources, id);
  });
}

async function assertEmpty(resources: Resources, organisationId: string): Promise<void> {
  const page = { offset: 0, limit: 1 };
  await resources.read(async ({ workspaces, apiKeys, records, audit }) => {
    assert.equal((await records.list('config', organisationId, {}, page)).total, 0);
    assert.equal((await workspaces.list(organisationId, {}, page)).total, 0);
    assert.equal((await apiKeys.list(organisationId, {}, page)).total, 0);
    assert.equal((await audit.list(organisationId, {}, page)).total, 0);
  });
}
