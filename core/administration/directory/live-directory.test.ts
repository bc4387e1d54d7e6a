import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { ManualClock, settle } from '../../../tests/conformance/manual-clock.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import {
  type Line,
  recordingLog,
  RecordingMetrics,
} from '../../lifecycle/recording-services.test-support.ts';
import type { Directory, KeyRecord } from '../../ports/directory.ts';
import type { Resources } from '../../ports/resources.ts';
import { createDirectory, type LiveDirectory } from './live-directory.ts';
import { StoreInMemory } from './store.test-support.ts';
import { storedKey, storedWorkspace } from './stored-records.test-support.ts';
import { withoutStore } from '../../organisation/without-store.ts';

const owner: KeyRecord = {
  id: 'owner',
  name: 'owner',
  kind: 'owner',
  organisationId: 'org-1',
  workspaceId: 'ws-0',
  userId: 'user-0',
  scopes: ['*'],
  expiresAt: null,
};
const base: Directory = {
  keyByHash: (hash) => (hash === 'hash of owner' ? owner : undefined),
  ...withoutStore,
  defaultOrganisationId: 'org-1',
  defaultWorkspaceId: 'ws-0',
};

const away = new GatewayError('store_unavailable', 'The connection was refused.');

let open: LiveDirectory[] = [];
afterEach(() => {
  for (const directory of open) directory.close();
  open = [];
});

function setUp(store = new StoreInMemory(), prepareStore?: () => Promise<void>) {
  const clock = new ManualClock();
  const lines: Line[] = [];
  const metrics = new RecordingMetrics();
  const directory = createDirectory({
    base,
    owner: { id: 'user-0', email: 'boss@example.com' },
    resources: store,
    clock,
    log: recordingLog(lines),
    metrics,
    ...(prepareStore && { prepareStore }),
  });
  open.push(directory);
  const scrape = (): void => metrics.scrapes.forEach((collect) => collect());
  return { store, clock, lines, metrics, directory, scrape };
}

const write = <T>(store: Resources, work: Parameters<Resources['write']>[1]): Promise<T> =>
  store.write('org-1', work) as Promise<T>;
const insert = (store: Resources, key = storedKey()): Promise<void> =>
  write(store, (writer) => writer.apiKeys.insert(key));
const remove = (store: Resources, id = 'key-1'): Promise<void> =>
  write(store, (writer) => writer.apiKeys.remove('org-1', id));
const find = (directory: Directory, id = 'key-1'): KeyRecord | undefined =>
  directory.keyByHash(`hash of ${id}`);

async function archive(store: StoreInMemory | Resources, status: 'active' | 'archived'): Promise<void> {
  await write(store, async ({ workspaces }) => {
    const known = await workspaces.find('org-1', 'ws-0');
    assert.ok(known);
    await workspaces.replace({ ...known, id: 'ws-1', slug: 'ws-one', status, isDefault: false });
  });
}

describe('directory: what is known', () => {
  test('everything of the store after the start, in however many pages it comes', async () => {
    const { store, directory, metrics, scrape } = setUp();
    for (let number = 0; number < 2001; number += 1) await insert(store, storedKey({ id: `key-${number}` }));
    store.calls.length = 0;
    await directory.start();
    for (const number of [0, 1000, 1999, 2000])
      assert.equal(find(directory, `key-${number}`)?.name, `name of key-${number}`);
    scrape();
    assert.equal(metrics.values.get('weir_directory_keys'), 2001);
    assert.equal(metrics.values.get('weir_directory_current'), 1);
  });

  test('what is known without a store comes first, and stays', async () => {
    const { store, directory } = setUp();
    await insert(store, storedKey({ id: 'owner' }));
    await directory.start();
    assert.equal(find(directory, 'owner'), owner);
    assert.equal(directory.defaultWorkspaceId, 'ws-0');
  });

  test('the default organisation and workspace are put into the store, once', async () => {
    const { store, directory } = setUp();
    await directory.start();
    assert.equal(store.organisations.get('org-1')?.name, 'Default organisation');
    assert.equal(store.workspaces.get('ws-0')?.isDefault, true);
    const again = setUp(store);
    await again.directory.start();
    assert.equal(store.numbers.get('org-1'), 1, 'a second start writes nothing');
  });
});

