import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { OrganisationBlock } from '../../organisation/organisation-block.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import { readerWithoutStore, withoutStore } from '../../organisation/without-store.ts';
import type { Directory } from '../../ports/directory.ts';
import type { Resources, ResourcesReader, WorkspaceRecord } from '../../ports/resources.ts';
import { sha256 } from '../../base/bytes.ts';
import { FileRecords } from './file-records.ts';
import { directoryWithFile } from './file-records-directory.ts';
import { FileRecordsInUse } from './file-records-in-use.ts';
import { withFileRecords } from './file-records-resources.ts';
import type { OwnedFile } from './owned-file.ts';
import { plainBox, storedWorkspace } from './stored-records.test-support.ts';

const place = { defaultOrganisationId: 'org-1', defaultWorkspaceId: 'ws-id-default', secrets: plainBox };
const secret = 'wk_0123456789abcdef';
const block: OrganisationBlock = {
  name: 'Acme',
  workspaces: [
    { slug: 'ws-lab', name: 'Laboratory', defaults: { metadata: { team: 'lab' }, config_id: 'main' } },
    { slug: 'ws-shop', name: 'Shop', rate_limits: [{ type: 'requests', unit: 'rpm', value: 5 }] },
  ],
  keys: [
    {
      name: 'batch',
      type: 'workspace-service',
      workspace: 'ws-lab',
      key: secret,
      scopes: ['completions:write'],
      expires_at: '2030-01-01T00:00:00Z',
      defaults: { allow_config_override: false },
    },
    {
      name: 'plain',
      type: 'workspace-service',
      key: `${secret}2`,
      scopes: ['logs.view'],
      rate_limits: [{ type: 'tokens', unit: 'rpd', value: 7 }],
    },
    { name: 'admin', type: 'organisation-service', key: `${secret}3`, scopes: ['workspaces.list'] },
  ],
};
const fileOf = (organisation: OrganisationBlock): OwnedFile => ({ config: { organisation } });
const records = new FileRecords(fileOf(block), place, 1000);
const hash = (text: string): string => sha256(text, 'base64');

describe('records of the file', () => {
  test('have the same ids in every process, others in other organisations, and shape of a UUID', () => {
    const again = new FileRecords(fileOf(block), place, 2000);
    const elsewhere = new FileRecords(fileOf(block), { ...place, defaultOrganisationId: 'org-2' }, 1000);
    const idsOf = (one: FileRecords) => [...one.workspaces, ...one.apiKeys].map(({ id }) => id);
    assert.deepEqual(idsOf(again), idsOf(records));
    assert.equal(new Set([...idsOf(records), ...idsOf(elsewhere)]).size, 10);
    for (const id of idsOf(records))
      assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    // Members and settings in the store name it.
    assert.equal(records.workspaces[0]?.id, '76be5b62-6b77-8451-823c-819339a8ecd3');
  });

  test('say what the file says, and never the secret', () => {
    const [key] = records.apiKeys;
    assert.deepEqual(
      [key?.workspaceId, key?.scopes, key?.defaults, key?.expiresAt, key?.managedBy],
      [
        ...[records.workspaces[0]?.id, ['completions.write'], { allowConfigOverride: false }],
        ...[Date.parse('2030-01-01T00:00:00Z'), 'file'],
      ],
    );
    assert.ok(!JSON.stringify(records.apiKeys).includes(secret));
    assert.equal(records.placeOf(records.apiKeys[1]?.id ?? ''), 'organisation.keys[1]');
  });

  test('let their keys in, in the workspace that they name or the default one', () => {
    const found = [secret, `${secret}2`, `${secret}3`].map((text) => records.keyByHash(hash(text)));
    assert.deepEqual(
      found.map((key) => [key?.name, key?.kind, key?.workspaceId, key?.expiresAt]),
      [
        ['batch', 'workspace-service', records.workspaces[0]?.id, Date.parse('2030-01-01T00:00:00Z')],
        ['plain', 'workspace-service', 'ws-id-default', null],
        ['admin', 'organisation-service', 'ws-id-default', null],
      ],
    );
    assert.equal(records.keyByHash(hash('another')), undefined);
  });
});

