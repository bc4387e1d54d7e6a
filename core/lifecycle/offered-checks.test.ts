import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type CheckSubject,
  defineCheck,
  definePlugin,
  type Judge,
  passed,
  type Scope,
  Type,
} from '../pipeline/plugin.ts';
import { guardsOf, guardsOfGeneration } from './offered-checks.ts';

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

describe('guardsOfGeneration', () => {
  /** The check "acme.odd" as a generation has it, whose author has written this. */
  const offered = (create: () => unknown) => {
    const check = defineCheck({
      id: 'acme.odd',
      description: 'Odd.',
      phases: ['input'],
      schema: Type.Object({}),
      create: create as () => Judge,
    });
    const definition = definePlugin({ name: 'odd', offers: [check], create: () => ({}) });
    const entry = {
      use: './odd.ts',
      options: {},
      onError: undefined,
      timeoutMs: undefined,
      pointer: '',
      optionsPointer: '',
      file: '',
    };
    const listed = { entry, definition, plugin: { builtIn: false, codeHash: 'a' } };
    return guardsOfGeneration([deny], [listed], { isComplete: true }).definition('acme.odd');
  };
  const judged = async (create: () => unknown) =>
    offered(create)?.create({}, {} as Scope)({} as CheckSubject);

  test('what an author returns that is no verdict has not passed', async () => {
    const odd: readonly (readonly [unknown, RegExp])[] = [
      [undefined, /must return passed\(\), failed\(\) or skipped\(\)/],
      [true, /must return passed\(\)/],
      [{ verdict: true }, /must return passed\(\)/],
      [Promise.resolve({ verdict: 'ok' }), /must return passed\(\)/],
      [{ verdict: 'passed', data: () => 1 }, /its data must be JSON/],
      [{ verdict: 'failed', data: 'x'.repeat(70_000) }, /its data must be JSON of 65536 characters/],
      [{ verdict: 'failed', data: 1n }, /BigInt/],
    ];
    for (const [result, message] of odd)
      await assert.rejects(
        judged(() => () => result),
        message,
      );
    await assert.rejects(
      judged(() => 7),
      /its create function must return a function/,
    );
    assert.deepEqual(await judged(() => () => Promise.resolve(passed({ a: 1 }))), passed({ a: 1 }));
  });

  test('ids are unknown only where all code has been run', () => {
    const all = { isComplete: true };
    assert.equal(guardsOfGeneration([deny], [], all).issues('acme.tone', {}), undefined);
    const some = guardsOfGeneration([deny], [], { isComplete: false });
    assert.deepEqual([some.issues('acme.tone', {}), some.issues('default.tone', {})], [[], undefined]);
  });
});
