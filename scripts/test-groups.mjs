import { readdirSync } from 'node:fs';
import path from 'node:path';

// Folders whose tests run together in one process: starting one per file takes longer than most of the tests. They
// leave nothing behind and have no hooks outside of a `describe`.
export const groups = {
  /** Code without processes, files or sockets. */
  pure: ['adapters/dialects', 'adapters/framing', 'core/dialects'],
  /** Requests through a gateway in the same process. */
  core: ['core/connection', 'core/http', 'core/pipeline', 'core/routing', 'tests/integration/resilience'],
  plugins: ['plugins', 'tests/golden'],
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
};

// Suites with a command of their own (`npm run test:…`), which `npm test` leaves out: paths of their files, with `/`.
export const suites = {
  /** The relational store on both engines, and its administration: each file opens a store, which takes seconds. */
  postgres:
    /^((storage\/postgres|plugins\/management|tests\/property)\/|storage\/embedded\/[a-z-]*pglite|tests\/integration\/(administration|organisation-records)|tests\/sdk\/portkey-(admin|configs|integrations|mcp|policies|prompts))/,
  /** The analytics store on the real engine: writes, queries and recovery. */
  analytics:
    /^(storage\/clickhouse\/(embedded|price-changes|server|views|retention|table-layout)|scripts\/seed-demo\/fill|tests\/integration\/(analytics-routes|exports|log-routes|logs|reprice|telemetry))/,
  /** Gateways as processes that are killed, called and inspected from outside. */
  processes:
    /^(tests\/(chaos\/|mcp\/|package\/|runtime\/node|integration\/(clickhouse-server|closed-output|example-plugins|features|first-minute|journal-command|organisation-file|reload|third-party)|sdk\/mcp-clients)|scripts\/built-sources|adapters\/mcp\/stdio-|core\/lifecycle\/(isolation\/|watchdog)|storage\/embedded\/data-lock)/,
  /** All tests that use a gateway from outside, against one on Deno. */
  deno: /^tests\/(runtime\/deno|integration\/|chaos\/|sdk\/)/,
};

/** True for the files that another command runs instead of `npm test`. */
export function hasOwnCommand(file) {
  const { analytics, postgres, processes } = suites;
  return (
    [analytics, postgres, processes].some((suite) => suite.test(file)) ||
    file.startsWith('tests/runtime/deno')
  );
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
