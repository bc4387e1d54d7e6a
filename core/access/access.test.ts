import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import { withoutStore } from '../organisation/without-store.ts';
import type { KeyRecord } from '../ports/directory.ts';
import {
  type ApiKeyType,
  canonicalScope,
  hasScope,
  knownScopes,
  managesKeys,
  reachOf,
  refuseScopes,
  rightsByRole,
  type Role,
  roleOf,
  scopesByType,
} from './scopes.ts';

const types = ['organisation-service', 'workspace-service', 'workspace-user'] as const;
const kinds = ['owner', ...types] as const;

describe('scopes', () => {
  test('have the form resource.action, and each can be held by some type of key', () => {
    for (const scope of knownScopes) {
      assert.match(scope, /^[a-z_]+\.[a-z]+$/);
      assert.ok(types.some((type) => scopesByType[type].has(scope)));
    }
    assert.ok(knownScopes.size > 150);
  });

  // What the two kinds of keys are for.
  const capabilities: readonly [operation: string, admin: boolean, workspace: boolean, scopes: string[]][] = [
    [
      'manage organisation settings',
      true,
      false,
      ['organisation_settings.read', 'organisation_settings.update'],
    ],
    [
      'create and manage workspaces',
      true,
      false,
      ['workspaces.create', 'workspaces.update', 'workspaces.delete'],
    ],
    ['see workspaces', true, true, ['workspaces.read', 'workspaces.list']],
    [
      'manage users',
      true,
      false,
      ['organisation_users.create', 'organisation_users.update', 'organisation_users.delete'],
    ],
    [
      'manage the members of a workspace, as its managers do',
      true,
      true,
      ['workspace_users.create', 'workspace_users.update', 'workspace_users.delete'],
    ],
    ['create and manage configs', true, true, ['configs.create', 'configs.update', 'configs.delete']],
    [
      'create and manage providers',
      true,
      true,
      ['providers.create', 'virtual_keys.copy', 'virtual_keys.update'],
    ],
    ['access analytics and logs', true, true, ['analytics.view', 'logs.view', 'logs.list', 'logs.export']],
    ['create and update feedback', false, true, ['feedbacks.write']],
    ['send requests', false, true, ['completions.write', 'mcp.invoke', 'agents.invoke', 'guardrails.invoke']],
    ['manage admin keys', true, false, ['organisation_service_api_keys.create']],
    [
      'manage workspace keys',
      true,
      true,
      ['workspace_user_api_keys.rotate', 'workspace_service_api_keys.list'],
    ],
    ['read the audit trail', true, false, ['audit_logs.list']],
    ['manage deployments and secrets', true, false, ['deployments.create', 'secret_references.list']],
    ['end the use of cached answers', true, true, ['cache.delete']],
  ];
  for (const [operation, admin, workspace, scopes] of capabilities) {
    test(`${operation}: admin keys ${admin}, workspace keys ${workspace}`, () => {
      for (const scope of scopes) {
        assert.ok(knownScopes.has(scope), scope);
        const held = types.map((type) => scopesByType[type].has(scope));
        assert.deepEqual(held, [admin, workspace, workspace], scope);
      }
    });
  }

  test('may be written with a colon', () => {
    assert.equal(canonicalScope('deployments:create'), 'deployments.create');
    assert.deepEqual(
      refuseScopes(testKey({ kind: 'owner' }), 'organisation-service', ['deployments:create']),
      [],
    );
  });
});

describe('holds', () => {
  const cases: readonly [key: Partial<KeyRecord>, scope: string, expected: boolean][] = [
    [{ kind: 'owner', scopes: ['*'] }, 'workspaces.delete', true],
    [{ kind: 'owner', scopes: ['*'] }, 'feedbacks.write', true],
    [{ kind: 'owner', scopes: ['logs.view'] }, 'workspaces.delete', false],
    [{ kind: 'organisation-service', scopes: ['*'] }, 'workspaces.delete', true],
    [{ kind: 'organisation-service', scopes: ['*'] }, 'completions.write', false],
    [{ kind: 'workspace-service', scopes: ['*'] }, 'logs.view', true],
    [{ kind: 'workspace-service', scopes: ['*'] }, 'workspaces.delete', false],
    [{ kind: 'workspace-service', scopes: ['workspaces.delete'] }, 'workspaces.delete', false],
    [{ kind: 'workspace-user', scopes: ['logs.view'] }, 'logs.view', true],
    [{ kind: 'workspace-user', scopes: ['logs.view'] }, 'logs.list', false],
    [{ kind: 'workspace-user', scopes: ['things.view'] }, 'things.view', true],
    [{ kind: 'workspace-user', scopes: ['*'] }, 'things.view', true],
    [{ kind: 'workspace-user', scopes: [] }, 'things.view', false],
  ];
  for (const [key, scope, expected] of cases) {
    test(`${key.kind} with ${key.scopes?.join()}: ${scope} ${expected}`, () =>
      assert.equal(hasScope(testKey(key), scope), expected));
  }
});

