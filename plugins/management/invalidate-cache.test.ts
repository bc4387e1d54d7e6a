import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { invalidationKey, type CacheArea } from '../../core/base/cache-namespace.ts';
import type { Cache } from '../../core/ports/cache.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { testKey, testRouteInput, testScope, testStart } from '../../tests/kit/plugin-kit.ts';
import { invalidateCacheRoute } from './index.ts';

function begin(store?: Cache) {
  const { scope, clock } = testScope(store === undefined ? {} : { cache: store });
  const route: RouteDefinition = invalidateCacheRoute(scope);
  const call = async (query: object, key: KeyRecord = testKey()): Promise<unknown> =>
    route.handle(testRouteInput({ query, key }));
  const marked = (change: Partial<CacheArea>): boolean => {
    const area = { organisationId: 'org-1', workspaceId: 'ws-1', namespace: undefined, ...change };
    return scope.cache.get(invalidationKey(area)) !== undefined;
  };
  return { call, marked, clock, scope };
}

describe('the invalidation of cached answers', () => {
  test('of a namespace', async () => {
    const { call, marked } = begin();
    assert.deepEqual(await call({ namespace: 'docs' }), {
      success: true,
      data: {
        namespace: 'docs',
        workspace_id: 'ws-1',
        invalidated_at: new Date(testStart).toISOString(),
      },
    });
    assert.deepEqual(
      [marked({ namespace: 'docs' }), marked({}), marked({ namespace: 'x' })],
      [true, false, false],
    );
  });

  test('of everything in the workspace', async () => {
    const { call, marked } = begin();
    const reply = (await call({ all: true })) as { data: { namespace: unknown } };
    assert.equal(reply.data.namespace, null);
    assert.deepEqual([marked({}), marked({ namespace: 'docs' })], [true, false]);
  });

  test('is remembered for 90 days', async () => {
    const { call, marked, clock } = begin();
    await call({ all: true });
    clock.advance(90 * 86_400_000 - 1);
    assert.ok(marked({}));
    clock.advance(1);
    assert.ok(!marked({}));
  });

  test('again is later', async () => {
    const { call, clock } = begin();
    await call({ all: true });
    clock.advance(5000);
    const reply = (await call({ all: true })) as { data: { invalidated_at: string } };
    assert.equal(Date.parse(reply.data.invalidated_at), testStart + 5000);
  });

  const keys: readonly (readonly [KeyRecord['kind'], string, string])[] = [
    ['owner', 'ws-2', 'ws-2'],
    ['organisation-service', 'ws-2', 'ws-2'],
    ['workspace-service', 'ws-1', 'ws-1'],
    ['workspace-user', 'ws-2', 'refused'],
    ['workspace-service', 'ws-2', 'refused'],
  ];
  for (const [kind, named, expected] of keys) {
    test(`by a key of the kind ${kind} in ${named}: ${expected}`, async () => {
      const { call, marked } = begin();
      const calling = call({ all: true, workspace_id: named }, testKey({ kind }));
      if (expected === 'refused') {
        await assert.rejects(calling, { code: 'scope_missing', param: 'workspace_id' });
        assert.ok(!marked({}) && !marked({ workspaceId: named }));
      } else {
        await calling;
        assert.ok(marked({ workspaceId: expected }));
      }
    });
  }

  for (const [query, message] of [
    [{}, /Give "namespace", or "all=true"/],
    [{ all: false }, /Give "namespace", or "all=true"/],
    [{ all: true, namespace: 'docs' }, /not both/],
  ] as const) {
    test(`refuses ${JSON.stringify(query)}`, () =>
      assert.rejects(begin().call(query), { code: 'invalid_request', param: 'namespace', message }));
  }

  test('that the store does not take is said to have failed', async () => {
    const forgetful: Cache = { get: () => undefined, set: () => undefined, delete: () => undefined };
    await assert.rejects(begin(forgetful).call({ all: true }), { code: 'store_unavailable', status: 503 });
    const old = { bytes: Buffer.from('x'), storedAt: testStart - 1, expiresAt: Infinity };
    await assert.rejects(begin({ ...forgetful, get: () => old }).call({ all: true }), {
      code: 'store_unavailable',
    });
  });
});
