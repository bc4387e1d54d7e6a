// Writes tests/fixtures/recorded-calls.json: for each operation of the API, a test whose request reached a gateway,
// from a run of every test file alone. Takes as long as all suites, or as the named files, whose operations are added;
// `scripts/generate-api-coverage.ts` makes the table from it.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { contributedRoutes } from '../tests/kit/openapi-kit.ts';
import { groups, testFiles } from './test-groups.mjs';
import { operationKey, ofProviders, operationsOf, routesFor, wantedOperations } from './wanted-operations.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const target = path.join(root, 'tests/fixtures/recorded-calls.json');
/** Tests in this folder call everything at once, and prove less than a test of the operation. */
const sweeping = /^tests\/property\//;

type Line = readonly [method: string, url: string, status: number, file: string, test: string];

interface Call {
  readonly file: string;
  readonly test: string;
  readonly status: number;
}

const folder = mkdtempSync(path.join(os.tmpdir(), 'weir-calls-'));
try {
  const given = process.argv.slice(2);
  runTests(given.length > 0 ? given : callingFiles());
  const found = reduced(readLines(), await patterns());
  // From some files alone: calls of the other files keep their record.
  writeRecord(given.length > 0 ? new Map([...found, ...Object.entries(readRecord())]) : found);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/**
 * Test files that can call a gateway: without those free of processes, files and sockets, and those on Deno, which
 * loads no recorder.
 */
function callingFiles(): string[] {
  return testFiles(root).filter(
    (file) => !groups.pure.some((one) => file.startsWith(`${one}/`)) && !file.includes('runtime/deno'),
  );
}

function runTests(files: readonly string[]): void {
  const recorder = new URL('call-recorder.mjs', import.meta.url).href;
  const env = { ...process.env, WEIR_RECORD_CALLS: folder, NODE_OPTIONS: `--import=${recorder}` };
  const args = ['--import', 'tsx', '--test', '--test-reporter=dot', '--test-concurrency=2', ...files];
  spawnSync(process.execPath, args, { cwd: root, env, stdio: ['ignore', 2, 2] });
}

function readLines(): Line[] {
  return readdirSync(folder)
    .flatMap((file) => readFileSync(path.join(folder, file), 'utf8').trim().split('\n'))
    .map((line) => JSON.parse(line) as Line);
}

interface Pattern {
  readonly key: string;
  readonly method: string;
  readonly segments: readonly string[];
}

/** Every operation of the table; those with fewer parameters first. */
async function patterns(): Promise<readonly Pattern[]> {
  const routes = await contributedRoutes();
  const wanted = Object.entries(wantedOperations).flatMap(([resource, texts]) =>
    texts
      .flatMap((text) => operationsOf(text))
      .filter((one) => ofProviders.has(resource) || routesFor(one, routes).length === 0),
  );
  const all = [...wanted, ...routes].map(({ method, path: route }) => ({
    key: operationKey({ method, path: route }),
    method,
    segments: route.split('/'),
  }));
  const parameters = ({ segments }: Pattern): number => segments.filter((one) => one.startsWith('{')).length;
  return all.sort((a, b) => parameters(a) - parameters(b));
}

/** The file that calls an operation in most of its tests, and the first of these tests, sorted by name. */
function reduced(lines: readonly Line[], known: readonly Pattern[]): Map<string, Call> {
  const calls = new Map<string, Map<string, Call[]>>();
  for (const [method, url, status, file, test] of lines) {
    const segments = url.replace(/^\/v1(?=\/)/, '').split('/');
    const found = known.find(
      (one) =>
        one.method === method &&
        one.segments.length === segments.length &&
        one.segments.every((segment, index) => segment.startsWith('{') || segment === segments[index]),
    );
    if (found === undefined || test === '' || status === 404) continue;
    const files = calls.get(found.key) ?? new Map<string, Call[]>();
    calls.set(found.key, files.set(file, [...(files.get(file) ?? []), { file, test, status }]));
  }
  const worth = (of: readonly Call[]): number => {
    const succeeded = of.filter(({ status }) => status < 300).length;
    return (sweeping.test(of[0]?.file ?? '') ? 0 : 1_000_000) + succeeded * 1000 + of.length;
  };
  const best = new Map<string, Call>();
  for (const [key, files] of [...calls].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const [chosen = []] = [...files.values()].sort((a, b) => worth(b) - worth(a));
    const [call] = [...chosen].sort(
      (a, b) => Number(a.status >= 300) - Number(b.status >= 300) || (a.test < b.test ? -1 : 1),
    );
    if (call !== undefined) best.set(key, call);
  }
  return best;
}

function readRecord(): Record<string, Call> {
  return JSON.parse(readFileSync(target, 'utf8')) as Record<string, Call>;
}

function writeRecord(calls: ReadonlyMap<string, Call>): void {
  const sorted = [...calls].sort(([a], [b]) => (a < b ? -1 : 1));
  writeFileSync(target, `${JSON.stringify(Object.fromEntries(sorted), null, 2)}\n`);
  console.error(`${calls.size} operations are called by tests.`);
}
