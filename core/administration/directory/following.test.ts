import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import fc from 'fast-check';
import { ManualClock } from '../../../tests/conformance/manual-clock.ts';
import { recordingLog, RecordingMetrics } from '../../lifecycle/recording-services.test-support.ts';
import type { Directory } from '../../ports/directory.ts';
import { withoutStore } from '../../organisation/without-store.ts';
import { defaultSecurity, defaultSettings } from '../../ports/organisation-settings.ts';
import type { Resources, ResourcesWriter } from '../../ports/resources.ts';
import { createDirectory, type LiveDirectory } from './live-directory.ts';
import { StoreInMemory } from './store.test-support.ts';
import {
  storedKey,
  storedMember,
  storedRecord,
  storedUser,
  storedWorkspace,
} from './stored-records.test-support.ts';

const owner = { id: 'user-0', email: 'boss@example.com' };
const base: Directory = {
  keyByHash: () => undefined,
  ...withoutStore,
  defaultOrganisationId: 'org-1',
  defaultWorkspaceId: 'ws-0',
};

let open: LiveDirectory[] = [];
afterEach(() => {
  for (const directory of open) directory.close();
  open = [];
});

function follow(store: Resources): LiveDirectory {
  const services = { clock: new ManualClock(), log: recordingLog([]), metrics: new RecordingMetrics() };
  const directory = createDirectory({ base, owner, resources: store, ...services });
  open.push(directory);
  return directory;
}

async function started(): Promise<{ store: StoreInMemory; directory: LiveDirectory }> {
  const store = new StoreInMemory();
  const directory = follow(store);
  await directory.start();
  store.reads.length = 0;
  return { store, directory };
}

/** A change as somebody else makes it, seen at the next look. */
async function changed(
  { store, directory }: Awaited<ReturnType<typeof started>>,
  work: (writer: ResourcesWriter) => Promise<unknown>,
): Promise<readonly string[]> {
  await store.write('org-1', work);
  await directory.refresh();
  return store.reads.splice(0);
}

describe('directory: what a change makes it read', () => {
  const configs = { ...defaultSecurity.configs, membersWriteConfigs: true };
  const cases: readonly [string, (writer: ResourcesWriter) => Promise<unknown>, readonly string[]][] = [
    ['a key', (writer) => writer.apiKeys.insert(storedKey()), []],
    ['nothing but an entry of the audit trail', async () => undefined, []],
    ['a workspace', (writer) => writer.workspaces.insert(storedWorkspace()), ['workspaces']],
    ['a user', (writer) => writer.users.insert(storedUser()), ['users', 'members']],
    ['a member', (writer) => writer.members.insert(storedMember()), ['users', 'members']],
    [
      'settings',
      (writer) => writer.settings.replaceOrganisation({ ...defaultSettings('org-1'), version: 1 }),
      ['settings'],
    ],
    [
      'the settings of a workspace',
      (writer) =>
        writer.settings.replaceWorkspace({
          workspaceId: 'ws-1',
          organisationId: 'org-1',
          overrides: { configs },
          updatedAt: 1,
          version: 1,
        }),
      ['settings'],
    ],
    ['a record', (writer) => writer.records.insert(storedRecord()), ['records', 'records']],
    [
      'a record that no request is served with',
      (writer) => writer.records.insert(storedRecord({ kind: 'collection' })),
      ['records'],
    ],
    ['the end of a record', (writer) => writer.records.remove('config', 'org-1', 'r-1'), ['records']],
  ];
  for (const [name, work, reads] of cases) {
    test(`${name}: ${reads.join(' and ') || 'nothing else'}`, async () => {
      const place = await started();
      assert.deepEqual(await changed(place, work), reads);
      assert.deepEqual(await changed(place, async () => undefined), [], 'and not again');
    });
  }

  test('what could not be read is read at the next look', async () => {
    const place = await started();
    const { store, directory } = place;
    const members = store.read.bind(store);
    let failures = 1;
    store.read = (work) =>
      members(async (reader) => {
        const all = reader.members.all;
        const failing: typeof all = (organisationId, after) => {
          if (failures > 0) throw new Error(`failure ${failures--}`);
          return all(organisationId, after);
        };
        return work({ ...reader, members: { ...reader.members, all: failing } });
      });
    await changed(place, async (writer) => {
      await writer.users.insert(storedUser());
      await writer.members.insert(storedMember({ role: 'manager' }));
    });
    assert.equal(directory.memberRole('ws-1', 'user-1'), undefined);
    await directory.refresh();
    assert.equal(directory.memberRole('ws-1', 'user-1'), 'manager');
    assert.equal(directory.user('org-1', 'user-1')?.role, 'member');
  });
});

