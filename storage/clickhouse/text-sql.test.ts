import assert from 'node:assert/strict';
import { test } from 'node:test';
import { logSql } from './filter-sql.ts';

const cases: [string, string[]][] = [
  ['plain text', ['plain text']],
  ['50%_\\', ['50%_\\', '50%_\\\\']],
  ['"a"\n', ['"a"\n', '\\"a\\"\\n']],
  ['é', ['é', '\\u00e9', '\\u00c9']],
  ['🙂', ['🙂', '\\ud83d\\ude42']],
  ['ΟΣ', ['ΟΣ', '\\u039f\\u03a3', '\\u03bf\\u03c2', '\\u039f\\u03c2', 'Οσ', 'Ος']],
];
for (const [text, forms] of cases)
  test(`the forms of ${JSON.stringify(text)}`, () => {
    const found = logSql.textForms(text);
    // Cases of what is ASCII differ in nothing that the search sees.
    const seen = [...new Set(found.map((form) => (/^[\0-\x7f]*$/.test(form) ? form.toLowerCase() : form)))];
    assert.deepEqual(seen, forms);
  });
