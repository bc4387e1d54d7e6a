import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { PipelineConfig } from '../config/schema.ts';
import { compilePipeline, type CompiledPipeline } from '../pipeline/compile.ts';
import { definePlugin, defineRoute, Type } from '../pipeline/plugin.ts';
import { buildRouteTable, compilePipelines } from './route-table.ts';

function pipeline(
  name: string,
  match: PipelineConfig['match'],
  routes: readonly (readonly [method: 'GET' | 'POST' | 'DELETE', path: string])[] = [],
): CompiledPipeline {
  const definition = definePlugin({ name: 'routes', create: () => ({}) });
  const hooks = {
    routes: routes.map(([method, path]) =>
      defineRoute({
        id: `${method} ${path}`,
        method,
        path,
        summary: '',
        scope: 'x.y',
        audit: null,
        reply: Type.Object({}),
        handle: () => ({}),
      }),
    ),
  };
  const instance = {
    definition,
    hooks,
    name: `${name}-routes`,
    onError: 'fail',
    timeoutMs: 0,
    builtIn: true,
  } as const;
  return compilePipeline({ name, match, plugins: [] }, [instance]);
}

const admin = pipeline('admin', { routes: 'contributed' }, [
  ['GET', '/logs/{id}'],
  ['GET', '/logs/groups/{by}'],
  ['DELETE', '/keys/{id}/parts/{part}'],
]);