describe('directory: a store that is prepared', () => {
  test('is prepared before the default records are made, which are made all the same', async () => {
    const store = new StoreInMemory();
    const before: number[] = [];
    const { directory } = setUp(store, async () => void before.push(store.organisations.size));
    await directory.start();
    assert.deepEqual(before, [0]);
    assert.equal(store.organisations.get('org-1')?.name, 'Default organisation');
  });
});

describe('directory: changes', () => {
  test('a write through the directory is known when it resolves', async () => {
    const { directory } = setUp();
    await directory.start();
    await insert(directory.resources);
    assert.equal(find(directory)?.id, 'key-1');
    await remove(directory.resources);
    assert.equal(find(directory), undefined);
    await Promise.all(
      Array.from({ length: 20 }, async (_, number) => {
        await insert(directory.resources, storedKey({ id: `many-${number}` }));
        assert.ok(find(directory, `many-${number}`), 'known when its own write resolves');
      }),
    );
  });

  test('limits of keys and workspaces are known with the write that changes them', async () => {
    const { store, directory } = setUp();
    const rateLimits = [{ type: 'requests', unit: 'rpm', value: 5 }] as const;
    await write(store, ({ workspaces }) => workspaces.insert(storedWorkspace({ rateLimits })));
    await directory.start();
    assert.deepEqual(directory.rateLimitsOf('org-1', 'ws-1'), rateLimits);
    await insert(directory.resources, storedKey({ rateLimits }));
    assert.deepEqual(find(directory)?.rateLimits, rateLimits);
    await write(directory.resources, ({ workspaces }) => workspaces.replace(storedWorkspace()));
    assert.equal(directory.rateLimitsOf('org-1', 'ws-1'), undefined);
    await insert(directory.resources, storedKey());
    assert.equal(find(directory)?.rateLimits, undefined);
  });

  test('a write that fails rejects as it did', async () => {
    const { directory } = setUp();
    await directory.start();
    const refused = write(directory.resources, () => Promise.reject(new Error('taken')));
    await assert.rejects(refused, /taken/);
  });

  test('another process: at once when notified, within two seconds when the notification was lost', async () => {
    const { store, directory, clock } = setUp();
    await directory.start();
    await insert(store);
    assert.equal(find(directory), undefined);
    for (const look of store.lookers) look();
    await settle();
    assert.ok(find(directory));
    await remove(store);
    await clock.pass(1999);
    assert.ok(find(directory));
    await clock.pass(1);
    assert.equal(find(directory), undefined);
    store.calls.length = 0;
    await clock.pass(6000);
    assert.deepEqual(store.calls, ['changes', 'changes', 'changes'], 'nothing moved: nothing is read');
  });

  test('a look that began before a change does not stand for it', async () => {
    const { store, directory } = setUp();
    await directory.start();
    let release = (): void => undefined;
    store.held = new Promise((resolve) => (release = resolve));
    const before = directory.refresh();
    await insert(store);
    const after = directory.refresh();
    store.held = undefined;
    release();
    await before;
    assert.equal(find(directory), undefined);
    await after;
    assert.ok(find(directory));
  });

  test('archived workspaces, and active ones again', async () => {
    const { directory } = setUp();
    await directory.start();
    await archive(directory.resources, 'archived');
    assert.deepEqual([directory.isArchived('ws-1'), directory.isArchived('ws-0')], [true, false]);
    await archive(directory.resources, 'active');
    assert.equal(directory.isArchived('ws-1'), false);
  });

  test('a store whose numbers went back is read anew', async () => {
    const { store, directory } = setUp();
    await directory.start();
    await insert(directory.resources);
    store.keys.clear();
    store.numbers.set('org-1', 1);
    await directory.refresh();
    assert.equal(find(directory), undefined);
  });

  test('after half a day without an answer everything is read anew: removals may be forgotten', async () => {
    const { store, directory, clock } = setUp();
    await directory.start();
    await insert(directory.resources);
    store.away = away;
    await clock.pass(12 * 3_600_000);
    store.away = undefined;
    store.keys.clear();
    await clock.pass(2000);
    assert.equal(find(directory), undefined);
  });
});