test('directory: all that a change touched is known at the same moment', async () => {
  const place = await started();
  const { store, directory } = place;
  const known = (): number =>
    [
      directory.keyByHash('hash of key-1'),
      directory.workspaceId('org-1', 'slug-of-ws-1'),
      directory.user('org-1', 'user-1'),
      directory.record('config', { organisationId: 'org-1', workspaceId: 'ws-1' }, 'r-1'),
    ].filter((part) => part !== undefined).length;
  const read = store.read.bind(store);
  const meanwhile: number[] = [];
  store.read = (work) => {
    meanwhile.push(known());
    return read(work);
  };
  await changed(place, async (writer) => {
    await writer.apiKeys.insert(storedKey());
    await writer.workspaces.insert(storedWorkspace());
    await writer.users.insert(storedUser());
    await writer.records.insert(storedRecord());
  });
  assert.ok(meanwhile.length > 3);
  assert.deepEqual([...new Set(meanwhile)], [0]);
  assert.equal(known(), 4);
});

describe('directory: many people', () => {
  test('come in pages', async () => {
    const store = new StoreInMemory();
    for (let number = 0; number < 2001; number += 1) {
      const id = `user-${number}`;
      store.users.set(id, storedUser({ id }));
      const workspaceId = `ws-${number % 3}`;
      store.members.set(`${workspaceId} ${id}`, storedMember({ userId: id, workspaceId }));
    }
    store.numbers.set('org-1', 1);
    const directory = follow(store);
    await directory.start();
    for (const number of [0, 999, 1000, 1001, 2000]) {
      assert.ok(directory.user('org-1', `user-${number}`));
      assert.equal(directory.memberRole(`ws-${number % 3}`, `user-${number}`), 'member');
    }
    assert.deepEqual(
      store.reads.filter((table) => table === 'users' || table === 'members'),
      ['users', 'users', 'users', 'members', 'members', 'members'],
    );
  });
});

describe('directory: many records', () => {
  const place = { organisationId: 'org-1', workspaceId: 'ws-1' };

  test('come in pages, which are of any length', async () => {
    const store = new StoreInMemory();
    store.recordsAPage = 2;
    await store.write('org-1', async ({ records }) => {
      for (let number = 0; number < 5; number += 1) await records.insert(storedRecord({ id: `r-${number}` }));
    });
    const directory = follow(store);
    await directory.start();
    assert.equal(directory.records('config', place).length, 5);
    assert.deepEqual(
      store.reads.filter((table) => table === 'records'),
      ['records', 'records', 'records', 'records'],
    );
  });

  test('of a change only those that it touched are read, and the others stay the same objects', async () => {
    const following = await started();
    const { store, directory } = following;
    await changed(following, async ({ records }) => {
      for (const id of ['r-1', 'r-2', 'r-3']) await records.insert(storedRecord({ id }));
    });
    const [one, two, three] = directory.records('config', place);
    store.records.delete('r-3');
    await changed(following, ({ records }) => records.replace(storedRecord({ id: 'r-2', name: 'new' })));
    const now = directory.records('config', place);
    assert.equal(now[0], one);
    assert.notEqual(now[1], two);
    assert.equal(now[1]?.name, 'new');
    assert.equal(now[2], three, 'nobody said that it is gone');
    assert.equal(directory.record('config', place, 'r-2'), now[1]);
  });
});

