import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { definePlugin, Type } from '../pipeline/plugin.ts';
import { guardsOf } from './prepare.ts';

const deny = definePlugin({
  name: 'deny',
  checks: ['default.deny'],
  capabilities: { guardrail: true },
  schema: Type.Object({ words: Type.Array(Type.String()) }, { additionalProperties: false }),
  create: () => ({}),
});
const plain = definePlugin({ name: 'plain', capabilities: { guardrail: true }, create: () => ({}) });
const other = definePlugin({ name: 'logs', checks: ['default.logs'], create: () => ({}) });

describe('guardsOf', () => {
  const guards = guardsOf([plain, deny, other]);

  test('names guardrails alone, by every id', () => {
    assert.deepEqual(guards.ids, ['default.deny', 'deny', 'plain']);
    assert.equal(guards.issues('logs', {}), undefined);
    assert.equal(guards.issues('constructor', {}), undefined);
  });

  for (const id of ['deny', 'default.deny']) {
    test(`${id}: parameters are the options of the plugin`, () => {
      assert.deepEqual(guards.issues(id, { words: ['a'] }), []);
      const paths = guards.issues(id, { words: [1], x: 2 })?.map(({ path }) => path);
      assert.deepEqual([...(paths ?? [])].sort(), ['/words/0', '/x']);
    });
  }

  test('a guardrail without options takes any object', () => {
    assert.deepEqual(guards.issues('plain', {}), []);
  });
});
