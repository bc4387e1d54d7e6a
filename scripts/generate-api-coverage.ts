// Writes docs/api-coverage.md from the routes of the built-in plugins; with --check it only compares.
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';
import type { RouteDefinition } from '../core/pipeline/define-route.ts';
import { contributedRoutes } from '../tests/kit/openapi-kit.ts';
import { ofProviders, takenByPlugins, testFiles, wantedOperations } from './wanted-operations.ts';

const target = fileURLToPath(new URL('../docs/api-coverage.md', import.meta.url));
/** What writes the table anew. */
export const coverageCommand = 'node --import tsx scripts/generate-api-coverage.ts';

const introduction = `# API coverage

<!-- Generated from the routes of the plugins by \`${coverageCommand}\`. Change those, not this file. -->

Every operation of the API outside analytics and logs, with the scope that a key needs (any one of several) and the file
of tests for its part of the API. The file is chosen by the beginning of the path: it was not recorded which test calls
which operation, and no operation is shown here to be called by none. Operations of providers are passed on by whatever pipeline takes their paths, and ask for no scope here.
\`tests/property/authorisation.test.ts\` and \`tests/property/fuzz.test.ts\` call every administration route as well.
`;

/** One operation of the table. */
export interface Operation {
  readonly method: string;
  readonly path: string;
}

/** The operations that are wanted, without those of providers, and are not served by any of these routes. */
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
        if (ofProviders.has(resource)) return row(operation, 'none', testOf(operation.path));
        const taken = takenByPlugins[operation.path];
        if (taken !== undefined) return row(operation, `\`${taken.scope}\``, `\`${taken.test}\``);
        const found = routesFor(operation, routes);
        for (const route of found) served.add(route);
        return found.length === 0
          ? row(operation, 'not served yet', '')
          : row(operation, scopesOf(found), testOf(operation.path));
      });
    return `## ${resource}\n\n${table(rows)}`;
  });
  const others = routes
    .filter((route) => !served.has(route))
    .map((route) => row(route, scopesOf([route]), testOf(route.path)));
  const beyond = `## Beside these\n\n${table(others)}`;
  const text = [introduction, ...sections, beyond].join('\n\n');
  return format(text, { ...(await resolveConfig(target)), parser: 'markdown' });
}

function operationsOf(text: string): readonly Operation[] {
  const [methods = '', path = ''] = text.split(' ');
  return methods.split(',').map((method) => ({ method, path }));
}

/** Parameters may have other names, and one that is wanted may be several routes with words in its place. */
function routesFor({ method, path }: Operation, routes: readonly RouteDefinition[]): RouteDefinition[] {
  const wanted = path.split('/');
  return routes
    .filter((route) => {
      const given = route.path.split('/');
      if (route.method !== method || given.length !== wanted.length) return false;
      return wanted.every((segment, index) => segment.startsWith('{') || segment === given[index]);
    })
    .filter((route, _, all) => {
      const exact = (one: RouteDefinition): boolean => shape(one.path) === shape(path);
      return exact(route) || !all.some((one) => exact(one));
    });
}

function shape(path: string): string {
  return path.replaceAll(/\{[^}]+\}/g, '{}');
}

function scopesOf(routes: readonly RouteDefinition[]): string {
  const scopes = new Set(routes.flatMap(({ scope }) => scope));
  return [...scopes].map((scope) => `\`${scope}\``).join(', ');
}

/** The file of tests for this part of the API; empty while it is not there. */
export function testOf(path: string): string {
  let best: readonly [string, string] = ['', ''];
  for (const entry of testFiles) {
    if (path.startsWith(entry[0]) && entry[0].length > best[0].length) best = entry;
  }
  return existsSync(new URL(`../${best[1]}`, import.meta.url)) ? `\`${best[1]}\`` : '';
}

function row({ method, path }: Operation, scope: string, test: string): string {
  return `| ${method} | \`${path}\` | ${scope} | ${test} |`;
}

function table(rows: readonly string[]): string {
  return ['| Method | Path | Scope | Tests of its part |', '| --- | --- | --- | --- |', ...rows].join('\n');
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