describe('directory: the owner of the default organisation', () => {
  test('is made at the first start, and known', async () => {
    const { store, directory } = await started();
    assert.deepEqual(
      [...store.users.values()].map(({ id, email, role }) => ({ id, email, role })),
      [{ ...owner, role: 'owner' }],
    );
    assert.deepEqual(directory.user('org-1', 'Boss@example.com'), { id: 'user-0', role: 'owner' });
  });

  test('is made in a store of before, which has everything but people', async () => {
    const store = new StoreInMemory();
    store.workspaces.set('ws-0', storedWorkspace({ id: 'ws-0', isDefault: true, name: 'renamed' }));
    await follow(store).start();
    assert.equal(store.users.get('user-0')?.role, 'owner');
    assert.equal(store.workspaces.get('ws-0')?.name, 'renamed');
  });

  test('is not made again when others have taken over', async () => {
    const { store } = await started();
    await store.write('org-1', async ({ users }) => {
      await users.insert(storedUser({ role: 'owner' }));
      await users.remove('org-1', 'user-0');
    });
    const number = store.numbers.get('org-1');
    await follow(store).start();
    assert.deepEqual([...store.users.keys()], ['user-1']);
    assert.equal(store.numbers.get('org-1'), number, 'nothing was written');
  });
});

const ids = ['1', '2', '3'];
const organisations = ['org-1', 'org-2'] as const;
const metadata = fc.dictionary(fc.constantFrom('a', 'b'), fc.constantFrom('x', 'y'), { maxKeys: 2 });
const defaults = fc.record({ metadata, configId: fc.constantFrom('c', 'd') }, { requiredKeys: [] });
const categories = fc.subarray(['configs', 'prompts', 'data_visibility', 'user_api_keys'] as const);

/** One thing that somebody does in one organisation. */
const action = fc.record({
  organisationId: fc.constantFrom(...organisations),
  id: fc.constantFrom(...ids),
  other: fc.constantFrom(...ids),
  kind: fc.constantFrom(
    'key',
    'no key',
    'workspace',
    'user',
    'no user',
    'member',
    'no member',
    'settings',
    'record',
    'no record',
    'audit',
  ),
  isHigh: fc.boolean(),
  defaults,
  categories,
});
type Action = typeof action extends fc.Arbitrary<infer T> ? T : never;

async function act(writer: ResourcesWriter, one: Action): Promise<void> {
  const { organisationId, isHigh, kind } = one;
  const key = `key-${organisationId}-${one.id}`;
  const workspaceId = `ws-${organisationId}-${one.id}`;
  const userId = `user-${organisationId}-${one.other}`;
  const { configs, prompts } = defaultSecurity;
  if (kind === 'key') {
    await writer.apiKeys.insert(
      storedKey({ id: key, organisationId, workspaceId, userId, name: `${isHigh}`, defaults: one.defaults }),
    );
  } else if (kind === 'no key') await writer.apiKeys.remove(organisationId, key);
  else if (kind === 'workspace') {
    const status = isHigh ? 'archived' : 'active';
    const slug = `slug-${one.other}`;
    await writer.workspaces.insert(
      storedWorkspace({ id: workspaceId, organisationId, status, slug, defaults: one.defaults }),
    );
  } else if (kind === 'user')
    await writer.users.insert(storedUser({ id: userId, organisationId, role: isHigh ? 'admin' : 'member' }));
  else if (kind === 'no user') await writer.users.remove(organisationId, userId);
  else if (kind === 'member') {
    const role = isHigh ? 'manager' : 'member';
    await writer.members.insert(storedMember({ organisationId, workspaceId, userId, role }));
  } else if (kind === 'no member') await writer.members.remove(organisationId, workspaceId, userId);
  else if (kind === 'record') {
    const status = isHigh ? 'archived' : 'active';
    await writer.records.insert(
      storedRecord({
        id: `r-${organisationId}-${one.id}`,
        organisationId,
        status,
        slug: `slug-of-${one.id}`,
        workspaceId: one.other === '3' ? undefined : `ws-${organisationId}-${one.other}`,
        kind: one.id === '3' ? 'label' : 'config',
      }),
    );
  } else if (kind === 'no record')
    await writer.records.remove('config', organisationId, `r-${organisationId}-${one.id}`);
  else if (kind === 'settings' && isHigh) {
    const overrides = { configs: { ...configs, membersWriteConfigs: true }, prompts: { ...prompts } };
    await writer.settings.replaceWorkspace({
      workspaceId,
      organisationId,
      overrides,
      updatedAt: 1,
      version: 1,
    });
  } else if (kind === 'settings') {
    await writer.settings.replaceOrganisation({
      ...defaultSettings(organisationId),
      overridable: one.categories,
      defaults: one.defaults,
    });
  }
}

