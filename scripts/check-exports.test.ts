import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkExports } from './check-exports.ts';

test('an export that no other file imports is named with its place', () => {
  const sources = [
    {
      file: 'core/a.ts',
      text: [
        "import { c } from './b.ts';",
        'export const used = c;',
        'export interface Typed {}',
        'export function own(): number { return 1; }',
        'export type Told = typeof own;',
        'export default own;',
      ].join('\n'),
    },
    {
      file: 'core/b.ts',
      text: "import {\n  used as other,\n  type Typed,\n} from './a.ts';\nexport const c = 1;\nexport const d = c;",
    },
    { file: 'core/all.ts', text: 'export const e = 1;' },
    { file: 'core/loaded.ts', text: 'export const f = 1;' },
    {
      file: 'tests/x.test.ts',
      text: "import * as all from '../core/all.ts';\nvoid import('../core/loaded.ts');",
    },
    { file: 'core/pipeline/plugin.ts', text: 'export interface ForAuthors {}' },
  ];
  const remedy = 'remove the word export, or the code';
  assert.deepEqual(checkExports(sources), [
    `core/a.ts:4: no other file imports own; ${remedy}`,
    `core/a.ts:5: no other file imports Told; ${remedy}`,
    `core/b.ts:6: no other file imports d; ${remedy}`,
  ]);
});