describe('the table of routes', () => {
  const tables = {
    'one proxy': [admin, pipeline('proxy', { path: '/**' })],
    'several proxies': [
      admin,
      pipeline('chat', { path: '/chat/**', methods: ['POST'] }),
      pipeline('file', { path: '/files/*' }),
      pipeline('rest', { path: '/**' }),
    ],
    'meant for it': [admin, pipeline('logs', { path: '/logs/**' }), pipeline('proxy', {})],
    'proxy first': [pipeline('proxy', { path: '/**' }), admin],
    'no rest': [admin, pipeline('chat', { path: '/chat/**' })],
    'without routes': [pipeline('admin', { routes: 'contributed' }), pipeline('proxy', {})],
  };
  const cases: readonly [keyof typeof tables, string, string | undefined][] = [
    ['one proxy', 'GET /logs/7', 'admin GET /logs/{id} {"id":"7"}'],
    ['one proxy', 'GET /logs/a%2Fb', 'admin GET /logs/{id} {"id":"a%2Fb"}'],
    ['one proxy', 'GET /logs/groups/model', 'admin GET /logs/groups/{by} {"by":"model"}'],
    ['one proxy', 'DELETE /keys/1/parts/2', 'admin DELETE /keys/{id}/parts/{part} {"id":"1","part":"2"}'],
    ['one proxy', 'POST /logs/7', undefined],
    ['one proxy', 'GET /logs', undefined],
    ['one proxy', 'GET /logs/7/8', undefined],
    ['one proxy', 'POST //LOGS/7', undefined],
    ['one proxy', 'POST /%6cogs%2F7', undefined],
    ['one proxy', 'POST /v1/v1/logs/7', undefined],
    ['several proxies', 'POST /logs/7', undefined],
    ['proxy first', 'POST /logs/7', 'proxy'],
    ['meant for it', 'POST /logs/7', 'logs'],
    ['one proxy', 'PROPFIND /anything', 'proxy'],
    ['several proxies', 'POST /chat/completions', 'chat'],
    ['several proxies', 'GET /chat/completions', 'rest'],
    ['several proxies', 'POST /chat//completions', 'chat'],
    ['several proxies', 'POST /%63hat/completions', 'chat'],
    ['several proxies', 'POST /Chat/completions', 'chat'],
    ['several proxies', 'POST /chat%2Fcompletions', 'chat'],
    ['several proxies', 'GET /files/1', 'file'],
    ['several proxies', 'GET /files/1/content', 'rest'],
    ['several proxies', 'GET /logs/7', 'admin GET /logs/{id} {"id":"7"}'],
    ['proxy first', 'GET /logs/7', 'proxy'],
    ['no rest', 'GET /models', undefined],
    ['without routes', 'GET /models', 'proxy'],
  ];
  for (const [name, request, expected] of cases) {
    it(`${name}: ${request} → ${expected}`, () => {
      const [method = '', path = ''] = request.split(' ');
      const found = buildRouteTable(tables[name]).match(method, path, false);
      const route = found?.route ? ` ${found.route.id} ${JSON.stringify(found.params)}` : '';
      assert.equal(found && `${found.pipeline.name}${route}`, expected);
      if (found) assert.equal(found.path, path);
    });
  }

  it('/proxy/… leaves the contributed routes out', () => {
    const table = buildRouteTable(tables['one proxy']);
    assert.equal(table.match('GET', '/logs/7', true)?.pipeline.name, 'proxy');
    assert.equal(buildRouteTable([admin]).match('GET', '/logs/7', true), undefined);
  });

  it('a route that begins with a parameter is found', () => {
    const table = buildRouteTable([
      pipeline('any', { routes: 'contributed' }, [['GET', '/{kind}/list']]),
      pipeline('proxy', { path: '/**' }),
    ]);
    assert.deepEqual(table.match('GET', '/keys/list', false)?.params, { kind: 'keys' });
    assert.equal(table.match('GET', '/keys/other', false)?.pipeline.name, 'proxy');
  });

  it('a word is found before a parameter, whichever was contributed first', () => {
    const patterns: ['GET', string][] = [
      ['GET', '/users/{id}'],
      ['GET', '/users/{id}/keys'],
      ['GET', '/users/invites'],
      ['GET', '/users/invites/{invite}'],
    ];
    for (const routes of [patterns, [...patterns].reverse()]) {
      const table = buildRouteTable([pipeline('any', { routes: 'contributed' }, routes)]);
      const found = (path: string) => table.match('GET', path, false)?.params;
      assert.deepEqual(found('/users/invites'), {});
      assert.deepEqual(found('/users/ann'), { id: 'ann' });
      assert.deepEqual(found('/users/ann/keys'), { id: 'ann' });
      assert.deepEqual(found('/users/invites/7'), { invite: '7' });
    }
  });

  it('an endpoint is named for every match', () => {
    const table = buildRouteTable(tables['several proxies']);
    assert.equal(table.match('POST', '/chat/completions', false)?.endpoint.id, 'chat.completions');
    assert.equal(table.match('GET', '/models', false)?.endpoint.id, 'models');
  });

  it('two routes that cannot stand beside each other fail the build, not a request', () => {
    const clash = pipeline('clash', { routes: 'contributed' }, [
      ['GET', '/logs/{id}'],
      ['GET', '/logs/{other}/x'],
    ]);
    const { routes } = compilePipelines([clash]);
    assert.deepEqual(routes.match('GET', '/logs/1', false)?.params, { id: '1' });
    assert.deepEqual(routes.match('GET', '/logs/1/x', false)?.params, { other: '1' });
  });

  it('routes of plugins that are listed elsewhere go to the first pipeline for routes, once', () => {
    const own = pipeline('own', {}, [['GET', '/mine/{id}']]);
    const routes = compilePipelines([pipeline('admin', { routes: 'contributed' }), own, own]);
    assert.equal(routes.pipelines[0]?.routes.length, 1);
    const found = routes.routes.match('GET', '/mine/1', false);
    assert.deepEqual([found?.pipeline.name, found?.params], ['admin', { id: '1' }]);
    assert.equal(routes.routes.match('POST', '/mine/1', false), undefined);
    assert.equal(routes.routes.match('GET', '/mine/1', true)?.pipeline.name, 'own');
    const both = compilePipelines([own, pipeline('own', { routes: 'contributed' }, [['GET', '/mine/{id}']])]);
    assert.equal(both.pipelines[1]?.routes.length, 1);
  });
});
