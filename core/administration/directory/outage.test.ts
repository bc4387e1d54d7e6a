import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { ManualClock, settle } from '../../../tests/conformance/manual-clock.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import {
  type Line,
  recordingLog,
  RecordingMetrics,
} from '../../lifecycle/recording-services.test-support.ts';
import type { Directory, DirectorySnapshots } from '../../ports/directory.ts';
import { withoutStore } from '../../organisation/without-store.ts';
import { defaultSecurity, defaultSettings } from '../../ports/organisation-settings.ts';
import { createDirectory, type LiveDirectory } from './live-directory.ts';
import { StoreInMemory } from './store.test-support.ts';
import {
  storedKey,
  storedMember,
  storedRecord,
  storedUser,
  storedWorkspace,
} from './stored-records.test-support.ts';

const base: Directory = {
  ...withoutStore,
  keyByHash: (hash) =>
    hash === 'hash of owner'
      ? {
          id: 'owner',
          name: 'owner',
          kind: 'owner',
          organisationId: 'org-1',
          workspaceId: 'ws-0',
          userId: 'user-0',
          scopes: ['*'],
          expiresAt: null,
        }
      : undefined,
  defaultOrganisationId: 'org-1',
  defaultWorkspaceId: 'ws-0',
};
const away = new GatewayError('store_unavailable', 'The store is away.');

/** Keeps snapshots as the JSON that they are on disk. */
class SnapshotsInMemory implements DirectorySnapshots {
  writes = 0;
  failing: Error | undefined;
  #kept: { at: number; text: string } | undefined;

  async read() {
    return this.#kept && { at: this.#kept.at, rows: JSON.parse(this.#kept.text) as unknown[] };
  }

  async write({ at, rows }: { readonly at: number; readonly rows: Iterable<unknown> }) {
    if (this.failing !== undefined) throw this.failing;
    this.writes += 1;
    this.#kept = { at, text: JSON.stringify([...rows]) };
  }

