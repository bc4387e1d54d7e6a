import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { KeyTable } from './key-table.ts';
import { storedKey } from './stored-records.test-support.ts';

const newTable = (): KeyTable => new KeyTable((organisationId) => `default of ${organisationId}`);
const secret = (hash: string, expiresAt?: number) => ({ hash, expiresAt });

describe('key table', () => {
  test('a key as the request path sees it', () => {
    const table = newTable();
    table.put(storedKey({ userId: 'user-1', type: 'workspace-user', expiresAt: 5000 }));
    assert.deepEqual(table.find('hash of key-1'), {
      id: 'key-1',
      name: 'name of key-1',
      kind: 'workspace-user',
      organisationId: 'org-1',
      workspaceId: 'ws-1',
      userId: 'user-1',
      scopes: ['completions.write'],
      expiresAt: 5000,
      isReplaced: false,
    });
  });

  test("requests of the organisation's keys belong to the workspace that is named for it", () => {
    const table = newTable();
    table.put(storedKey({ workspaceId: undefined, type: 'organisation-service' }));
    assert.equal(table.find('hash of key-1')?.workspaceId, 'default of org-1');
  });

  const ends: [string, Parameters<typeof storedKey>[0], number | null][] = [
    ['never', {}, null],
    ['at its date', { expiresAt: 7000 }, 7000],
    ['when it was marked', { status: 'expired', updatedAt: 3000 }, 3000],
    [
      'at its date, though it was marked later',
      { status: 'expired', expiresAt: 2000, updatedAt: 3000 },
      2000,
    ],
    ['when it was marked before its date', { status: 'expired', expiresAt: 4000, updatedAt: 3000 }, 3000],
  ];
  for (const [name, overrides, expiresAt] of ends) {
    test(`a key ends ${name}`, () => {
      const table = newTable();
      table.put(storedKey(overrides));
      assert.equal(table.find('hash of key-1')?.expiresAt, expiresAt);
    });
  }

  const rotations: [string, number | undefined, { expiresAt: number | null; isReplaced: boolean }][] = [
    ['without a date of the key', undefined, { expiresAt: 4000, isReplaced: true }],
    ['before the key ends', 9000, { expiresAt: 4000, isReplaced: true }],
    ['not after the key ends', 3000, { expiresAt: 3000, isReplaced: false }],
  ];
  for (const [name, expiresAt, expected] of rotations) {
    test(`the secret before a rotation ends by its own date, ${name}`, () => {
      const table = newTable();
      table.put(storedKey({ expiresAt, secrets: [secret('new'), secret('old', 4000)] }));
      const { expiresAt: ends, isReplaced } = table.find('old') ?? {};
      assert.deepEqual({ expiresAt: ends, isReplaced }, expected);
      assert.deepEqual(
        [table.find('new')?.expiresAt, table.find('new')?.isReplaced],
        [expiresAt ?? null, false],
      );
    });
  }

  test('a change takes the place of what was there, with all secrets', () => {
    const table = newTable();
    table.put(storedKey({ secrets: [secret('one'), secret('two', 1)] }));
    table.put(storedKey({ secrets: [secret('three')] }));
    assert.deepEqual(
      ['one', 'two', 'three'].map((hash) => table.find(hash)?.id),
      [undefined, undefined, 'key-1'],
    );
    assert.equal(table.size, 1);
  });

  test('a key by its id is what its present secret says, until it is removed', () => {
    const table = newTable();
    table.put(storedKey({ secrets: [secret('before', 1000), secret('present')] }));
    assert.deepEqual(table.findById('key-1'), table.find('present'));
    assert.equal(table.findById('key-1')?.isReplaced, false);
    assert.equal(table.findById('key-2'), undefined);
    table.remove('key-1');
    assert.equal(table.findById('key-1'), undefined);
  });

  test('what keys have in common is there once', () => {
    const table = newTable();
    for (const id of ['key-1', 'key-2']) table.put(storedKey({ id, scopes: ['a.b', 'c.d'] }));
    assert.equal(table.find('hash of key-1')?.scopes, table.find('hash of key-2')?.scopes);
  });

  test('limits are told of keys that have any, once for all that are alike', () => {
    const table = newTable();
    const limits = (value: number) => [{ type: 'requests', unit: 'rpm', value } as const];
    table.put(storedKey({ id: 'none' }));
    for (const id of ['one', 'two'])
      table.put(storedKey({ id, rateLimits: limits(5), defaults: { configId: 'pc' } }));
    table.put(
      storedKey({ id: 'three', rateLimits: limits(6), secrets: [secret('new'), secret('old', 4000)] }),
    );
    assert.ok(!Object.hasOwn(table.find('hash of none') ?? {}, 'rateLimits'));
    assert.deepEqual(table.find('hash of one')?.rateLimits, limits(5));
    assert.equal(table.find('hash of one')?.rateLimits, table.find('hash of two')?.rateLimits);
    assert.deepEqual([table.find('new')?.rateLimits, table.find('old')?.rateLimits], [limits(6), limits(6)]);
    assert.equal(table.find('hash of one')?.defaults?.configId, 'pc');
  });

  test('after any changes it finds exactly the secrets of the keys that are left', () => {
    const change = fc.record({
      id: fc.constantFrom('a', 'b', 'c'),
      secrets: fc.option(fc.uniqueArray(fc.integer({ min: 0, max: 9 }), { minLength: 0, maxLength: 2 })),
    });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 30 }), (changes) => {
        const table = newTable();
        const model = new Map<string, readonly string[]>();
        for (const { id, secrets } of changes) {
          const hashes = secrets?.map((number) => `${id}${number}`);
          if (hashes === undefined) table.remove(id);
          else table.put(storedKey({ id, secrets: hashes.map((hash) => secret(hash)) }));
          if (hashes === undefined) model.delete(id);
          else model.set(id, hashes);
        }
        assert.equal(table.size, model.size);
        for (const id of ['a', 'b', 'c'])
          for (let number = 0; number < 10; number += 1) {
            const expected = model.get(id)?.includes(`${id}${number}`) === true ? id : undefined;
            assert.equal(table.find(`${id}${number}`)?.id, expected);
          }
      }),
    );
  });
});
