import { readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

// Files and folders whose tests run together in one process, each file as a suite of its own: starting a process per
// file takes longer than most of the tests. A file that changes its process for good stays out: `alone`.
export const groups = {
  /** Requests through a gateway in the same process. */
  core: ['core/connection', 'core/http', 'core/pipeline', 'core/routing', 'tests/integration/resilience'],
  plugins: ['plugins', 'tests/golden'],
  /** Gateways as processes that are called from outside, and the kit itself. */
  integration: ['tests/integration', 'tests/kit'],
  /** The official SDKs. */
  sdk: ['tests/sdk'],
  storage: ['storage'],
  journal: ['storage/journal'],
  /** Loading and checking configurations and plugins, the command line, jobs; the scripts of this project. */
  lifecycle: ['core/administration', 'core/errors', 'core/lifecycle', 'main', 'scripts', 'tests/fuzz'],
  adapters: ['adapters'],
  /** Rules of configurations, keys and directories, without processes and stores. */
  rules: [
    'adapters/credentials',
    'adapters/mcp',
    'adapters/pricing',
    'core/access',
    'core/administration/directory',
    'core/administration/prompts',
    'core/base',
    'core/config',
    'core/organisation',
    'core/providers',
    'core/redaction',
  ],
  /** Code without processes, files or sockets. */
  pure: ['adapters/dialects', 'adapters/framing', 'core/dialects'],
};

/** Groups that take longest. The runner starts files in the order of their paths: these first, so that all end together. */
const longest = ['core', 'integration', 'plugins', 'storage'];

/** The file that runs a group. */
export function fileOfGroup(name) {
  return `tests/groups/${longest.includes(name) ? 1 : 2}-${name}.ts`;
}

/** Tests that change their process: what it does with uncaught errors, or what it trusts. */
const alone =
  /^(adapters\/transport\/transport-(chaos|flow)|core\/lifecycle\/(process-guards|tracer-in-use)|storage\/redis\/redis-tls)\./;

/** Arguments of Node that run test files. This reporter repeats failures at the end, where a reader of a long log looks. */
export const runnerArguments = ['--import', 'tsx', '--test', '--test-reporter=spec', '--test-concurrency=3'];

// Suites with a command of their own (`npm run test:…`), which `npm test` leaves out: paths of their files, with `/`.
export const suites = {
  /** The relational store on both engines, and its administration: each file opens a store, which takes seconds. */
  postgres:
    /^((storage\/postgres|plugins\/management|tests\/property)\/|storage\/embedded\/[a-z-]*pglite|tests\/integration\/(administration|organisation-records)|tests\/sdk\/portkey-(admin|configs|integrations|mcp|policies|prompts))/,
  /** The analytics store on the real engine: writes, queries and recovery. */
  analytics:
    /^(storage\/clickhouse\/(embedded|many-traces|migrate\.|older-bodies|price-changes|quick-scans|server|usage-start|views|retention|shards|table-layout)|storage\/embedded\/(chdb\/(engine|http-server)|start-chdb)|scripts\/seed-demo\/fill|tests\/integration\/(analytics-routes|budget-comparison|exports|log-routes|logs|reconcile-command|reprice|telemetry))/,
  /** Gateways as processes that are called, restarted and inspected from outside. */
  processes:
    /^(tests\/(installed-package\/|mcp\/|runtime\/node|integration\/(apply-command|back-pressure|bench-command|config-file|clickhouse-server|closed-output|document-(commands|samples)|example-plugins|features|first-minute|guides|import|journal-command|organisation-file|plan-command|plugin-swap|prices|reload|third-party|usage-limits|workers)|sdk\/mcp-clients)|scripts\/built-sources|adapters\/mcp\/stdio-|core\/lifecycle\/(isolation\/|watchdog)|storage\/(embedded\/data-lock|redis\/(redis-cluster|redis-failover|redis-sentinel|jobs-on-cluster)))/,
  /** Gateways that are killed, or that lose a store, a disk or another gateway. */
  chaos: /^tests\/chaos\//,
  /** The console in a real browser. */
  browser: /^tests\/browser\//,
  /** All tests that use a gateway from outside, against one on Deno. */
  deno: /^tests\/(runtime\/deno|integration\/|chaos\/|sdk\/)/,
};

/**
 * Files that `npm run test:<suite> -- --bounded`, as in CI, leaves out. On Deno: they are about stores and rules, which
 * are the same code on both runtimes, and take longest; each kind of file keeps one that runs. On PostgreSQL: long forms
 * of what `export-import` and `administration-backup` test as well.
 */
export const unbounded = {
  postgres: /^(storage\/postgres\/export-import-records|tests\/integration\/administration-backup-places)\./,
  deno: /^tests\/(integration\/(administration|analytics-routes|apply-command|plan-command|bench-command|budget-comparison|clickhouse-server|document-(commands|samples)|explain|exports|features|guides|import|organisation-file|recipes|usage-limits|workers|guardrail-defaults|log-routes|mcp-(accounts|facade)|model-rules|organisation-records|logs\.|telemetry|provider-operations|reconcile|reprice|cache-|headers|journal-command|local-classifier|mcp-oauth|origin-headers|prices|realtime-refusals|repeated-input|resilience\/(any-fault|breaker|fallback|hedge|money|retry|timeouts)|third-party-check)|sdk\/(portkey-(admin|analytics|config|exports|integrations|logs|mcp|policies|prompts|headers)|mcp-clients|anthropic-errors|mock|openai-(chat-errors|realtime|vectors)|python-clients|rewritten-streams|stored-responses)|chaos\/(analytics-engine|clock-skew|damaged-analytics|fleet-|journal-poisoned|rows-at-shutdown|limits-over|mcp-|postgres-gone|redis-gone|rolling-restart|shared-volume|store-in-trouble|unusable-disk))/,
};

/**
 * `npm run test:node`: the newer releases of Node, of npm's package `node`, each with what `-- --bounded` runs on it, as in
 * CI: what meets the runtime; the SDKs on the newest alone. Without it all of `npm test` runs on each.
 */
export const newerNodes = {
  '22.23.3': boundedOnNode(['core', 'journal']),
  '24.21.0': boundedOnNode(['core', 'journal', 'sdk']),
};

function boundedOnNode(names) {
  return [...names.map(fileOfGroup), 'tests/runtime/node.test.ts'];
}

/**
 * Files of those suites that share processes: how many, each with every nth file. Those of the administration ask one
 * store in the name of organisations of their own; those of the console have a gateway each and share the browser.
 */
const shared = {
  management: {
    suite: 'postgres',
    processes: 2,
    files: /^(plugins\/management|tests\/sdk\/portkey-)/,
  },
  console: { suite: 'browser', processes: 2, files: /^tests\/browser\// },
};

/** The files of the nth process, from 1, that share it; with `--bounded`, those that this leaves. */
export function sharedFiles(name, process, isBounded) {
  const { processes } = shared[name];
  return filesOfSuite(shared[name].suite, isBounded)
    .filter((file) => isShared(name, file))
    .filter((_, index) => index % processes === process - 1);
}

/** What runs a suite with a command of its own: files that start the shared processes, and every file that is alone. */
export function runOfSuite(suite, isBounded) {
  const names = Object.keys(shared).filter((name) => shared[name].suite === suite);
  const entries = names.flatMap((name) =>
    Array.from({ length: shared[name].processes }, (_, index) => `tests/groups/${name}-${index + 1}.ts`),
  );
  const alone = filesOfSuite(suite, isBounded).filter((file) => !names.some((name) => isShared(name, file)));
  return [...entries, ...alone];
}

function isShared(name, file) {
  return shared[name].files.test(file);
}

function filesOfSuite(suite, isBounded) {
  return testFiles(root)
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => suites[suite].test(file) && !(isBounded && unbounded[suite]?.test(file)));
}

/** True for the files that another command runs instead of `npm test`. */
export function hasOwnCommand(file) {
  const { analytics, postgres, processes, chaos, browser } = suites;
  return (
    [analytics, postgres, processes, chaos, browser].some((suite) => suite.test(file)) ||
    file.startsWith('tests/runtime/deno')
  );
}

/** The files of `npm test` that run in this group: those that no other group names more exactly. */
export function groupFiles(group) {
  return filesOfTest().filter((file) => groupOf(file) === group);
}

/** The files of `npm test` that run in a process of their own. */
export function filesAlone() {
  return filesOfTest().filter((file) => groupOf(file) === undefined);
}

function filesOfTest() {
  return testFiles(root)
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => !hasOwnCommand(file));
}

function groupOf(file) {
  if (alone.test(file)) return undefined;
  const folders = Object.entries(groups)
    .flatMap(([group, names]) => names.map((name) => ({ group, name })))
    .filter(({ name }) => file.startsWith(`${name}/`));
  return folders.sort((a, b) => b.name.length - a.name.length)[0]?.group;
}

/**
 * Every test file below the root, as a relative path; listed here because `--test` with a pattern needs a newer Node.
 */
export function testFiles(root) {
  const found = [];
  const walk = (folder) => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (entry.name === 'node_modules' || entry.name === 'data' || entry.name.startsWith('.')) continue;
      const full = path.join(folder, entry.name);
      if (entry.isDirectory()) walk(full);
      else if (entry.name.endsWith('.test.ts')) found.push(path.relative(root, full));
    }
  };
  walk(root);
  return found.sort();
}