describe('directory: while the store is away', () => {
  test('it serves what it knows, says so once, and catches up', async () => {
    const { store, directory, clock, lines, metrics } = setUp();
    await directory.start();
    await insert(directory.resources);
    store.away = away;
    await clock.pass(10_000);
    assert.ok(find(directory));
    assert.deepEqual(
      lines.map(({ level, message }) => [level, message.slice(0, 54)]),
      [['warn', 'The store of keys and workspaces does not answer. Requ']],
    );
    assert.equal(metrics.values.get('weir_directory_current'), 0);
    store.away = undefined;
    await remove(store);
    await clock.pass(2000);
    assert.equal(find(directory), undefined);
    assert.match(lines[1]?.message ?? '', /answers again/);
    assert.equal(lines[1]?.fields['away_ms'], 10_000);
    assert.equal(metrics.values.get('weir_directory_current'), 1);
  });

  test('a start goes on without it after a second, and reads everything when it is there', async () => {
    const { store, directory, clock, lines } = setUp();
    store.away = away;
    let started = false;
    void directory.start().then(() => (started = true));
    await clock.pass(999);
    assert.equal(started, false);
    await clock.pass(1);
    assert.equal(started, true);
    assert.match(lines[1]?.message ?? '', /cannot be read, and there is no snapshot/);
    assert.equal(find(directory, 'owner'), owner);
    store.away = undefined;
    await insert(store);
    await clock.pass(500);
    assert.ok(find(directory));
    assert.ok(store.workspaces.has('ws-0'));
  });

  test('who reads or writes a store that has just come finds the default records in it', async () => {
    for (const verb of ['read', 'write'] as const) {
      const { store, directory, clock } = setUp();
      store.away = away;
      void directory.start();
      await clock.pass(1000);
      store.away = undefined;
      const look = async (): Promise<boolean> => store.workspaces.has('ws-0');
      const { resources } = directory;
      assert.ok(await (verb === 'read' ? resources.read(look) : resources.write('org-1', look)));
      directory.close();
    }
  });

  test('a start waits for a store that is slow, half a minute at the most', async () => {
    const { store, directory, clock, lines } = setUp();
    let release = (): void => undefined;
    store.heldReads = new Promise((resolve) => (release = resolve));
    let started = false;
    void directory.start().then(() => (started = true));
    await clock.pass(9999);
    store.heldReads = undefined;
    release();
    await settle();
    assert.deepEqual([started, lines.length], [true, 0]);

    const slower = setUp();
    slower.store.heldReads = new Promise(() => undefined);
    started = false;
    void slower.directory.start().then(() => (started = true));
    await slower.clock.pass(29_999);
    assert.equal(started, false);
    await slower.clock.pass(1);
    assert.equal(started, true);
    slower.directory.close();
  });

  test('a look that never ends is given up, and changes nothing when it ends late', async () => {
    const { store, directory, clock } = setUp();
    await directory.start();
    let release = (): void => undefined;
    store.heldReads = new Promise((resolve) => (release = resolve));
    await insert(store);
    const stuck = directory.refresh();
    await settle();
    store.heldReads = undefined;
    await remove(store);
    await clock.pass(10_000);
    await stuck;
    await clock.pass(2000);
    release();
    await settle();
    assert.equal(find(directory), undefined);
    await insert(directory.resources);
    assert.ok(find(directory));
  });

  test('closed, it asks nothing and waits for nothing', async () => {
    const { store, directory, clock } = setUp();
    await directory.start();
    directory.close();
    store.calls.length = 0;
    await directory.refresh();
    await clock.pass(10_000);
    assert.deepEqual([store.calls.length, store.lookers.size, clock.waiting], [0, 0, 0]);
  });
});