  async confirm(at: number) {
    if (this.#kept !== undefined) this.#kept.at = at;
  }
}

let open: LiveDirectory[] = [];
afterEach(() => {
  for (const directory of open) directory.close();
  open = [];
});

function setUp({
  store = new StoreInMemory(),
  clock = new ManualClock(),
  snapshots = new SnapshotsInMemory(),
  maxAgeMs = 900_000,
} = {}) {
  const lines: Line[] = [];
  const metrics = new RecordingMetrics();
  const directory = createDirectory({
    base,
    owner: { id: 'user-0', email: 'boss@example.com' },
    resources: store,
    maxAgeMs,
    clock,
    log: recordingLog(lines),
    metrics,
    snapshots,
  });
  open.push(directory);
  const metric = (name: string): number | undefined => {
    metrics.scrapes.forEach((collect) => collect());
    return metrics.values.get(name);
  };
  return { store, clock, snapshots, lines, directory, metric };
}

/** A start while the store is away: it is waited for a second. */
async function startedAway(parts: Parameters<typeof setUp>[0]) {
  const gateway = setUp(parts);
  gateway.store.away = away;
  const starting = gateway.directory.start();
  await gateway.clock.pass(2000);
  await starting;
  return gateway;
}

const find = (directory: Directory, id = 'key-1') => directory.keyByHash(`hash of ${id}`);

describe('directory: while its store is away', () => {
  test('keys are found until the greatest age is reached, and again when the store is back', async () => {
    const { store, clock, directory, lines, metric } = setUp({ maxAgeMs: 60_000 });
    await store.write('org-1', ({ apiKeys }) => apiKeys.insert(storedKey()));
    await directory.start();
    assert.deepEqual([directory.standing(), directory.status().source], ['current', 'store']);

    store.away = away;
    await clock.pass(55_000);
    assert.deepEqual([directory.standing(), find(directory)?.id], ['behind', 'key-1']);
    assert.deepEqual(directory.unready(), [], 'it can serve what it knows');
    assert.ok(Number(directory.status().age_seconds) >= 50);
    assert.ok(Number(metric('weir_directory_age_seconds')) >= 50);

    await clock.pass(10_000);
    assert.deepEqual([directory.standing(), find(directory)], ['unknown', undefined]);
    assert.match(directory.unready().join(), /security\.directory_max_age \(60 s\)/);
    assert.equal(find(directory, 'owner')?.id, 'owner', "the owner's key is not of the store");
    assert.equal(lines.filter(({ message }) => message.includes('refused with 503')).length, 1);

    store.away = undefined;
    await clock.pass(2000);
    assert.deepEqual([directory.standing(), find(directory)?.id], ['current', 'key-1']);
    assert.deepEqual(directory.unready(), []);
  });

  test('another greatest age holds at once', async () => {
    const { store, clock, directory } = setUp();
    await directory.start();
    store.away = away;
    await clock.pass(30_000);
    directory.limitAge(20_000);
    assert.equal(directory.standing(), 'unknown');
    directory.limitAge(40_000);
    assert.equal(directory.standing(), 'behind');
    await clock.pass(11_000);
    assert.equal(directory.standing(), 'unknown');
  });

  test('a store that swallows questions is away, too', async () => {
    const { store, clock, directory } = setUp({ maxAgeMs: 60_000 });
    await directory.start();
    store.held = new Promise(() => undefined);
    await clock.pass(15_000);
    assert.deepEqual([directory.standing(), directory.unready()], ['behind', []]);
    await clock.pass(60_000);
    assert.equal(directory.standing(), 'unknown');
  });
});

describe('directory: a store that answers and cannot be read', () => {
  test('makes it unready at once, told once, until it can be read', async () => {
    const { store, clock, directory, lines } = setUp();
    await store.write('org-1', ({ apiKeys }) => apiKeys.insert(storedKey()));
    await directory.start();
    store.away = new GatewayError('internal', 'The resources store refused a statement: error 42703.');
    await clock.pass(10_000);
    assert.match(directory.unready().join(), /answers, and cannot be read by this version/);
    assert.deepEqual([directory.standing(), find(directory)?.id], ['behind', 'key-1']);
    assert.deepEqual(
      lines.map(({ level }) => level),
      ['error'],
    );
    store.away = away;
    await clock.pass(2000);
    assert.deepEqual(directory.unready(), [], 'away is something else: every replica is then');
    store.away = undefined;
    await clock.pass(2000);
    assert.equal(directory.standing(), 'current');
  });
});

describe('directory: snapshots', () => {
  test('a start without the store knows what the last one did', async () => {
    const first = setUp();
    const { store } = first;
    const configs = { ...defaultSecurity.configs, membersWriteConfigs: true };
    const rateLimits = [{ type: 'requests', unit: 'rpm', value: 5 }] as const;
    await store.write('org-1', async ({ apiKeys, workspaces, users, members, settings, records }) => {
      const rotated = { hash: 'hash before', expiresAt: 2_000_000_000_000 };
      const secrets = [{ hash: 'hash of key-1', expiresAt: undefined }, rotated];
      await apiKeys.insert(storedKey({ secrets, rateLimits, defaults: { configId: 'pc-1' } }));
      await apiKeys.insert(storedKey({ id: 'key-2', status: 'expired' }));
      const defaults = { metadata: { team: 'a' } };
      await workspaces.insert(storedWorkspace({ rateLimits, defaults }));
      await workspaces.insert(storedWorkspace({ id: 'ws-2', status: 'archived' }));
      await users.insert(storedUser());
      await members.insert(storedMember());
      const overridable = ['configs'] as const;
      await settings.replaceOrganisation({ ...defaultSettings('org-1'), overridable, version: 1 });
      await settings.replaceWorkspace({
        workspaceId: 'ws-1',
        organisationId: 'org-1',
        overrides: { configs },
        updatedAt: 1,
        version: 1,
      });
      await records.insert(storedRecord());
    });
    await store.write('org-2', ({ apiKeys }) =>
      apiKeys.insert(storedKey({ id: 'key-3', organisationId: 'org-2' })),
    );
    await first.directory.start();
    await settle();

    const { directory, lines } = await startedAway(first);
    const known = (one: Directory): unknown => [
      ...['hash of key-1', 'hash before', 'hash of key-2', 'hash of key-3'].map((hash) =>
        one.keyByHash(hash),
      ),
      one.keyById('key-1'),
      one.workspaceId('org-1', 'slug-of-ws-1'),
      one.isArchived('ws-2'),
      one.defaultsOf('org-1', 'ws-1'),
      one.rateLimitsOf('org-1', 'ws-1'),
      one.settingsIn('org-1', 'ws-1').configs,
      one.settingsIn('org-1', 'ws-2').configs,
      one.user('org-1', storedUser().email),
      one.memberRole(storedMember().workspaceId, storedMember().userId),
      one.records('config', { organisationId: 'org-1', workspaceId: 'ws-1' }).map(({ id }) => id),
      one.record(storedRecord().kind, { organisationId: 'org-1' }, storedRecord().id)?.data,
    ];
    assert.deepEqual(known(directory), known(first.directory));
    assert.deepEqual(
      [directory.standing(), directory.status().source, directory.unready()],
      ['behind', 'snapshot', []],
    );
    assert.ok(lines.some(({ message }) => message.includes('started with the snapshot')));
    store.away = undefined;
    await store.write('org-1', ({ apiKeys }) => apiKeys.remove('org-1', 'key-1'));
    await first.clock.pass(1000);
    assert.deepEqual([directory.standing(), find(directory)], ['current', undefined]);
  });

  test('its age counts over the restart, from the last time that the store held the same', async () => {
    const first = setUp();
    await first.store.write('org-1', ({ apiKeys }) => apiKeys.insert(storedKey()));
    await first.directory.start();
    await first.clock.pass(3_600_000);
    assert.equal(first.snapshots.writes, 1, 'nothing has changed: it is confirmed and not written');
    first.directory.close();
    await first.clock.pass(890_000);
    const { directory, clock } = await startedAway(first);
    assert.deepEqual([directory.standing(), find(directory)?.id], ['behind', 'key-1']);
    await clock.pass(15_000);
    assert.deepEqual([directory.standing(), find(directory)], ['unknown', undefined]);
    const late = await startedAway(first);
    assert.deepEqual([late.directory.standing(), find(late.directory)], ['unknown', undefined]);
  });

  test('every change is in the next one, also when a write fails or changes come fast', async () => {
    const { store, clock, snapshots, directory, lines } = setUp();
    await directory.start();
    snapshots.failing = new Error('ENOSPC');
    for (let number = 0; number < 5; number += 1)
      await store.write('org-1', ({ apiKeys }) => apiKeys.insert(storedKey({ id: `key-${number}` })));
    await clock.pass(20_000);
    snapshots.failing = undefined;
    await clock.pass(4000);
    assert.equal(lines.filter(({ message }) => message.includes('cannot be written')).length, 1);
    const writes = snapshots.writes;
    for (let number = 5; number < 50; number += 1)
      await directory.resources.write('org-1', ({ apiKeys }) =>
        apiKeys.insert(storedKey({ id: `key-${number}` })),
      );
    await clock.pass(4000);
    assert.ok(snapshots.writes - writes <= 3, 'a second lies between two');
    const again = await startedAway({ store, clock, snapshots });
    for (let number = 0; number < 50; number += 1) assert.ok(find(again.directory, `key-${number}`));
  });
});
