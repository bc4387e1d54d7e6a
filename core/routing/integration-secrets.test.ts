import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { credentialsOf } from '../../tests/kit/routing-kit.ts';
import type { StoredRecord } from '../ports/records.ts';
import { asHeader, bearer, refusal, started } from './stored-providers.test-support.ts';
import { integration, provider } from './stored-records.test-support.ts';

describe('secrets of integrations', () => {
  const mapping = {
    targetField: 'key',
    secretReferenceId: 'ref-1',
    secretKey: 'token',
    valueFormat: 'string' as const,
  };
  const reference = (allowed: boolean): StoredRecord<'secret_reference'> => {
    const envelope = integration({}, {}, { id: 'ref-1', workspaceId: undefined });
    return {
      ...envelope,
      kind: 'secret_reference',
      secrets: {},
      data: {
        description: '',
        managerType: 'file',
        authConfig: {},
        secretPath: 'x',
        secretKey: '',
        allowAllWorkspaces: allowed,
        allowedWorkspaces: [],
      },
    };
  };
  const records = (allowed = true) => [
    integration({}, { secretMappings: [mapping] }),
    provider(),
    reference(allowed),
  ];

  test('may come from references, at once or fetched, and change', async (t) => {
    const values: (string | Promise<string>)[] = [Promise.resolve('v1'), 'v1', 'v2'];
    const keys: unknown[] = [];
    const { ask, upstream } = await started(t, records(), {
      secretManagers: {
        refusal: () => undefined,
        value: (_reference, _box, secretKey) => {
          keys.push(secretKey);
          return values.shift() ?? '';
        },
      },
    });
    for (const expected of ['v1', 'v1', 'v2']) {
      assert.equal((await ask({ 'x-service-provider': '@mine' })).status, 200);
      assert.deepEqual(credentialsOf(upstream), bearer(expected));
    }
    values.push(Promise.resolve('v3'));
    await ask(asHeader({ provider: '@mine' }));
    assert.deepEqual(credentialsOf(upstream), bearer('v3'));
    assert.deepEqual(keys, ['token', 'token', 'token', 'token']);
  });

  test('from references that are not for the workspace, or not there, are refused', async (t) => {
    const secretManagers = { refusal: () => undefined, value: () => 'never' };
    for (const [kept, said] of [
      [records(false), /this workspace may not use/],
      [records().slice(0, 2), /does not exist any more/],
    ] as const) {
      const { ask, upstream } = await started(t, kept, { secretManagers });
      const { status, code, message } = refusal(await ask({ 'x-service-provider': '@mine' }));
      assert.deepEqual([status, code, upstream.requests.length], [502, 'credentials_failed', 0]);
      assert.match(message, said);
    }
  });

  test('can be settings and headers, too', async (t) => {
    const { ask, upstream } = await started(t, [
      integration({ key: 'k', 'configurations.headers': '{"x-tenant":"t-1"}' }),
      provider(),
    ]);
    await ask({ 'x-service-provider': '@mine' });
    assert.equal(upstream.requests[0]?.headers['x-tenant'], 't-1');
  });
});
