import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { migration, oneServer, readMigrations, schemaSql } from './migrate.ts';

const table: [name: string, sql: string, statements: string[]][] = [
  ['nothing', ' \n', []],
  ['comments only', '-- a;\n/* b; */', []],
  ['two', 'SELECT 1;\nSELECT 2', ['SELECT 1', 'SELECT 2']],
  ['empty ones between', ';;SELECT 1;;', ['SELECT 1']],
  ['semicolons in strings', "SELECT 'a;''b;', 'c\\';d'; SELECT 2", ["SELECT 'a;''b;', 'c\\';d'", 'SELECT 2']],
  ['semicolons in names', 'SELECT `a;b`, "c;d";', ['SELECT `a;b`, "c;d"']],
  ['semicolons in comments', 'SELECT 1 -- a;b\n, 2 /* c; */;', ['SELECT 1  \n, 2']],
  ['quotes in comments', "-- it's\nSELECT 1; -- it's\nSELECT 2", ['SELECT 1', 'SELECT 2']],
  ['dashes and slashes that are no comments', 'SELECT 3 - 2 / 1;', ['SELECT 3 - 2 / 1']],
];
for (const [name, sql, statements] of table) {
  test(`statements of a migration: ${name}`, () =>
    assert.deepEqual(schemaSql.splitStatements(sql), statements));
}

test('line endings do not change a checksum, anything else does', () => {
  const sum = (text: string): string => migration(1, 'a', text).checksum;
  assert.equal(sum('SELECT 1;\r\n'), sum('SELECT 1;\n'));
  assert.notEqual(sum('SELECT 1;\n'), sum('SELECT 2;\n'));
});

test('every statement of ours can be run twice', async () => {
  const migrations = await readMigrations();
  assert.ok(migrations.length > 0);
  for (const step of migrations) {
    assert.ok(step.statements.length > 0, step.name);
    for (const statement of step.statements) {
      assert.match(
        statement,
        /^(CREATE (TABLE|MATERIALIZED VIEW|VIEW) IF NOT EXISTS|ALTER TABLE \w+ ((ADD|DROP) (COLUMN|INDEX) IF (NOT )?EXISTS|MATERIALIZE (COLUMN|INDEX)|MODIFY COLUMN)|DROP (TABLE|VIEW) IF EXISTS|INSERT INTO usage_starts)\b/,
        `${step.name}: two gateways may start at once, so each statement must do no harm when repeated`,
      );
    }
  }
});

test('none takes away what the last version reads, unless it is marked as a contract step', async () => {
  const folder = new URL('./migrations/', import.meta.url);
  for (const name of (await readdir(folder)).sort()) {
    const text = await readFile(new URL(name, folder), 'utf8');
    const takes = schemaSql
      .splitStatements(text)
      .filter((statement) => /\b(DROP (COLUMN|TABLE|VIEW)|RENAME)\b/i.test(statement));
    if (takes.length === 0) continue;
    const from = Number(/^-- contract (\d{4})\b/m.exec(text)?.[1]);
    assert.ok(
      from > 0 && from < Number(name.slice(0, 4)),
      `${name} takes something away: gateways of the last release write and read it. Mark the step "-- contract NNNN" with the migration since which nothing does`,
    );
  }
});

test('numbers of files have no gaps and stand once', async () => {
  for (const names of [
    ['0002-b.sql'],
    ['0001-a.sql', '0003-c.sql'],
    ['0001-a.sql', '0001-b.sql'],
    ['first.sql'],
  ]) {
    const folder = await mkdtemp(join(tmpdir(), 'weir-test-'));
    for (const name of names) await writeFile(join(folder, name), 'SELECT 1');
    await assert.rejects(
      readMigrations(oneServer, pathToFileURL(`${folder}/`)),
      /must be named 000\d-some-words\.sql/,
    );
    await rm(folder, { recursive: true });
  }
});