describe('reach and roles', () => {
  const table: readonly [
    KeyRecord['kind'],
    Role,
    workspace: string | undefined,
    managed: readonly ApiKeyType[],
  ][] = [
    ['owner', 'owner', undefined, types],
    ['organisation-service', 'admin', undefined, types],
    ['workspace-service', 'manager', 'ws-1', ['workspace-service', 'workspace-user']],
    ['workspace-user', 'member', 'ws-1', []],
  ];
  for (const [kind, role, workspaceId, managed] of table) {
    test(kind, () => {
      const key = testKey({ kind });
      assert.equal(roleOf(key, withoutStore), role);
      assert.deepEqual(reachOf(key), {
        organisationId: 'org-1',
        ...(workspaceId !== undefined && { workspaceId }),
      });
      assert.deepEqual(
        types.filter((type) => managesKeys(role, type)),
        managed,
      );
    });
  }

  test('the role matrix', () => {
    const rows = Object.entries(rightsByRole).map(([role, one]) => [
      role,
      one.organisationKeys,
      one.workspaceKeys,
      one.archived,
    ]);
    assert.deepEqual(rows, [
      ['owner', true, 'any', true],
      ['admin', true, 'any', true],
      ['manager', false, 'own', false],
      ['member', false, 'none', false],
    ]);
  });
});

describe('refuseScopes', () => {
  const actor = (kind: KeyRecord['kind'], ...scopes: string[]): KeyRecord => testKey({ kind, scopes });
  const cases: readonly [
    name: string,
    KeyRecord,
    ApiKeyType,
    scope: string,
    kind: string | undefined,
    message?: RegExp,
  ][] = [
    ['an owner gives all', actor('owner', '*'), 'organisation-service', 'audit_logs.list', undefined],
    [
      'an owner with few scopes does not',
      actor('owner', 'logs.view'),
      'workspace-user',
      'logs.list',
      'escalation',
      /lacks "logs\.list"/,
    ],
    [
      'a key gives what it holds',
      actor('workspace-service', 'logs.view'),
      'workspace-user',
      'logs.view',
      undefined,
    ],
    [
      'and nothing else',
      actor('workspace-service', 'logs.view'),
      'workspace-user',
      'completions.write',
      'escalation',
    ],
    [
      'an admin key gives what only workspace keys hold',
      actor('organisation-service', 'logs.view'),
      'workspace-user',
      'completions.write',
      undefined,
    ],
    [
      'but not what it could hold itself',
      actor('organisation-service', 'logs.view'),
      'workspace-user',
      'logs.list',
      'escalation',
    ],
    [
      'not to a type that cannot hold it',
      actor('owner', '*'),
      'workspace-user',
      'audit_logs.list',
      'type',
      /type workspace-user cannot hold/,
    ],
    [
      'a typing error',
      actor('owner', '*'),
      'workspace-user',
      'completions.wirte',
      'unknown',
      /did you mean "completions\.write"/,
    ],
    ['everything', actor('owner', '*'), 'organisation-service', '*', 'unknown', /only an owner's key/],
    ['the name of every object', actor('owner', '*'), 'workspace-user', 'constructor', 'unknown'],
  ];
  for (const [name, key, type, scope, kind, message = /./] of cases) {
    test(name, () => {
      const [issue, ...others] = refuseScopes(key, type, [scope]);
      assert.deepEqual([issue?.kind, others], [kind, []]);
      if (issue !== undefined) assert.match(issue.message, message);
    });
  }

  const anyScopes = fc.subarray([...knownScopes, '*', 'things.view']);
  test('no chain of keys ever holds more than the first one and what admin keys hand on', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...kinds),
        anyScopes,
        fc.array(fc.tuple(fc.constantFrom(...types), anyScopes), { maxLength: 6 }),
        (kind, scopes, wishes) => {
          const first = testKey({ kind, scopes });
          let present = first;
          for (const [type, wanted] of wishes) {
            const refused = new Set(
              refuseScopes(present, type, wanted).map(({ path }) => Number(path.slice(1))),
            );
            const given = wanted.filter((_, index) => !refused.has(index));
            assert.ok(!given.includes('*'));
            present = testKey({ kind: type, scopes: given });
          }
          if (present === first) return;
          for (const scope of knownScopes) {
            const isHandedOn = !scopesByType['organisation-service'].has(scope);
            if (hasScope(present, scope))
              assert.ok(hasScope(first, scope) || isHandedOn, `${scope} came from nowhere`);
          }
        },
      ),
    );
  });

  test('workspace keys never give what they lack', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('workspace-service', 'workspace-user'),
        anyScopes,
        fc.constantFrom(...types),
        anyScopes,
        (kind, scopes, type, wanted) => {
          const actor = testKey({ kind, scopes });
          const refused = new Set(
            refuseScopes(actor, type, wanted).map(({ path }) => wanted[Number(path.slice(1))]),
          );
          for (const scope of wanted)
            assert.equal(
              refused.has(scope),
              !(hasScope(actor, scope) && scopesByType[type].has(scope)),
              scope,
            );
        },
      ),
    );
  });
});