/** Everything that can be asked of a directory about what the actions name. */
function answers(directory: Directory): unknown {
  return organisations.flatMap((organisationId) =>
    ids.flatMap((id) => {
      const workspaceId = `ws-${organisationId}-${id}`;
      return [
        directory.keyByHash(`hash of key-${organisationId}-${id}`),
        directory.isArchived(workspaceId),
        directory.workspaceId(organisationId, workspaceId),
        // Several workspaces of the model may have one slug; any of them will do.
        directory.workspaceId(organisationId, `slug-${id}`) === undefined,
        directory.defaultsOf(organisationId, workspaceId),
        directory.settingsIn(organisationId, workspaceId),
        directory.user(organisationId, `user-${organisationId}-${id}`),
        directory.user(organisationId, `user-${organisationId}-${id}@example.com`),
        directory.records('config', { organisationId, workspaceId }),
        directory.records('label', { organisationId, workspaceId }),
        directory.record('config', { organisationId }, `r-${organisationId}-${id}`),
        directory.record('config', { organisationId, workspaceId }, `slug-of-${id}`),
        ids.map((other) => directory.memberRole(workspaceId, `user-${organisationId}-${other}`)),
      ];
    }),
  );
}

test('directory: changes seen one after the other come to what reading everything does', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(action, fc.boolean()), { minLength: 1, maxLength: 25 }),
      async (actions) => {
        const { store, directory } = await started();
        for (const [one, looks] of actions) {
          await store.write(one.organisationId, (writer) => act(writer, one));
          if (looks) await directory.refresh();
        }
        await directory.refresh();
        const anew = follow(store);
        await anew.start();
        assert.deepEqual(answers(directory), answers(anew));
      },
    ),
    { numRuns: 150 },
  );
});

test('directory: another store, in which less has happened, takes the place of everything', async () => {
  const place = await started();
  const { store, directory } = place;
  for (let count = 0; count < 3; count += 1)
    await changed(place, async (writer) => {
      await writer.apiKeys.insert(storedKey());
      await writer.users.insert(storedUser());
      await writer.members.insert(storedMember());
      await writer.workspaces.insert(storedWorkspace({ status: 'archived', defaults: { configId: 'c' } }));
      await writer.records.insert(storedRecord());
    });
  assert.equal(directory.memberRole('ws-1', 'user-1'), 'member');
  for (const table of [store.keys, store.users, store.members, store.workspaces, store.records, store.marks])
    table.clear();
  store.numbers.set('org-1', 1);
  await directory.refresh();
  assert.deepEqual(
    [
      directory.keyByHash('hash of key-1'),
      directory.user('org-1', 'user-1'),
      directory.memberRole('ws-1', 'user-1'),
      directory.workspaceId('org-1', 'ws-1'),
      directory.isArchived('ws-1'),
      directory.defaultsOf('org-1', 'ws-1'),
      directory.record('config', { organisationId: 'org-1' }, 'r-1'),
    ],
    [undefined, undefined, undefined, undefined, false, {}, undefined],
  );
});