function directory(base: Partial<Directory> = {}, own = records): Directory {
  return directoryWithFile({ ...withoutStore, keyByHash: () => undefined, ...place, ...base }, () => own);
}

describe('the directory with the file', () => {
  test('works without any store', () => {
    const lab = records.workspaces[0] as WorkspaceRecord;
    const own = directory();
    assert.equal(own.keyByHash(hash(secret))?.name, 'batch');
    assert.equal(own.workspaceId('org-1', 'ws-lab'), lab.id);
    assert.equal(own.workspaceId('org-1', lab.id), lab.id);
    assert.equal(own.workspaceId('org-2', 'ws-lab'), undefined);
    assert.deepEqual(own.defaultsOf('org-1', lab.id), {
      metadata: { team: 'lab' },
      configId: 'main',
      own: lab.defaults,
    });
  });

  test('the file wins over the store, the owner over the file', () => {
    const base = { id: 'x', name: 'stored', organisationId: 'org-1', workspaceId: '', userId: '' };
    const stored = { ...base, kind: 'workspace-service', scopes: [], expiresAt: null } as const;
    assert.equal(directory({ keyByHash: () => stored }).keyByHash(hash(secret))?.name, 'batch');
    assert.equal(directory({ keyByHash: () => stored }).keyByHash('other')?.name, 'stored');
    const owner = { ...stored, kind: 'owner' } as const;
    assert.equal(directory({ keyByHash: () => owner }).keyByHash(hash(secret))?.kind, 'owner');
  });

  test('defaults: a workspace before the organisation, the file before the store', () => {
    const [lab, shop] = records.workspaces as [WorkspaceRecord, WorkspaceRecord];
    const ofOrganisation = { metadata: { team: 'all', region: 'eu' }, configId: 'stored' };
    const ofStored = {
      metadata: { team: 'stored', region: 'eu' },
      configId: 'stored',
      own: { metadata: { team: 'stored' } },
    };
    const base = { defaultsOf: (_: string, id: string) => (id === 'ws-stored' ? ofStored : ofOrganisation) };
    const plain = directory(base);
    assert.deepEqual(plain.defaultsOf('org-1', lab.id), {
      metadata: { team: 'lab', region: 'eu' },
      configId: 'main',
      own: lab.defaults,
    });
    assert.equal(plain.defaultsOf('org-1', lab.id), plain.defaultsOf('org-1', lab.id), 'allocates once');
    assert.deepEqual(plain.defaultsOf('org-1', shop.id), ofOrganisation);
    assert.equal(plain.defaultsOf('org-1', 'ws-stored'), ofStored);

    const owned = new FileRecords(fileOf({ ...block, defaults: { metadata: { level: 'file' } } }), place, 1);
    const own = directory(base, owned);
    assert.deepEqual(own.defaultsOf('org-1', lab.id), {
      metadata: { level: 'file', team: 'lab' },
      configId: 'main',
      own: lab.defaults,
    });
    assert.deepEqual(own.defaultsOf('org-1', 'ws-without'), { metadata: { level: 'file' } });
    assert.deepEqual(own.defaultsOf('org-1', 'ws-stored').metadata?.['team'], 'stored');
    assert.equal(own.defaultsOf('org-2', 'ws-without'), ofOrganisation);
  });

  test('limits: those of a workspace and a key of the file, else those of the store', () => {
    const [lab, shop] = records.workspaces as [WorkspaceRecord, WorkspaceRecord];
    const stored = [{ type: 'requests', unit: 'rpm', value: 9 }] as const;
    const own = directory({ rateLimitsOf: () => stored });
    assert.deepEqual(own.rateLimitsOf('org-1', shop.id), [{ type: 'requests', unit: 'rpm', value: 5 }]);
    assert.equal(own.rateLimitsOf('org-1', lab.id), undefined);
    assert.equal(own.rateLimitsOf('org-1', 'ws-stored'), stored);
    assert.equal(own.rateLimitsOf('org-2', shop.id), stored);
    assert.deepEqual(own.keyByHash(hash(`${secret}2`))?.rateLimits, [
      { type: 'tokens', unit: 'rpd', value: 7 },
    ]);
  });

  test('a reload is seen by the next look-up, and told once', () => {
    let serving = fileOf(block);
    const inUse = new FileRecordsInUse(serving, place, { now: () => 1 });
    const heard: number[] = [];
    inUse.onChange((one) => void heard.push(one.apiKeys.length));
    inUse.follow(() => serving);
    const own = directoryWithFile({ ...withoutStore, keyByHash: () => undefined, ...place }, inUse.current);
    assert.equal(own.keyByHash(hash(secret))?.name, 'batch');
    serving = fileOf({});
    inUse.prepare(serving);
    assert.equal(own.keyByHash(hash(secret)), undefined);
    assert.equal(own.workspaceId('org-1', 'ws-lab'), undefined);
    assert.deepEqual(heard, [3, 0]);
  });
});

