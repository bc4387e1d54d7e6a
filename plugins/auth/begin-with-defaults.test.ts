import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Type } from 'typebox';
import { TestContext, testKey } from '../../tests/kit/plugin-kit.ts';
import { defineRoute } from '../../core/pipeline/define-route.ts';
import { matchedRoute } from '../../core/pipeline/keys.ts';
import type { Directory } from '../../core/ports/directory.ts';
import { beginWithDefaults } from './index.ts';

type Metadata = Readonly<Record<string, string>>;

/** Metadata of the workspace (with its organisation's), the key and the request. */
interface Given {
  readonly above?: Metadata;
  readonly key?: Metadata;
  readonly request?: Metadata;
}

function metadataOf({ above, key, request = {} }: Given, context = new TestContext({})): Metadata {
  context.facts.metadata = request;
  const asked: [string, string][] = [];
  const directory: Pick<Directory, 'defaultsOf'> = {
    defaultsOf(organisationId, workspaceId) {
      asked.push([organisationId, workspaceId]);
      return above === undefined ? {} : { metadata: above };
    },
  };
  const record = testKey(key === undefined ? {} : { defaults: { metadata: key } });
  beginWithDefaults(context, record, directory);
  assert.deepEqual(asked, [['org-1', 'ws-1']]);
  return context.facts.metadata;
}

describe('the metadata that a request begins with', () => {
  const cases: readonly [string, Given, Metadata][] = [
    ['its own alone', { request: { a: 'request' } }, { a: 'request' }],
    ['the key’s beside it', { key: { b: 'key' }, request: { a: 'request' } }, { a: 'request', b: 'key' }],
    ['the key’s before its own', { key: { a: 'key' }, request: { a: 'request' } }, { a: 'key' }],
    [
      'the workspace’s before the key’s',
      { above: { a: 'above' }, key: { a: 'key', b: 'key' } },
      { a: 'above', b: 'key' },
    ],
    [
      'the workspace’s before its own',
      { above: { a: 'above' }, request: { a: 'request', c: 'request' } },
      { a: 'above', c: 'request' },
    ],
  ];
  for (const [name, given, expected] of cases)
    test(name, () => assert.deepEqual(metadataOf(given), expected));

  test('nothing is made where nothing is added, and nobody else’s is changed', () => {
    const request = { a: 'request' };
    assert.equal(metadataOf({ request }), request);
    const above = { a: 'above' };
    const key = { b: 'key' };
    metadataOf({ above, key, request });
    assert.deepEqual([above, key, request], [{ a: 'above' }, { b: 'key' }, { a: 'request' }]);
  });

  test('keeps names that objects have a meaning for', () => {
    const odd = { ['__proto__']: 'p', constructor: 'c', prototype: 'q' };
    for (const given of [{ key: odd }, { above: odd }, { request: odd, key: { a: 'b' } }]) {
      const found = metadataOf(given);
      for (const name of Object.keys(odd)) assert.ok(Object.hasOwn(found, name), name);
      assert.equal(Object.getPrototypeOf(found), Object.prototype);
    }
    assert.equal(Object.hasOwn(Object.prototype, 'c'), false);
  });

  test('administration routes have none', () => {
    const context = new TestContext({});
    const body = Type.Object({});
    context.set(
      matchedRoute,
      defineRoute({
        id: 'a.b',
        method: 'GET',
        path: '/a',
        summary: 'A',
        scope: 'a.b',
        audit: null,
        reply: body,
        handle: () => ({}),
      }),
    );
    assert.deepEqual(metadataOf({ above: { a: 'above' }, request: {} }, context), {});
  });
});
