import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Resources, WorkspaceFilter, WorkspaceRecord } from '../../core/ports/resources.ts';
import type { Subject } from './resources.ts';
import { aWorkspace, newOrganisation } from './resources-records.ts';

/** What every implementation promises of workspaces. */
export function workspacesAreStored(subject: Subject): void {
  test('a workspace is found by id and by slug, as it was stored', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const full = aWorkspace(id);
    const bare = aWorkspace(id, { defaults: {}, usageLimits: [], rateLimits: [], description: '', icon: '' });
    await insert(resources, id, [full, bare]);
    await resources.read(async ({ workspaces }) => {
      for (const workspace of [full, bare]) {
        assert.deepEqual(await workspaces.find(id, workspace.id), workspace);
        assert.deepEqual(await workspaces.find(id, workspace.slug), workspace);
      }
      assert.equal(await workspaces.find(id, 'ws-not-there'), undefined);
    });
  });

  test('an id wins over a slug that looks the same', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const one = aWorkspace(id);
    const other = aWorkspace(id, { slug: one.id });
    await insert(resources, id, [other, one]);
    assert.deepEqual(await resources.read(({ workspaces }) => workspaces.find(id, one.id)), one);
  });

  test('a slug or a name that is taken is refused with a sentence that names it', async () => {
    const resources = subject();
    const [id, elsewhere] = [await newOrganisation(resources), await newOrganisation(resources)];
    const stored = aWorkspace(id, { name: 'Blue', slug: 'ws-blue' });
    await insert(resources, id, [stored]);
    const cases = [
      { given: { slug: 'ws-blue' }, says: /slug "ws-blue" exists already/ },
      { given: { name: 'Blue' }, says: /named "Blue" exists already/ },
      { given: { id: stored.id }, says: new RegExp(`id "${stored.id}" exists already`) },
    ];
    for (const { given, says } of cases) {
      const writing = insert(resources, id, [aWorkspace(id, { slug: 'ws-new', name: 'New', ...given })]);
      await assert.rejects(writing, { code: 'already_exists', message: says });
    }
    await insert(resources, elsewhere, [aWorkspace(elsewhere, { name: 'Blue', slug: 'ws-blue' })]);
    const red = aWorkspace(id, { name: 'Red' });
    await insert(resources, id, [red]);
    const renaming = replace(resources, { ...red, name: 'Blue', version: 2 });
    await assert.rejects(renaming, { code: 'already_exists', message: /named "Blue"/ });
  });

  test('a record replaces only the version before it', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const first = aWorkspace(id);
    await insert(resources, id, [first]);
    const second = { ...aWorkspace(id, { id: first.id, status: 'archived', name: 'Renamed' }), version: 2 };
    assert.equal(await replace(resources, second), true);
    assert.equal(await replace(resources, { ...second, name: 'Too late' }), false);
    assert.equal(await replace(resources, { ...second, name: 'Too early', version: 4 }), false);
    assert.equal(await replace(resources, aWorkspace(id, { version: 2 })), false);
    assert.deepEqual(await resources.read(({ workspaces }) => workspaces.find(id, first.id)), second);
  });

  test('lists are filtered', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    const names = ['Blue team', 'BLUE', '50% off', '50 off', 'a_b', 'aXb', 'back\\slash'];
    const records = names.map((name, index) =>
      aWorkspace(id, { name, createdAt: 1000 + index, status: index === 1 ? 'archived' : 'active' }),
    );
    await insert(resources, id, records);
    const cases: readonly { filter: WorkspaceFilter; found: readonly string[] }[] = [
      { filter: {}, found: names },
      { filter: { name: 'blue' }, found: ['Blue team', 'BLUE'] },
      { filter: { name: '0%' }, found: ['50% off'] },
      { filter: { name: 'A_B' }, found: ['a_b'] },
      { filter: { name: 'k\\s' }, found: ['back\\slash'] },
      { filter: { exactName: 'BLUE' }, found: ['BLUE'] },
      { filter: { statuses: ['archived'] }, found: ['BLUE'] },
      { filter: { name: 'blue', statuses: ['active'] }, found: ['Blue team'] },
      { filter: { statuses: ['active', 'archived'] }, found: names },
      { filter: { statuses: [] }, found: [] },
    ];
    for (const { filter, found } of cases) {
      const { total, data } = await resources.read(({ workspaces }) =>
        workspaces.list(id, filter, { offset: 0, limit: 100 }),
      );
      assert.deepEqual(
        data.map(({ name }) => name),
        found,
        JSON.stringify(filter),
      );
      assert.equal(total, found.length);
    }
  });

  test('pages are oldest first, complete, and have a fixed order', async () => {
    const resources = subject();
    const id = await newOrganisation(resources);
    // Two are equally old: the id decides.
    const records = [5, 3, 1, 3, 4].map((createdAt, index) =>
      aWorkspace(id, { id: `${id}-${index}`, createdAt }),
    );
    await insert(resources, id, records);
    const expected = [2, 1, 3, 4, 0].map((index) => `${id}-${index}`);
    const seen: string[] = [];
    for (const offset of [0, 2, 4, 6]) {
      const { total, data } = await resources.read(({ workspaces }) =>
        workspaces.list(id, {}, { offset, limit: 2 }),
      );
      assert.equal(total, 5);
      seen.push(...data.map((workspace) => workspace.id));
    }
    assert.deepEqual(seen, expected);
  });
}

async function insert(resources: Resources, id: string, records: readonly WorkspaceRecord[]): Promise<void> {
  await resources.write(id, async (writer) => {
    for (const record of records) await writer.workspaces.insert(record);
  });
}

function replace(resources: Resources, record: WorkspaceRecord): Promise<boolean> {
  return resources.write(record.organisationId, (writer) => writer.workspaces.replace(record));
}
