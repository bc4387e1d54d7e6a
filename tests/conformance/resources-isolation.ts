import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Resources } from '../../core/ports/resources.ts';
import type { Subject } from './resources.ts';
import { aKey, anEntry, aWorkspace, changeOf, newOrganisation } from './resources-records.ts';

const page = { offset: 0, limit: 100 };

/** What every implementation promises of organisations that share a store. */
export function organisationsAreApart(subject: Subject): void {
  test('nothing of another organisation is ever returned, changed or removed', async () => {
    const resources = subject();
    const kinds = fc.array(
      fc.record({ of: fc.nat(2), workspaces: fc.nat(3), keys: fc.nat(3), entries: fc.nat(3) }),
      { minLength: 1, maxLength: 4 },
    );
    await fc.assert(
      fc.asyncProperty(kinds, async (steps) => {
        const ids = [
          await newOrganisation(resources),
          await newOrganisation(resources),
          await newOrganisation(resources),
        ];
        const stored = new Map(
          ids.map((id) => [id, { workspaces: [] as string[], keys: [] as string[], entries: 0 }]),
        );
        for (const step of steps) {
          const id = ids[step.of]!;
          const mine = stored.get(id)!;
          await resources.write(id, async (writer) => {
            for (let index = 0; index < step.workspaces; index++) {
              // The same names everywhere: what is taken is taken in its organisation only.
              const name = `Workspace ${mine.workspaces.length}`;
              const workspace = aWorkspace(id, { name, slug: `ws-${mine.workspaces.length}` });
              await writer.workspaces.insert(workspace);
              mine.workspaces.push(workspace.id);
            }
            for (let index = 0; index < step.keys; index++) {
              const key = aKey(id, { name: `Key ${mine.keys.length}` });
              await writer.apiKeys.insert(key);
              mine.keys.push(key.id);
            }
            for (let index = 0; index < step.entries; index++) await writer.audit.append(anEntry(id));
            mine.entries += step.entries;
          });
        }
        for (const id of ids) await assertOwn(resources, id, ids, stored);
      }),
      { numRuns: 6 },
    );
  });
}

interface Stored {
  readonly workspaces: readonly string[];
  readonly keys: readonly string[];
  readonly entries: number;
}

async function assertOwn(
  resources: Resources,
  id: string,
  ids: readonly string[],
  stored: ReadonlyMap<string, Stored>,
): Promise<void> {
  const mine = stored.get(id)!;
  const foreign = ids.filter((other) => other !== id).map((other) => stored.get(other)!);
  const foreignKeys = foreign.flatMap(({ keys }) => keys);
  const foreignWorkspaces = foreign.flatMap(({ workspaces }) => workspaces);
  await resources.read(async ({ workspaces, apiKeys, audit }) => {
    const listed = await workspaces.list(id, {}, page);
    assert.deepEqual(sorted(listed.data), [...mine.workspaces].sort());
    assert.equal(listed.total, mine.workspaces.length);
    const named = await workspaces.list(id, { name: 'workspace' }, page);
    assert.deepEqual(sorted(named.data), [...mine.workspaces].sort());
    assert.deepEqual(sorted((await apiKeys.list(id, {}, page)).data), [...mine.keys].sort());
    const shared = await apiKeys.list(id, { workspaceId: 'the-workspace' }, page);
    assert.deepEqual(sorted(shared.data), [...mine.keys].sort());
    assert.equal((await apiKeys.list(id, { ids: foreignKeys }, page)).total, 0);
    assert.deepEqual(sorted(await apiKeys.changedSince(id, 0, '')), [...mine.keys].sort());
    const records = await audit.list(id, {}, page);
    assert.ok(records.data.every(({ organisationId }) => organisationId === id));
    assert.equal(records.total, mine.entries);
    assert.equal((await audit.list(id, { action: 'create' }, page)).total, mine.entries);
    assert.equal((await audit.chain(id, 0)).length, mine.entries);
    for (const key of foreignKeys) assert.equal(await apiKeys.find(id, key), undefined);
    for (const key of foreignWorkspaces) assert.equal(await workspaces.find(id, key), undefined);
  });
  const change = await changeOf(resources, id);
  await resources.write(id, async (writer) => {
    for (const key of foreignKeys) {
      assert.equal(await writer.apiKeys.remove(id, key), false);
      assert.equal(await writer.apiKeys.replace(aKey(id, { id: key, version: 2 })), false);
    }
    for (const key of foreignWorkspaces)
      assert.equal(await writer.workspaces.replace(aWorkspace(id, { id: key, version: 2 })), false);
  });
  assert.equal(await changeOf(resources, id), change);
}

function sorted(records: readonly { readonly id: string }[]): readonly string[] {
  return records.map(({ id }) => id).sort();
}
