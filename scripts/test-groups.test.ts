import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  fileOfGroup,
  groupFiles,
  groups,
  hasOwnCommand,
  newerNodes,
  runOfSuite,
  sharedFiles,
  suites,
  testFiles,
  type Group,
  type Shared,
  unbounded,
} from './test-groups.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const files = testFiles(root).map((file) => file.replaceAll('\\', '/'));
/** Deno repeats tests of other suites. */
const commands = Object.entries(suites).filter(([name]) => name !== 'deno');

test('each test file runs in one command', () => {
  const several = files.filter((file) => commands.filter(([, suite]) => suite.test(file)).length > 1);
  assert.deepEqual(several, []);
  for (const [name, suite] of Object.entries(suites))
    assert.ok(
      files.some((file) => suite.test(file)),
      `test:${name} has a file`,
    );
  const ofNone = files.filter(
    (file) => hasOwnCommand(file) && !Object.values(suites).some((suite) => suite.test(file)),
  );
  assert.deepEqual(ofNone, []);
  const inGroups = (Object.keys(groups) as Group[]).flatMap((group) => groupFiles(group));
  for (const group of Object.keys(groups) as Group[])
    assert.ok(existsSync(path.join(root, fileOfGroup(group))), group);
  assert.deepEqual(
    inGroups.filter((file, index) => inGroups.indexOf(file) !== index || hasOwnCommand(file)),
    [],
  );
});

test('a suite runs each of its files once: in a process that some share, or alone', () => {
  for (const [name, suite] of commands) {
    const ran = runOfSuite(name, false).flatMap((file) => {
      const [, kind, process] = /^tests\/groups\/([a-z]+)-(\d)\.ts$/.exec(file) ?? [];
      if (kind === undefined) return [file];
      assert.ok(existsSync(path.join(root, file)), file);
      const own = sharedFiles(kind as Shared, Number(process), false);
      assert.ok(own.length > 5, file);
      return own;
    });
    assert.deepEqual(
      ran.sort(),
      files.filter((file) => suite.test(file)),
    );
    const bounded = runOfSuite(name, true);
    assert.ok(!bounded.some((file) => name === 'postgres' && unbounded.postgres.test(file)));
  }
});

test('CI runs every suite, and npm knows its command', () => {
  const ci = readFileSync(path.join(root, '.ci/run'), 'utf8');
  const { scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };
  for (const name of Object.keys(suites)) {
    assert.match(ci, new RegExp(`^suite npm run test:${name}(?: -- --bounded)?$`, 'm'));
    assert.equal(scripts[`test:${name}`], `node scripts/bootstrap.mjs test:${name}`);
  }
  assert.match(ci, /^suite npm run test:node -- --bounded$/m);
});

test('the bounded suite of Deno leaves out some files of other suites, and none of its own', () => {
  const ofDeno = files.filter((file) => suites.deno.test(file));
  const left = ofDeno.filter((file) => unbounded.deno.test(file));
  // Chosen by hand: a pattern that grows by mistake shows here.
  const folders = (some: string[]) => [...new Set(some.map((file) => path.dirname(file)))].sort();
  const kept = ofDeno.filter((file) => !left.includes(file));
  assert.ok(left.length > 10 && kept.length >= 25, `${kept.length} of ${ofDeno.length} run`);
  assert.deepEqual(folders(kept), folders(ofDeno));
  assert.deepEqual(
    left.filter(
      (file) =>
        !hasOwnCommand(file) &&
        !(Object.keys(groups) as Group[]).some((group) => groupFiles(group).includes(file)),
    ),
    [],
  );
});

test('the suite of newer releases of Node has files that are there', () => {
  assert.deepEqual(
    Object.keys(newerNodes).map((release) => Number.parseInt(release, 10)),
    [22, 24],
  );
  for (const file of Object.values(newerNodes).flat()) assert.ok(existsSync(path.join(root, file)), file);
});

test('the bounded suite of PostgreSQL leaves out two files', () => {
  const left = files.filter((file) => suites.postgres.test(file) && unbounded.postgres.test(file));
  assert.deepEqual(left, [
    'storage/postgres/export-import-records.test.ts',
    'tests/integration/administration-backup-places.test.ts',
  ]);
});
