import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Type, type TSchema } from 'typebox';
import { loadConfig } from './load-config.ts';
import { formatProblem } from './problem.ts';
import { validateOptions } from './check-value.ts';

const head = ['version: 1', 'pipelines:', '  - name: gateway', '    match: { path: /** }', '    plugins:'];

/** Validates options as they stand in a file, from line 7 on, indented by 10. */
async function validate(
  schema: TSchema | undefined,
  lines: readonly string[],
  env: Record<string, string> = {},
) {
  const text = [...head, '      - x:', ...lines.map((line) => `          ${line}`)].join('\n');
  const loaded = await loadConfig('g.yaml', { env, readFile: () => Promise.resolve(Buffer.from(text)) });
  assert.ok(loaded.ok, JSON.stringify(loaded));
  const [entry] = loaded.config.pipelines[0]?.plugins ?? [];
  assert.ok(entry);
  const { value, problems } = validateOptions(schema, entry.options, {
    pointer: entry.optionsPointer,
    source: loaded.source,
  });
  return { value, problems: problems.map(formatProblem), paths: problems.map(({ path }) => path) };
}

describe('validateOptions', () => {
  const Cache = Type.Object({
    mode: Type.Union([Type.Literal('simple'), Type.Literal('semantic')]),
    maxAge: Type.Integer({ default: 3600, minimum: 1 }),
    retry: Type.Optional(Type.Object({ attempts: Type.Optional(Type.Integer({ default: 3 })) })),
    headers: Type.Optional(Type.Record(Type.String(), Type.String())),
    extra: Type.Optional(Type.Object({})),
    strict_open_ai_compliance: Type.Optional(Type.Boolean()),
  });

  it('fills in defaults, also of required keys, but makes no objects', async () => {
    assert.deepEqual((await validate(Cache, ['mode: simple'])).value, { mode: 'simple', maxAge: 3600 });
    assert.deepEqual((await validate(Cache, ['mode: simple', 'retry: {}'])).value, {
      mode: 'simple',
      maxAge: 3600,
      retry: { attempts: 3 },
    });
  });

  it('brings known keys into their own spelling, and leaves names alone', async () => {
    const lines = [
      'mode: simple',
      'max_age: 5',
      'headers: { maxAge: a, max_age: b }',
      'strictOpenAICompliance: true',
    ];
    assert.deepEqual(await validate(Cache, lines), {
      value: {
        mode: 'simple',
        maxAge: 5,
        headers: { maxAge: 'a', max_age: 'b' },
        strict_open_ai_compliance: true,
      },
      problems: [],
      paths: [],
    });
  });

  it('is strict although the schema does not say so, where it declares keys', async () => {
    const { problems, paths } = await validate(Cache, [
      'mode: simple',
      'max_agee: 5',
      'retry:',
      '  # twice',
      '  atempts: 1',
      'extra: { anything: 1 }',
    ]);
    assert.deepEqual(problems, [
      'g.yaml:8:11: unknown key "max_agee"; did you mean "maxAge"?',
      'g.yaml:11:13: unknown key "atempts"; did you mean "attempts"?',
    ]);
    assert.deepEqual(paths, ['/pipelines/0/plugins/0/x/max_agee', '/pipelines/0/plugins/0/x/retry/atempts']);
  });

  it('knows by a misspelled key which form was meant, and looks at what stands there', async () => {
    const strict = { additionalProperties: false };
    const Rule = Type.Union([
      Type.Object({ path: Type.String() }, strict),
      Type.Object({ pattern: Type.Union([Type.Literal('email'), Type.Literal('phone')]) }, strict),
    ]);
    const rules = ['rules:', '  - patern: email', '  - patern: emial'];
    assert.deepEqual((await validate(Type.Object({ rules: Type.Array(Rule) }), rules)).problems, [
      'g.yaml:8:15: unknown key "patern"; did you mean "pattern"?',
      'g.yaml:9:15: unknown key "patern"; did you mean "pattern"?',
      'g.yaml:9:15: "pattern": expected "email" or "phone", found "emial"; did you mean "email"?',
    ]);
  });

  it('lets a schema say that other keys are welcome', async () => {
    const Open = Type.Object({ a: Type.Optional(Type.Integer()) }, { additionalProperties: true });
    assert.deepEqual((await validate(Open, ['b: 1'])).problems, []);
    const Typed = Type.Object({}, { additionalProperties: Type.Integer() });
    assert.deepEqual((await validate(Typed, ['b: x'])).problems, [
      'g.yaml:7:14: "b": expected a whole number, found "x"',
    ]);
  });

  it('finds the place of a wrong value in either spelling', async () => {
    assert.deepEqual((await validate(Cache, ['mode: semantc', 'max_age: 0'])).problems, [
      'g.yaml:7:17: "mode": expected "simple" or "semantic", found "semantc"; did you mean "semantic"?',
      'g.yaml:8:20: "maxAge": expected a whole number of at least 1, found 0',
    ]);
  });

  it('refuses two spellings of one key', async () => {
    assert.deepEqual((await validate(Cache, ['mode: simple', 'maxAge: 5', 'max_age: 6'])).problems, [
      'g.yaml:9:11: "maxAge" and "max_age" are two spellings of the same key; keep one',
    ]);
    const variants = ['mode: simple', 'strict_openai_compliance: true', 'strict_open_ai_compliance: true'];
    assert.equal((await validate(Cache, variants)).problems.length, 1);
  });

  it('names the plugin when a key is missing', async () => {
    assert.deepEqual((await validate(Cache, ['max_age: 1'])).problems, [
      'g.yaml:6:9: missing key "mode": "simple" or "semantic"',
    ]);
  });

  it('allows nothing without a schema, nor with an empty one', async () => {
    for (const schema of [undefined, Type.Object({})])
      assert.deepEqual((await validate(schema, ['a: 1'])).problems, [
        'g.yaml:7:11: unknown key "a"; nothing can be set here',
      ]);
    assert.deepEqual(await validate(undefined, []), { value: {}, problems: [], paths: [] });
  });

  it('turns whole variables into numbers and booleans, also within unions and lists', async () => {
    const schema = Type.Object({
      limit: Type.Union([Type.Literal('none'), Type.Integer()]),
      any: Type.Union([Type.Integer(), Type.String()]),
      list: Type.Array(Type.Number()),
      on: Type.Boolean(),
    });
    const lines = ['limit: "${A}"', 'any: "${A}"', 'list: ["${A}", "${B}"]', 'on: "${C}"'];
    const env = { A: '7', B: '0.5', C: 'false' };
    assert.deepEqual((await validate(schema, lines, env)).value, {
      limit: 7,
      any: '7',
      list: [7, 0.5],
      on: false,
    });
    assert.deepEqual((await validate(schema, lines, { A: '7', B: '1e999', C: 'no' })).problems, [
      'g.yaml:9:26: "list", item 2: expected a number, found the value of ${B}',
      'g.yaml:10:15: "on": expected true or false, found the value of ${C}',
    ]);
  });

  it('understands intersections', async () => {
    const schema = Type.Intersect([
      Type.Object({ a: Type.Integer({ default: 1 }) }),
      Type.Object({ bee: Type.Optional(Type.Integer()) }),
    ]);
    assert.deepEqual((await validate(schema, ['bee: 2'])).value, { a: 1, bee: 2 });
    assert.deepEqual((await validate(schema, ['be: 2'])).problems, [
      'g.yaml:7:11: unknown key "be"; did you mean "bee"?',
    ]);
  });

  it('blames the plugin for a schema that is wrong', async () => {
    const { problems } = await validate(Type.Object({ a: Type.String({ minlength: 1 }) }), ['a: x']);
    assert.equal(problems.length, 1);
    assert.match(
      problems[0] ?? '',
      /^g\.yaml:6:9: the schema of these options is not valid \(.*"minlength".*\); correct it/,
    );
  });
});
