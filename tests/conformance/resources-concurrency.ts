import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultSettings } from '../../core/ports/organisation-settings.ts';
import type { Resources } from '../../core/ports/resources.ts';
import { auditStore } from '../../storage/postgres/audit-store.ts';
import { chainStart } from '../../storage/postgres/stored-records.ts';
import type { Subject } from './resources.ts';
import {
  aKey,
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

const writes = 20;

/** What every implementation promises to those who write at once, here and (`other`) in another process. */
export function writersTakeTurns(subject: Subject, other: Subject): void {
  test('writes at once are numbered without gaps, and so is their audit chain', async () => {
    const [here, there] = [subject(), other()];
    const id = await newOrganisation(here);
    await Promise.all(
      Array.from({ length: writes }, (_, index) =>
        (index % 2 === 0 ? here : there).write(id, async (writer) => {
          await writer.apiKeys.insert(aKey(id));
          await writer.audit.append(anEntry(id));
          if (index % 3 === 0) await writer.audit.append(anEntry(id));
        }),
      ),
    );
    assert.equal(await changeOf(there, id), 1 + writes);
    await there.read(async ({ apiKeys, audit }) => {
      // One key per change: each number was given once.
      for (let change = 1; change <= 1 + writes; change++)
        assert.equal((await apiKeys.changedSince(id, change, '')).length, 1 + writes - change);
      const chain = await audit.chain(id, 0);
      assert.equal(chain.length, writes + 7);
      assert.deepEqual(auditStore.verifyChain(chain, chainStart), { ok: true });
    });
  });

  test('writes that fail in between leave no gap', async () => {
    const [here, there] = [subject(), other()];
    const id = await newOrganisation(here);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 12 }, (_, index) =>
        (index % 2 === 0 ? here : there).write(id, async (writer) => {
          await writer.audit.append(anEntry(id));
          if (index % 3 === 0) throw new Error('refused');
        }),
      ),
    );
    assert.equal(outcomes.filter(({ status }) => status === 'rejected').length, 4);
    const chain = await here.read(({ audit }) => audit.chain(id, 0));
    assert.equal(chain.length, 8);
    assert.deepEqual(auditStore.verifyChain(chain, chainStart), { ok: true });
    assert.equal(await changeOf(here, id), 9);
  });

  test('an organisation that several store at once is there once', async () => {
    const organisation = anOrganisation();
    const storing = [subject(), other(), subject(), other()].map((resources) =>
      resources.write(organisation.id, (writer) => writer.organisations.ensure(organisation)),
    );
    await Promise.all(storing);
    assert.equal(await changeOf(subject(), organisation.id), 1);
  });

  test('of two that replace the same version one succeeds', async () => {
    const id = await newOrganisation(subject());
    const workspace = aWorkspace(id);
    const key = aKey(id);
    await subject().write(id, async (writer) => {
      await writer.workspaces.insert(workspace);
      await writer.apiKeys.insert(key);
    });
    for (const replace of [
      (resources: Resources, name: string) =>
        resources.write(id, (writer) => writer.workspaces.replace({ ...workspace, name, version: 2 })),
      (resources: Resources, name: string) =>
        resources.write(id, (writer) => writer.apiKeys.replace({ ...key, name, version: 2 })),
    ]) {
      const won = await Promise.all([replace(subject(), 'One'), replace(other(), 'Two')]);
      assert.deepEqual(won.sort(), [false, true]);
    }
    assert.equal(await changeOf(subject(), id), 4);
  });

  test('of two that change the same settings first, and then again, one succeeds', async () => {
    const id = await newOrganisation(subject());
    for (const version of [1, 2]) {
      const won = await Promise.all(
        [subject(), other()].map((resources, index) =>
          resources.write(id, ({ settings }) =>
            settings.replaceOrganisation({ ...defaultSettings(id), version, updatedAt: index }),
          ),
        ),
      );
      assert.deepEqual(won.sort(), [false, true]);
    }
    assert.equal(await changeOf(subject(), id), 3);
  });

  test('of two that invite or add the same person one is refused', async () => {
    const id = await newOrganisation(subject());
    const email = 'ada@example.com';
    for (const insert of [
      (resources: Resources) => resources.write(id, ({ users }) => users.insert(aUser(id, { email }))),
      (resources: Resources) => resources.write(id, ({ invites }) => invites.insert(anInvite(id, { email }))),
    ]) {
      const outcomes = await Promise.allSettled([subject(), other()].map(insert));
      const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
      assert.deepEqual(
        refused.map(({ reason }) => reason.code),
        ['already_exists'],
      );
    }
  });

  test('of two that mark what has ended each key is marked by one', async () => {
    const id = await newOrganisation(subject());
    const keys = Array.from({ length: 5 }, () => aKey(id, { expiresAt: 5000 }));
    await subject().write(id, async ({ apiKeys }) => {
      for (const key of keys) await apiKeys.insert(key);
    });
    const marked = await Promise.all(
      [subject(), other()].map((resources) =>
        resources.write(id, ({ apiKeys }) => apiKeys.expireDue(id, 6000)),
      ),
    );
    assert.deepEqual(marked.flat().sort(), keys.map((key) => key.id).sort());
    assert.equal(await changeOf(subject(), id), 3);
  });

  test('versions that several add at once are numbered without gaps, and their label is on the last', async () => {
    const id = await newOrganisation(subject());
    const record = aRecord(id);
    await subject().write(id, ({ records }) => records.insert(record));
    const labelId = 'production';
    const added = await Promise.all(
      Array.from({ length: writes }, (_, index) =>
        (index % 2 === 0 ? subject() : other()).write(id, ({ records }) =>
          records.addVersion('config', id, aVersion(record, { labelId })),
        ),
      ),
    );
    const numbers = added.map(({ number }) => number).sort((a, b) => a - b);
    assert.deepEqual(
      numbers,
      Array.from({ length: writes }, (_, index) => index + 1),
    );
    await other().read(async ({ records }) => {
      const { data } = await records.versions('config', id, record.id, { offset: 0, limit: 100 });
      const labelled = data.filter((version) => version.labelId === labelId);
      assert.deepEqual(
        labelled.map(({ number }) => number),
        [writes],
      );
    });
    assert.equal(await changeOf(subject(), id), 2 + writes);
  });

  test('of two that replace a record, or take its slug, one succeeds', async () => {
    const id = await newOrganisation(subject());
    const record = aRecord(id);
    await subject().write(id, ({ records }) => records.insert(record));
    const replaced = await Promise.all(
      [subject(), other()].map((resources, index) =>
        resources.write(id, ({ records }) => records.replace({ ...record, name: `${index}`, version: 2 })),
      ),
    );
    assert.deepEqual(replaced.sort(), [false, true]);
    const outcomes = await Promise.allSettled(
      [subject(), other()].map((resources) =>
        resources.write(id, ({ records }) => records.insert(aRecord(id, { slug: 'pc-only-one' }))),
      ),
    );
    assert.deepEqual(outcomes.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
  });

  test('of two that take the same name one is refused', async () => {
    const id = await newOrganisation(subject());
    const outcomes = await Promise.allSettled(
      [subject(), other()].map((resources) =>
        resources.write(id, (writer) => writer.workspaces.insert(aWorkspace(id, { name: 'Only one' }))),
      ),
    );
    const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
    assert.equal(refused.length, 1);
    assert.equal(refused[0]?.reason.code, 'already_exists');
  });
}
