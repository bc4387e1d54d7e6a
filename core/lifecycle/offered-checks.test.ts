import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type AnyPlugin,
  type CheckSubject,
  defineCheck,
  definePlugin,
  type Judge,
  passed,
  type Scope,
  Type,
} from '../pipeline/plugin.ts';
import { guardsOf, guardsOfGeneration } from './offered-checks.ts';

const words = defineCheck({
  id: 'default.deny',
  aliases: ['deny'],
  description: 'Fails for words.',
  phases: ['input'],
  schema: Type.Object({ words: Type.Array(Type.String()) }, { additionalProperties: false }),
  check: ({ words }) => (words.length > 0 ? [] : [{ path: '/words', message: 'must not be empty' }]),
  create: () => () => passed(),
});
const deny = definePlugin({ name: 'deny-words', offers: [words], create: () => ({}) });
const plain = definePlugin({ name: 'plain', capabilities: { guardrail: true }, create: () => ({}) });

describe('guardsOf', () => {
  const guards = guardsOf([plain, deny]);

  test('names checks alone, by every id', () => {
    assert.deepEqual(guards.ids, ['default.deny', 'deny']);
    for (const id of ['plain', 'deny-words', 'constructor'])
      assert.equal(guards.issues(id, {}), undefined, id);
  });

  for (const id of ['deny', 'default.deny']) {
    test(`${id}: parameters are looked at by the schema, then by the check`, () => {
      assert.deepEqual(guards.issues(id, { words: ['a'] }), []);
      const paths = guards.issues(id, { words: [1], x: 2 })?.map(({ path }) => path);
      assert.deepEqual([...(paths ?? [])].sort(), ['/words/0', '/x']);
      assert.deepEqual(guards.issues(id, { words: [] }), [{ path: '/words', message: 'must not be empty' }]);
    });
  }
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

  test('a plugin that has a thread of its own in one of its places offers its checks there', async () => {
    const place = (definition: AnyPlugin, isolate?: { memoryMb: number; cpuMs: number }) => ({
      entry: {
        ...{ use: './odd.ts', options: {}, onError: undefined, timeoutMs: undefined },
        ...{ pointer: '', optionsPointer: '', file: '', ...(isolate !== undefined && { isolate }) },
      },
      definition,
      plugin: { builtIn: false, codeHash: 'a' },
    });
    const telling = (where: string) => {
      const check = defineCheck({
        ...{ id: 'acme.odd', description: 'Odd.', phases: ['input'] as const, schema: Type.Object({}) },
        create: () => () => passed(where),
      });
      return definePlugin({ name: 'odd', offers: [check], create: () => ({}) });
    };
    const places = [place(telling('here')), place(telling('there'), { memoryMb: 64, cpuMs: 100 })];
    for (const listed of [places, [...places].reverse()]) {
      const check = guardsOfGeneration([deny], listed, { isComplete: true }).definition('acme.odd');
      assert.deepEqual(await check?.create({}, {} as Scope)({} as CheckSubject), passed('there'));
    }
  });

  test('ids are unknown only where all code has been run', () => {
    const all = { isComplete: true };
    assert.equal(guardsOfGeneration([deny], [], all).issues('acme.tone', {}), undefined);
    const some = guardsOfGeneration([deny], [], { isComplete: false });
    assert.deepEqual([some.issues('acme.tone', {}), some.issues('default.tone', {})], [[], undefined]);
  });
});
