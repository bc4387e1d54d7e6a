// Writes docs/api-coverage.md from the routes of the built-in plugins; with --check it only compares.
import { readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';
import type { RouteDefinition } from '../core/pipeline/define-route.ts';
import { contributedRoutes } from '../tests/kit/openapi-kit.ts';
import {
  ofProviders,
  operationKey,
  operationsOf,
  routesFor,
  takenByPlugins,
  wantedOperations,
  type Operation,
} from './wanted-operations.ts';

/** A test whose request reached a gateway, by operation. */
export const recordedCalls = JSON.parse(
  readFileSync(new URL('../tests/fixtures/recorded-calls.json', import.meta.url), 'utf8'),
) as Readonly<Record<string, { readonly file: string; readonly test: string; readonly status: number }>>;

const target = fileURLToPath(new URL('../docs/api-coverage.md', import.meta.url));
/** Command that records the calls again; takes as long as all suites. */
export const recordCommand = 'node --import tsx scripts/record-calls.ts';
/** Command that writes the table. */
export const coverageCommand = 'node --import tsx scripts/generate-api-coverage.ts';

const introduction = `# API coverage

<!-- Generated from the routes of the plugins by \`${coverageCommand}\`. Change those, not this file. -->

Every operation of the API, with the scope that a key needs (any one of several) and a test that calls it. The calls are
recorded while every test file runs (\`${recordCommand}\`): the table names the file that calls the
operation in most of its tests, and one of these tests. **none** means that no test calls the operation. Operations of providers are
passed on by the pipeline that takes their paths; their scopes are in docs/authentication.md.
\`tests/property/authorisation.test.ts\` and \`tests/property/fuzz.test.ts\` call every administration route as well; they
are named only where no other test calls the operation.

The paths of LiteLLM's proxy (\`/key/generate\`, \`/team/new\`, \`/model/info\` …) are off unless they are switched on, call the routes
below, and stand in docs/moving-from-litellm.md; \`plugins/management/litellm/routes.test.ts\` and \`plugins/litellm/index.test.ts\` call them.
`;

/** Wanted operations, except those of providers, that none of these routes serves. */
export function missingOperations(routes: readonly RouteDefinition[]): readonly Operation[] {
  return Object.entries(wantedOperations)
    .filter(([resource]) => !ofProviders.has(resource))
    .flatMap(([, wanted]) => wanted.flatMap((one) => operationsOf(one)))
    .filter((operation) => takenByPlugins[operation.path] === undefined)
    .filter((operation) => routesFor(operation, routes).length === 0);
}

/** The table as Markdown, formatted. */
export async function apiCoverage(routes: readonly RouteDefinition[]): Promise<string> {
  const served = new Set<RouteDefinition>();
  const sections = Object.entries(wantedOperations).map(([resource, wanted]) => {
    const rows = wanted
      .flatMap((one) => operationsOf(one))
      .map((operation) => {
        if (ofProviders.has(resource)) return row(operation, 'of providers', testOf(operation));
        const taken = takenByPlugins[operation.path];
        if (taken !== undefined) return row(operation, `\`${taken}\``, testOf(operation));
        const found = routesFor(operation, routes);
        for (const route of found) served.add(route);
        return found.length === 0
          ? row(operation, 'not served yet', '')
          : row(operation, scopesOf(found), testOf(found[0] ?? operation));
      });
    return `## ${resource}\n\n${table(rows)}`;
  });
  const others = routes
    .filter((route) => !served.has(route))
    .map((route) => row(route, scopesOf([route]), testOf(route)));
  const beyond = `## Beside these\n\n${table(others)}`;
  const text = [introduction, ...sections, beyond].join('\n\n');
  return format(text, { ...(await resolveConfig(target)), parser: 'markdown' });
}

function scopesOf(routes: readonly RouteDefinition[]): string {
  const scopes = new Set(routes.flatMap(({ scope }) => scope));
  return scopes.size === 0 ? 'none: every key' : [...scopes].map((scope) => `\`${scope}\``).join(', ');
}

/** The recorded test of an operation, in the table's form. */
function testOf(operation: Operation): string {
  const call = recordedCalls[operationKey(operation)];
  if (call === undefined) return '**none**';
  return `\`${call.file}\`: ${call.test.replaceAll(/[|`*_<>]/g, (sign) => `\\${sign}`)}`;
}

function row({ method, path }: Operation, scope: string, test: string): string {
  return `| ${method} | \`${path}\` | ${scope} | ${test} |`;
}

function table(rows: readonly string[]): string {
  return ['| Method | Path | Scope | Test |', '| --- | --- | --- | --- |', ...rows].join('\n');
}

async function main(): Promise<number> {
  const text = await apiCoverage(await contributedRoutes());
  if (!process.argv.includes('--check')) {
    await writeFile(target, text);
    return 0;
  }
  const present = await readFile(target, 'utf8').catch(() => '');
  if (present === text) return 0;
  console.error(`docs/api-coverage.md is not what the routes are; run \`${coverageCommand}\`.`);
  return 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = await main();
