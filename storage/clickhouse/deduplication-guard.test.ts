import assert from 'node:assert/strict';
import { test } from 'node:test';
import { migration, oneServer, readMigrations, type TableLayout } from './migrate.ts';

const least = 1000;

/**
 * What would lose or double rows when an insert is retried: a table that remembers too few blocks, or a view that
 * writes into one. Statements are those of all migrations, in order, without comments.
 */
function unguarded(statements: readonly string[]): string[] {
  const problems: string[] = [];
  const windows = new Map<string, number>();
  for (const sql of statements) {
    const name = /^CREATE TABLE (?:IF NOT EXISTS )?`?(\w+)`?/i.exec(sql)?.[1];
    if (name !== undefined && /ENGINE\s*=\s*\w*MergeTree/i.test(sql)) {
      const settings = /\bSETTINGS\b([^]*)$/i.exec(sql)?.[1] ?? '';
      // The two families of engines have each a setting of their own, and ignore the other's.
      const isReplicated = /ENGINE\s*=\s*Replicated/i.test(sql);
      const setting = isReplicated
        ? /(?<!non_)\breplicated_deduplication_window\s*=\s*(\d+)/i
        : /\bnon_replicated_deduplication_window\s*=\s*(\d+)/i;
      const blocks = Number(setting.exec(settings)?.[1] ?? 0);
      windows.set(name, blocks);
      if (blocks < least) problems.push(`table ${name} sets no window of ${least} blocks`);
    }
    const view =
      /^CREATE MATERIALIZED VIEW (?:IF NOT EXISTS )?`?(\w+)`?\s*(?:ON CLUSTER \S+\s+)?(?:TO `?(\w+)`?)?/i.exec(
        sql,
      );
    if (view === null) continue;
    const [, viewName, target] = view;
    if (target === undefined) problems.push(`view ${viewName} has no target of its own (TO table)`);
    else if ((windows.get(target) ?? 0) < least) problems.push(`view ${viewName} writes to ${target}`);
  }
  return problems;
}

const cluster: TableLayout = { cluster: 'main', replica: { path: '', name: '' } };
for (const [where, layout] of [
  ['one server', oneServer],
  ['a cluster with replicas', cluster],
] as const) {
  test(`on ${where} every table, and every target of a view, remembers the blocks that it has`, async () => {
    const statements = (await readMigrations(layout)).flatMap((step) => step.statements);
    assert.ok(statements.some((sql) => sql.startsWith('CREATE TABLE IF NOT EXISTS requests')));
    assert.deepEqual(unguarded(statements), []);
  });
}

const columns = '(a UInt8) ENGINE = SummingMergeTree ORDER BY a';
const window = 'SETTINGS index_granularity = 512, non_replicated_deduplication_window = 10000';
const cases: readonly [what: string, sql: string, problems: readonly string[]][] = [
  ['a table with a window', `CREATE TABLE IF NOT EXISTS t ${columns} ${window}`, []],
  [
    'a view into it',
    `CREATE TABLE t ${columns} ${window}; CREATE MATERIALIZED VIEW v TO t AS SELECT a FROM s`,
    [],
  ],
  ['a table without', `CREATE TABLE t ${columns}`, ['table t sets no window of 1000 blocks']],
  [
    'a replicated table with the setting of the other family',
    `CREATE TABLE t (a UInt8) ENGINE = ReplicatedMergeTree ORDER BY a ${window}`,
    ['table t sets no window of 1000 blocks'],
  ],
  [
    'a view on a cluster',
    `CREATE TABLE t ON CLUSTER 'c' ${columns}; CREATE MATERIALIZED VIEW v ON CLUSTER 'c' TO t AS SELECT a FROM s`,
    ['table t sets no window of 1000 blocks', 'view v writes to t'],
  ],
  [
    'a table that mentions it in a comment only',
    `CREATE TABLE t ${columns} -- ${window}`,
    ['table t sets no window of 1000 blocks'],
  ],
  [
    'a short window',
    `CREATE TABLE t ${columns} SETTINGS non_replicated_deduplication_window = 10`,
    ['table t sets no window of 1000 blocks'],
  ],
  [
    'a view into a table without',
    `CREATE TABLE t ${columns}; CREATE MATERIALIZED VIEW IF NOT EXISTS v TO t AS SELECT a FROM s`,
    ['table t sets no window of 1000 blocks', 'view v writes to t'],
  ],
  [
    'a view into a table that nobody makes',
    'CREATE MATERIALIZED VIEW v TO t AS SELECT a FROM s',
    ['view v writes to t'],
  ],
  [
    'a view that keeps its rows itself',
    `CREATE MATERIALIZED VIEW v ENGINE = SummingMergeTree ORDER BY a ${window} AS SELECT a FROM s`,
    ['view v has no target of its own (TO table)'],
  ],
];
for (const [what, sql, problems] of cases) {
  test(`the check sees ${what}`, () =>
    assert.deepEqual(unguarded(migration(1, 'a', sql).statements), problems));
}