const away = new GatewayError('store_unavailable', 'The resources store is not available.');

/** A store of workspaces alone. */
function storeOf(stored: readonly WorkspaceRecord[], error?: Error): Resources {
  const reader: ResourcesReader = {
    ...readerWithoutStore(away),
    workspaces: {
      find: async (_, named) => stored.find(({ id, slug }) => id === named || slug === named),
      list: async (_, __, { offset, limit }) => ({
        total: stored.length,
        data: stored.slice(offset, offset + limit),
      }),
    },
  };
  const absent = (): never => {
    throw new Error('This part of the store is not there.');
  };
  return {
    read: async (work) => {
      if (error !== undefined) throw error;
      return work(reader);
    },
    write: absent,
    changes: absent,
    onChange: absent,
    ping: absent,
    close: absent,
  };
}

describe('the store with the file', () => {
  test('every page of every list is a part of one: the file first, then the store, with exact totals', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(5), fc.nat(9), fc.nat(12), fc.nat(6), async (own, held, offset, limit) => {
        const workspaces = Array.from({ length: own }, (_, at) => ({ slug: `ws-f${at}`, name: `f${at}` }));
        const stored = Array.from({ length: held }, (_, at) => storedWorkspace({ id: `s${at}` }));
        const merged = withFileRecords(
          storeOf(stored),
          () => new FileRecords(fileOf({ workspaces }), place, 1),
        );
        const whole = [...workspaces.map(({ name }) => name), ...stored.map(({ name }) => name)];
        const page = await merged.read((reader) => reader.workspaces.list('org-1', {}, { offset, limit }));
        assert.equal(page.total, whole.length);
        assert.deepEqual(
          page.data.map(({ name }) => name),
          whole.slice(offset, offset + limit),
        );
      }),
    );
  });

  test('filters hold for the file as well', async () => {
    const merged = withFileRecords(storeOf([]), () => records);
    const rows = [
      [{ name: 'LAB' }, ['Laboratory']],
      [{ exactName: 'Shop' }, ['Shop']],
      [{ exactName: 'shop' }, []],
      [{ statuses: ['archived'] }, []],
      [{ statuses: ['active'] }, ['Laboratory', 'Shop']],
    ] as const;
    for (const [filter, expected] of rows) {
      const { data } = await merged.read(({ workspaces }) =>
        workspaces.list('org-1', filter, { offset: 0, limit: 9 }),
      );
      assert.deepEqual(
        data.map(({ name }) => name),
        expected,
        JSON.stringify(filter),
      );
    }
    const elsewhere = await merged.read(({ workspaces }) =>
      workspaces.list('org-2', {}, { offset: 0, limit: 9 }),
    );
    assert.equal(elsewhere.total, 0);
  });

  test('while the store is away, what only the file knows is read, and everything else says so', async () => {
    const merged = withFileRecords(storeOf([], away), () => records);
    const found = await merged.read(({ workspaces }) => workspaces.find('org-1', 'ws-lab'));
    assert.equal(found?.name, 'Laboratory');
    await assert.rejects(
      merged.read(({ workspaces }) => workspaces.find('org-1', 'ws-other')),
      (error) => error === away,
    );
    const broken = withFileRecords(storeOf([], new Error('broken')), () => records);
    await assert.rejects(
      broken.read(({ workspaces }) => workspaces.find('org-1', 'ws-lab')),
      /broken/,
    );
  });
});
