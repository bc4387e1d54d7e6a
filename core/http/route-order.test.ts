import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { PipelineConfig } from '../config/schema.ts';
import { beginsProviderPaths, canonicalPath, matchEndpoint } from '../dialects/match-endpoint.ts';
import { compilePipeline, type CompiledPipeline } from '../pipeline/compile.ts';
import { definePlugin, defineRoute, Type } from '../pipeline/plugin.ts';
import { compilePipelines } from './route-table.ts';

type Route = readonly [method: 'GET' | 'POST' | 'DELETE', path: string];

interface Listed {
  readonly match: PipelineConfig['match'];
  /** Of a pipeline that serves contributed routes. */
  readonly routes: readonly Route[];
}

function compiled({ match, routes }: Listed, index: number): CompiledPipeline {
  const hooks = {
    routes: routes.map(([method, path]) =>
      defineRoute({
        id: `${method} ${path}`,
        ...{ method, path, summary: '', scope: 'x.y', audit: null, reply: Type.Object({}) },
        handle: () => ({}),
      }),
    ),
  };
  const definition = definePlugin({ name: 'routes', create: () => ({}) });
  const instance = { definition, hooks, name: `r${index}`, timeoutMs: 0, builtIn: true } as const;
  return compilePipeline({ name: `p${index}`, match, plugins: [] }, [{ ...instance, onError: 'fail' }]);
}

function takes(pattern: string, path: string): boolean {
  const source = pattern
    .slice(1)
    .split('/')
    .map((one) =>
      one === '**' ? '(?:/[^/]*)*' : one === '*' ? '/[^/]+' : `/${one.replaceAll(/\*+/g, '[^/]*')}`,
    );
  return new RegExp(`^${source.join('')}$`).test(path);
}

/** A fixed segment counts before a parameter. */
function routeFor(routes: readonly Route[], method: string, path: string): string | undefined {
  const order = (one: string): string => one.replaceAll(/\{\w+\}/g, '\uffff');
  const [found] = routes
    .filter(([own, wanted]) => {
      const segments = wanted.split('/');
      const given = path.split('/');
      if (own !== method || segments.length !== given.length) return false;
      return segments.every((one, i) => (one.startsWith('{') ? given[i] !== '' : one === given[i]));
    })
    .sort(([, one], [, other]) => (order(one) < order(other) ? -1 : 1));
  if (found === undefined) return undefined;
  const names = found[1].split('/');
  const params = path
    .split('/')
    .flatMap((given, i) => (names[i]?.startsWith('{') ? [`${names[i].slice(1, -1)}=${given}`] : []));
  return [`${found[0]} ${found[1]}`, ...params.sort()].join(' ');
}

/** One pipeline after the other, in the order of the file. */
function scanned(listed: readonly Listed[], method: string, path: string, proxyOnly: boolean): string {
  const first = (one: string): string => `/${one.split('/')[1] ?? ''}`;
  const words = listed.flatMap(({ routes }) => routes.map(([, one]) => first(one)));
  const canonical = canonicalPath(path);
  const isReserved =
    !proxyOnly &&
    matchEndpoint(method, path).id === 'proxy' &&
    words.some((word) => word === first(canonical) && !beginsProviderPaths(word));
  let afterRoutes = false;
  for (const [index, { match, routes }] of listed.entries()) {
    if (match.routes !== undefined) {
      afterRoutes = true;
      const found = proxyOnly ? undefined : routeFor(routes, method, path);
      if (found !== undefined) return `p${index} ${found}`;
      continue;
    }
    const { path: pattern = '/**', methods } = match;
    if (isReserved && afterRoutes && first(pattern).includes('*')) continue;
    if (methods !== undefined && !methods.includes(method)) continue;
    if (takes(pattern, path) || takes(pattern.toLowerCase(), canonical)) return `p${index}`;
  }
  return 'none';
}

const words = ['a', 'b', 'ab', 'A', 'Chat', 'chat', 'keys', 'logs', 'é'];
// Few patterns, so that several take one request.
const pattern = fc.oneof(
  fc.constantFrom('/**', '/keys/**', '/Keys/*', '/*/*', '/**/a', '/chat/*', '/a/**/b'),
  fc
    .array(fc.constantFrom(...words, '*', '**', 'a*', '*b', 'A*b*', ''), { minLength: 1, maxLength: 5 })
    .map((parts) => `/${parts.join('/')}`),
);
const path = fc.oneof(
  fc.constantFrom('/keys/1', '/keys/groups', '/keys', '/keys/1/a/2', '/logs/7', '/chat/a', '/a/x/b', '/'),
  fc
    .array(fc.constantFrom(...words, 'aab', 'KEYS', '%61', '%4cogs', 'a%2Fb', 'a%5cb', '1', ''), {
      minLength: 1,
      maxLength: 6,
    })
    .map((parts) => `/${parts.join('/')}`),
);
const method = fc.constantFrom('GET', 'POST', 'DELETE', 'PROPFIND');
const methods = fc.uniqueArray(method, { minLength: 1, maxLength: 2 });
const routes = fc.uniqueArray(
  fc.constantFrom<Route>(
    ['GET', '/keys/{id}'],
    ['GET', '/keys/groups'],
    ['POST', '/keys'],
    ['DELETE', '/keys/{id}/a/{part}'],
    ['GET', '/logs/{id}'],
    ['POST', '/chat/{model}'],
  ),
  { maxLength: 4 },
);
const listed: fc.Arbitrary<Listed> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ match: fc.record({ path: pattern }), routes: fc.constant([]) }) },
  {
    weight: 2,
    arbitrary: fc.record({ match: fc.record({ path: pattern, methods }), routes: fc.constant([]) }),
  },
  { weight: 1, arbitrary: fc.record({ match: fc.constant({ routes: 'contributed' as const }), routes }) },
);

describe('which pipeline serves a request', () => {
  it('is that of a look at one after the other, in the order of the file, however many there are', () => {
    const request = fc.record({ method, path, proxyOnly: fc.boolean() });
    fc.assert(
      fc.property(
        fc.array(listed, { minLength: 1, maxLength: 40 }),
        fc.array(request, { minLength: 1, maxLength: 20 }),
        (pipelines, requests) => {
          const table = compilePipelines(pipelines.map(compiled)).routes;
          for (const one of requests) {
            const found = table.match(one.method, one.path, one.proxyOnly);
            const params = Object.entries(found?.params ?? {}).map(([name, value]) => `${name}=${value}`);
            const shown =
              found && [found.pipeline.name, found.route?.id, ...params.sort()].filter(Boolean).join(' ');
            assert.equal(
              shown ?? 'none',
              scanned(pipelines, one.method, one.path, one.proxyOnly),
              `${one.method} ${one.path}`,
            );
            if (found) assert.equal(found.path, one.path);
          }
        },
      ),
      { numRuns: 400 },
    );
  });

  it('is the last of a thousand, too', () => {
    const pipelines = Array.from({ length: 1000 }, (_, index) =>
      compiled({ match: { path: `/*/team-${index}/**` }, routes: [] }, index),
    );
    const table = compilePipelines(pipelines).routes;
    for (const spelled of ['/eu/team-999', '/eu/TEAM-999/chat', '/eu//team%2d999/a/b'])
      assert.equal(table.match('POST', spelled, false)?.pipeline.name, 'p999', spelled);
    assert.equal(table.match('POST', '/eu/team-1000', false), undefined);
  });
});
