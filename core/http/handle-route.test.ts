import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { readFeatures } from '../access/features.ts';
import { callerKey } from '../pipeline/keys.ts';
import { definePlugin, defineRoute, GatewayError, Type } from '../pipeline/plugin.ts';
import type { KeyRecord } from '../ports/directory.ts';
import type { AuditEntry, Resources, ResourcesWriter } from '../ports/resources.ts';
import type { RouteDefinition } from '../pipeline/define-route.ts';
import { startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';

const strict = { additionalProperties: false };

const routes = [
  defineRoute({
    id: 'things.get',
    method: 'GET',
    path: '/things/{id}',
    summary: '',
    scope: 'things.view',
    audit: null,
    params: Type.Object({ id: Type.String({ maxLength: 20 }) }),
    query: Type.Object(
      {
        limit: Type.Integer({ default: 20, maximum: 100 }),
        deep: Type.Optional(Type.Boolean()),
        tags: Type.Optional(Type.String()),
      },
      strict,
    ),
    reply: Type.Object({ id: Type.String(), key: Type.String(), query: Type.Unknown() }),
    handle: ({ params, query, key }) => ({ id: params.id, key: key.name, query }),
  }),
  defineRoute({
    id: 'things.create',
    method: 'POST',
    path: '/things',
    summary: '',
    scope: 'things.create',
    audit: 'create',
    body: Type.Object({ name: Type.String(), size: Type.Optional(Type.Integer()) }, strict),
    reply: Type.Object({ created: Type.String() }),
    handle: async ({ body }) => ({ created: body.name }),
  }),
  defineRoute({
    id: 'things.fail',
    method: 'DELETE',
    path: '/things/{id}',
    summary: '',
    scope: 'things.view',
    audit: 'delete',
    reply: Type.Object({}),
    handle: ({ context }): Record<string, never> => {
      if (context.query === '?known') throw new GatewayError('resource_not_found', 'There is no such thing.');
      throw new TypeError('a secret');
    },
  }),
  defineRoute({
    id: 'things.wrong',
    method: 'PUT',
    path: '/things',
    summary: '',
    scope: 'things.view',
    audit: null,
    reply: Type.Object({ count: Type.Integer() }),
    handle: () => ({ count: 'many' }) as unknown as { count: number },
  }),
];

async function administration(
  t: TestContext,
  key: KeyRecord | undefined = testKey({ name: 'ann' }),
  contributed: readonly RouteDefinition[] = routes,
  resources?: Resources,
  off: Readonly<Record<string, 'OFF'>> = {},
) {
  const admin = definePlugin({
    name: 'admin',
    create: () => ({
      request(context) {
        if (key !== undefined && context.header('x-nobody') === undefined) context.set(callerKey, key);
      },
      routes: contributed,
    }),
  });
  return startTestGateway(t, {
    ...(resources !== undefined && { resources }),
    features: readFeatures(off),
    pipelines: [{ match: { routes: 'contributed' }, plugins: [admin] }],
  });
}

/** A store that only remembers what is audited. */
function auditing() {
  const appended: string[] = [];
  const audit = {
    append: ({ action, resourceId }: AuditEntry) =>
      Promise.resolve(void appended.push(`${action} ${resourceId}`)),
  };
  const resources: Partial<Resources> = {
    write: (_, work) => work({ audit } as unknown as ResourcesWriter),
  };
  return { appended, resources: resources as Resources };
}

/** A route that changes one record, or with `?by-itself` nothing of the store. */
function changing(id: string, method: 'PUT' | 'POST' | 'DELETE', action: string | null) {
  return defineRoute({
    id,
    method,
    path: '/change',
    summary: '',
    scope: 'things.view',
    audit: action,
    reply: Type.Object({}),
    handle: ({ write, context }) =>
      context.query === '?by-itself' ? {} : write(() => Promise.resolve({ id: 'one', result: {} })),
  });
}

describe('administration routes', () => {
  test('parameters, query with defaults, and the key reach the handler; the reply is JSON', async (t) => {
    const gateway = await administration(t);
    const answer = await send(gateway.url, { path: '/v1/things/a%2Fb?deep=true&tags=x&tags[]=y' });
    assert.equal(answer.status, 200);
    assert.equal(answer.headers['content-type'], 'application/json');
    assert.deepEqual(answer.json(), {
      id: 'a/b',
      key: 'ann',
      query: { limit: 20, deep: true, tags: 'x,y' },
    });
    assert.equal(answer.headers['x-service-request-id'], (await gateway.untilSettled()).id);
  });

  test('a body', async (t) => {
    const { url } = await administration(t);
    const answer = await send(url, { path: '/things', body: { name: 'one', size: 3 } });
    assert.deepEqual([answer.status, answer.json()], [200, { created: 'one' }]);
  });

  const refused: readonly [
    name: string,
    request: Parameters<typeof send>[1],
    status: number,
    errorCode: string,
    message: RegExp,
  ][] = [
    ['no key', { path: '/things/1', headers: { 'x-nobody': '1' } }, 401, 'AB05', /needs a service key/],
    ['an unknown query', { path: '/things/1?limt=3' }, 400, 'AB01', /query is not valid.*limt/],
    ['a query out of range', { path: '/things/1?limit=101' }, 400, 'AB01', /limit/],
    ['a query of the wrong kind', { path: '/things/1?limit=x' }, 400, 'AB01', /limit/],
    ['a name of every object as query', { path: '/things/1?constructor=1' }, 400, 'AB01', /constructor/],
    ['a parameter', { path: `/things/${'x'.repeat(21)}` }, 400, 'AB01', /path is not valid/],
    ['a broken escape', { path: '/things/%zz' }, 400, 'AB01', /broken percent-encoding in "id"/],
    ['no JSON', { path: '/things', body: '{' }, 400, 'AB01', /no valid JSON/],
    ['an empty body', { path: '/things', method: 'POST' }, 400, 'AB01', /missing key "name"/],
    ['a wrong body', { path: '/things', body: { name: 1 } }, 400, 'AB01', /body is not valid.*name/],
    [
      'a body is not coerced',
      { path: '/things', body: { name: 'x', size: '3' } },
      400,
      'AB01',
      /body is not valid.*size/,
    ],
    ['an error of the handler', { path: '/things/1?known', method: 'DELETE' }, 404, 'AB08', /no such thing/],
  ];
  for (const [name, request, status, errorCode, message] of refused) {
    test(`${name}: ${status}`, async (t) => {
      const { url } = await administration(t);
      const answer = await send(url, request);
      assert.equal(answer.status, status);
      const { success, data, errors, ...more } = answer.json();
      assert.deepEqual([success, data.errorCode, more], [false, errorCode, {}]);
      for (const error of errors ?? []) assert.deepEqual(Object.keys(error), ['path', 'message']);
      assert.match(data.message, message);
      assert.ok(answer.headers['x-service-request-id']);
    });
  }

  test('a key without the scope: 403; with it, or with all: 200', async (t) => {
    const { url } = await administration(t, testKey({ name: 'ann', scopes: ['other.view'] }));
    const answer = await send(url, { path: '/things/1' });
    assert.deepEqual([answer.status, answer.json().data.errorCode], [403, 'AB03']);
    assert.match(answer.json().data.message, /"ann" lacks the scope "things\.view"/);
    const scoped = await administration(t, testKey({ scopes: ['things.view'] }));
    assert.equal((await send(scoped.url, { path: '/things/1' })).status, 200);
  });

  test('an unexpected failure tells nothing to the client and all to the log', async (t) => {
    const gateway = await administration(t);
    const answer = await send(gateway.url, { path: '/things/1', method: 'DELETE' });
    assert.deepEqual([answer.status, answer.json().success], [500, false]);
    assert.doesNotMatch(answer.text, /secret/);
    const { id } = await gateway.untilSettled();
    const line = gateway.lines.find(({ level }) => level === 'error');
    assert.equal(line?.fields['request'], id);
    assert.match(String(line?.fields['error']), /a secret/);
  });

  test('a reply outside of its schema is held back', async (t) => {
    const gateway = await administration(t);
    const answer = await send(gateway.url, { path: '/things', method: 'PUT' });
    assert.equal(answer.status, 500);
    assert.doesNotMatch(answer.text, /many/);
    assert.match(gateway.lines.map(({ message }) => message).join(), /outside of its schema/);
  });

  test('several scopes: any one of them lets in, and all are named when none is there', async (t) => {
    const either = defineRoute({
      id: 'things.either',
      method: 'GET',
      path: '/either',
      summary: '',
      scope: ['a.view', 'b.view'],
      audit: null,
      reply: Type.Object({}),
      handle: () => ({}),
    });
    const ask = async (...scopes: string[]) => {
      const { url } = await administration(t, testKey({ name: 'ann', scopes }), [either]);
      return send(url, { path: '/either' });
    };
    assert.equal((await ask('b.view')).status, 200);
    const refusal = await ask('c.view');
    assert.equal(refusal.status, 403);
    assert.match(refusal.json().data.message, /lacks the scope "a\.view" or "b\.view"/);
  });

  test('what changes something is audited, once, and a route that does not say so cannot', async (t) => {
    const { appended, resources } = auditing();
    const all = [
      changing('a.a', 'PUT', 'update'),
      changing('a.b', 'POST', 'create'),
      changing('a.c', 'DELETE', null),
    ];
    const { url } = await administration(t, testKey(), all, resources);
    assert.equal((await send(url, { path: '/change', method: 'PUT' })).status, 200);
    assert.equal((await send(url, { path: '/change?by-itself', method: 'POST' })).status, 200);
    assert.equal((await send(url, { path: '/change', method: 'DELETE' })).status, 500);
    assert.deepEqual(appended, ['update one', 'create ']);
  });

  test('without an audit trail, changes are made and nothing is written down', async (t) => {
    const { appended, resources } = auditing();
    const all = [changing('a.a', 'PUT', 'update'), changing('a.b', 'POST', 'create')];
    const off = { AUDIT_LOGS_ENABLED: 'OFF' } as const;
    const { url } = await administration(t, testKey(), all, resources, off);
    assert.equal((await send(url, { path: '/change', method: 'PUT' })).status, 200);
    assert.equal((await send(url, { path: '/change?by-itself', method: 'POST' })).status, 200);
    assert.deepEqual(appended, []);
  });

  const scim = defineRoute({
    id: 'scim.list',
    method: 'GET',
    path: '/scim',
    summary: '',
    scope: 'things.view',
    feature: 'scim',
    audit: null,
    reply: Type.Object({}),
    handle: () => ({}),
  });
  const switches: readonly [variable: string, path: string, status: number, message: RegExp][] = [
    ['SCIM_ENABLED', '/scim', 403, /^This route is switched off: SCIM_ENABLED is OFF\. Set it to ON/],
    ['SCIM_ENABLED', '/things/1', 200, /^$/],
    [
      'API_ACCESS_ENABLED',
      '/scim',
      403,
      /^The administration API is switched off: API_ACCESS_ENABLED is OFF/,
    ],
    ['API_ACCESS_ENABLED', '/things/1', 403, /^The administration API is switched off/],
    ['DATA_EXPORTS_ENABLED', '/scim', 200, /^$/],
  ];
  for (const [variable, path, status, message] of switches) {
    test(`${variable}=OFF: ${path} ${status}`, async (t) => {
      const all = [...routes, scim];
      const { url } = await administration(t, testKey(), all, undefined, { [variable]: 'OFF' });
      const answer = await send(url, { path });
      assert.equal(answer.status, status);
      assert.match(answer.json().data?.message ?? '', message);
      // feature_disabled
      if (status === 403) assert.equal(answer.json().data.errorCode, 'AB03');
    });
  }
});
