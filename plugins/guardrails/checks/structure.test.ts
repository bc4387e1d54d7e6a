import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { AnyCheck } from '../../../core/pipeline/plugin.ts';
import { builtIn, faults, subject, verdict } from './subject.test-support.ts';

const containsCode = builtIn('default.containsCode');
const jsonKeys = builtIn('default.jsonKeys');
const jsonSchema = builtIn('default.jsonSchema');
const sql = builtIn('default.sql');

function grid(check: AnyCheck, cases: readonly [object, string, string][]): void {
  describe(check.id, () => {
    for (const [parameters, text, expected] of cases)
      test(`${JSON.stringify(parameters)} of ${JSON.stringify(text)}: ${expected}`, async () =>
        assert.equal(await verdict(check, parameters, text), expected));
  });
}

const schema = { type: 'object', required: ['a'], properties: { a: { type: 'string', pattern: '^x+$' } } };
grid(jsonSchema, [
  [{ schema }, '{"a":"xx"}', 'passed'],
  [{ schema }, '{"a":"y"}', 'failed'],
  [{ schema }, 'Here: {"a":"x}{"} no, {"a":"x"}.', 'passed'],
  [{ schema }, 'It is:\n```json\n{"a":\n"x"}\n```\n', 'passed'],
  [{ schema }, 'nothing of the kind {', 'failed'],
  [{ schema, not: true }, 'nothing of the kind', 'passed'],
  [{ schema, not: true }, '{"a":"x"}', 'failed'],
  [{ schema }, '', 'skipped'],
  [{ schema: { ...schema, $schema: 'http://json-schema.org/draft-07/schema#' } }, '{"a":"x"}', 'passed'],
  [{ schema: { type: 'string', format: 'email' } }, '"a@example.com"', 'passed'],
  [{ schema: { properties: { b: { pattern: '^b' }, c: { pattern: '^c' } } } }, '{"b":"b","c":"c"}', 'passed'],
]);

const keys = ['a', 'b'];
grid(jsonKeys, [
  [{ keys }, '{"a":1}', 'passed'],
  [{ keys }, 'text {"c":1}', 'failed'],
  [{ keys, operator: 'all' }, '{"a":1,"b":2}', 'passed'],
  [{ keys, operator: 'all' }, '{"a":1} {"b":2}', 'failed'],
  [{ keys, operator: 'none' }, '{"c":1}', 'passed'],
  [{ keys, operator: 'none' }, '{"c":1} {"b":1}', 'failed'],
  [{ keys, operator: 'none' }, 'no JSON', 'skipped'],
  [{ keys }, 'no JSON', 'failed'],
  [{ keys: ['toString'] }, '{}', 'failed'],
  [{ keys }, '', 'skipped'],
]);

grid(containsCode, [
  [{ format: 'Python' }, 'See:\n```py\nprint(1)\n```', 'passed'],
  [{ format: 'C#' }, '~~~CSharp\nx\n~~~', 'passed'],
  [{ format: 'C' }, '```cpp\nx\n```', 'failed'],
  [{ format: 'Python' }, '````markdown\n```python\n```\n````', 'failed'],
  [{ format: 'Python', not: true }, '```python\nx', 'failed'],
  [{ format: 'Python', not: true }, '```\nx\n```', 'passed'],
  [{ format: 'Python' }, '', 'skipped'],
]);

grid(sql, [
  [{}, 'SELECT * FROM users', 'passed'],
  [{}, 'Run this: select u.id, count(*) as n from public.users u_ join x;', 'failed'],
  [{}, 'Run this: select u.id, count(*) as n from public.users where id = 1', 'passed'],
  [{}, "x'; DROP TABLE users; --", 'passed'],
  [{}, '```sql\nDELETE FROM users WHERE id = 1;\n```', 'passed'],
  [{}, 'INSERT INTO "my table" (a) VALUES (1)', 'passed'],
  [{}, 'update users set name = 1', 'passed'],
  [{}, 'create table if not exists t (id int)', 'passed'],
  [{}, 'WITH a AS (SELECT 1) SELECT * FROM a', 'passed'],
  [{}, 'GRANT SELECT ON t TO bob', 'passed'],
  [{}, 'Please select one of the options from the list and update the table.', 'failed'],
  [{}, 'Drop table manners and delete from my list whatever you like.', 'failed'],
  [{ not: true }, 'Please create a user friendly page.', 'passed'],
  [{ statements: ['drop'] }, 'SELECT a FROM b', 'failed'],
  [{ statements: ['drop'], not: true }, 'DROP VIEW b', 'failed'],
  [{}, '', 'skipped'],
]);

describe('what is built', () => {
  test('each choice of an answer must fit', async () => {
    const two = subject({
      phase: 'output',
      texts: [
        { text: '{"a":"x"}', choice: 0 },
        { text: 'no', choice: 1 },
        { text: 'thought', type: 'reasoning', choice: 0 },
      ],
    });
    assert.equal(await verdict(jsonSchema, { schema }, two), 'failed');
    assert.equal(await verdict(jsonKeys, { keys }, two), 'failed');
  });

  test('takes time in proportion to hostile texts', async () => {
    for (const hostile of [
      '{'.repeat(200_000),
      '{"\\"\\'.repeat(50_000),
      '```\n'.repeat(50_000),
      '[['.repeat(9) + '"\\"'.repeat(90_000),
    ])
      for (const [check, parameters] of [
        [jsonSchema, { schema }],
        [containsCode, { format: 'C' }],
        [sql, {}],
      ] as const)
        assert.equal(await verdict(check, parameters, hostile), 'failed');
    assert.equal(await verdict(sql, {}, 'select '.repeat(50_000)), 'failed');
  });

  test('parameters that cannot be kept are refused', () => {
    assert.match(faults(jsonSchema, { schema: { type: 'strin' } }), /\/schema cannot be used/);
    assert.match(
      faults(jsonSchema, { schema: { $ref: 'https://example.com/x' } }),
      /\/schema cannot be used/,
    );
    assert.match(faults(jsonSchema, { schema: { pattern: '(?=a)' } }), /looks ahead/);
    assert.match(faults(jsonSchema, { schema: { enum: ['x'.repeat(100_000)] } }), /characters/);
    assert.match(faults(jsonKeys, { keys: [] }), /keys/);
    assert.match(faults(containsCode, { format: 'Cobol' }), /format/);
    assert.match(faults(sql, { statements: ['look'] }), /statements/);
  });
});
