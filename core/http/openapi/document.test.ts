import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { knownScopes } from '../../access/scopes.ts';
import { errorTable } from '../../errors/codes.ts';
import type { EndpointId } from '../../dialects/endpoint.ts';
import { matchEndpoint } from '../../dialects/match-endpoint.ts';
import { definePlugin, defineRoute, Type } from '../../pipeline/plugin.ts';
import { testScope } from '../../../tests/kit/plugin-kit.ts';
import { buildOpenApi } from './document.ts';
import {
  contributingPlugins,
  describedPipelines,
  issuesOf,
  objectsWithin,
  operationsIn,
  wholeDocument,
} from '../../../tests/kit/openapi-kit.ts';

const { document, compiled } = await wholeDocument();
const operations = operationsIn(document);
const server = { base_path: '/v1', header_prefix: 'x-service' };

/** What a reference points at, or undefined. */
function resolve(reference: string): unknown {
  return reference
    .slice(2)
    .split('/')
    .reduce<any>((value, name) => value?.[name], document);
}

describe('the document', () => {
  test('is that of the interface, under both of its bases', () => {
    assert.match(document.openapi, /^3\.1\./);
    assert.equal(document.info['version'], '2.0.0');
    assert.deepEqual(
      document.servers.map(({ url }) => url),
      ['/v1', '/'],
    );
    const bare = buildOpenApi(compiled, { ...server, base_path: '/' });
    assert.deepEqual(bare.servers, [{ url: '/' }]);
  });

  test('every reference leads somewhere', () => {
    let count = 0;
    for (const [path, { $ref: reference }] of objectsWithin(document)) {
      if (typeof reference !== 'string') continue;
      count++;
      assert.ok(reference.startsWith('#/components/'), `${path}: ${reference}`);
      assert.notEqual(resolve(reference), undefined, `${path}: ${reference}`);
    }
    assert.ok(count > 100);
  });

  test('operations have ids of their own, and say what they are for', () => {
    const ids = operations.map(({ operation }) => operation['operationId']);
    assert.deepEqual(
      ids.filter((id, index) => ids.indexOf(id) !== index),
      [],
    );
    const tags = new Set(document.tags.map(({ name }) => name));
    for (const { path, operation } of operations) {
      assert.ok(operation['summary'].length > 5, path);
      assert.ok(
        operation['tags'].every((tag: string) => tags.has(tag)),
        path,
      );
      assert.ok(Object.keys(operation['responses']).length > 0, path);
    }
  });

  test('parameters of a path are declared, each once', () => {
    for (const { path, method, operation } of operations) {
      const own = operation['parameters'].map((one: any) => (one.$ref ? resolve(one.$ref) : one));
      const names = own.map((one: any) => `${one.in}/${one.name}`);
      assert.equal(new Set(names).size, names.length, `${method} ${path}`);
      const declared = own.filter((one: any) => one.in === 'path');
      assert.ok(declared.every((one: any) => one.required === true));
      assert.deepEqual(
        declared.map((one: any) => one.name).sort(),
        [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort(),
        path,
      );
    }
  });

  test('words of our own stay at home, and every schema is one', () => {
    for (const [path, object] of objectsWithin(document)) {
      assert.ok(!('x-expected' in object), path);
      assert.ok(!('$defs' in object), path);
    }
    for (const schema of Object.values(document.components['schemas']!)) issuesOf(document, schema, null);
  });

  test('every example is valid', () => {
    let count = 0;
    for (const { path, method, operation } of operations) {
      const bodies = [operation['requestBody'], ...Object.values<any>(operation['responses'])];
      for (const { content = {} } of bodies.filter((body) => body !== undefined)) {
        for (const { schema, example } of Object.values<any>(content)) {
          if (example === undefined) continue;
          count++;
          assert.deepEqual(issuesOf(document, schema, example), [], `${method} ${path}`);
        }
      }
      for (const { schema, example, name } of operation['parameters']) {
        if (example === undefined) continue;
        count++;
        assert.deepEqual(issuesOf(document, schema, example), [], `${method} ${path} ${name}`);
      }
    }
    assert.ok(count > operations.length);
  });

  test('every error has examples of its shape for every code', () => {
    for (const response of Object.values<any>(document.components['responses']!)) {
      const { schema, examples } = response.content['application/json'];
      for (const { value } of Object.values<any>(examples))
        assert.deepEqual(issuesOf(document, schema, value), []);
    }
    const shown = Object.values<any>(document.components['responses']!).flatMap(({ content }) =>
      Object.keys(content['application/json'].examples),
    );
    const seen = Object.entries(errorTable).filter(([, { status }]) => status !== 499);
    assert.deepEqual(
      seen.map(([code]) => code).filter((code) => !shown.includes(code)),
      [],
    );
  });

  test('a stream says what its events hold, and headers that are too large are an answer', () => {
    const operations = operationsIn(document).map(({ operation }) => JSON.stringify(operation));
    for (const [id, event] of [
      ['chat.completions.create', 'ChatCompletionChunk'],
      ['completions.create', 'TextCompletion'],
      ['responses.create', 'ResponseEvent'],
      ['messages.create', 'MessageEvent'],
    ] as const) {
      const text = operations.find((one) => one.includes(`"operationId":"${id}"`)) ?? '';
      assert.ok(text.includes(`"contentSchema":{"$ref":"#/components/schemas/${event}"}`), id);
    }
    for (const text of operations)
      assert.ok(text.includes('"431":{"$ref":"#/components/responses/HeadersTooLarge"}'), text.slice(0, 80));
  });

  test('what can be asked of a response that is kept is there', () => {
    const kept = operations.filter(({ path }) => path.startsWith('/responses/'));
    assert.deepEqual(kept.map(({ path, method }) => `${method} ${path}`).sort(), [
      'delete /responses/{response_id}',
      'get /responses/{response_id}',
      'get /responses/{response_id}/input_items',
    ]);
  });

  test('JSON bodies have examples', () => {
    for (const { path, method, operation } of operations) {
      for (const body of [operation['requestBody'], operation['responses']['200']]) {
        const media = body?.content?.['application/json'];
        if (media !== undefined) assert.notEqual(media.example, undefined, `${method} ${path}`);
      }
    }
  });
});

describe('administration routes', () => {
  test('every route of the built-in plugins is there, with its scope, audit decision and example', async () => {
    const { scope } = testScope();
    let count = 0;
    for (const plugin of await contributingPlugins()) {
      for (const route of (await plugin.create({}, scope)).routes ?? []) {
        count++;
        const operation = document.paths[route.path]?.[route.method.toLowerCase()] as any;
        assert.equal(operation?.operationId, route.id);
        const scopes = typeof route.scope === 'string' ? [route.scope] : route.scope;
        assert.ok(
          // Every caller may ask who it is.
          (scopes.length > 0 || route.id === 'caller.get') &&
            scopes.every((scope) => knownScopes.has(scope) || route.identify !== undefined),
          route.id,
        );
        assert.ok(route.audit === null || /^[a-z_]+$/.test(route.audit), route.id);
        assert.deepEqual(operation['x-required-scope'], route.scope);
        assert.equal(operation['x-audit-action'], route.audit);
        assert.notEqual(
          operation.responses['200'].content[route.media ?? 'application/json'].example,
          undefined,
          route.id,
        );
        assert.ok(operation.responses['403'] && operation.responses['401'], route.id);
        const keys = route.identify === undefined ? [{ ServiceKey: [] }, { BearerKey: [] }] : [];
        assert.deepEqual(operation.security, keys);
      }
    }
    assert.ok(count >= 4);
  });

  test('what a route declares is what stands there', async () => {
    const route = defineRoute({
      id: 'things.update',
      method: 'PUT',
      path: '/things/{id}',
      summary: 'Changes a thing',
      scope: ['things.update', 'things.write'],
      audit: 'update',
      feature: 'scim',
      params: Type.Object({ id: Type.String({ description: 'Which.' }) }),
      query: Type.Object({ deep: Type.Optional(Type.Boolean({ default: false })), by: Type.Integer() }),
      body: Type.Object({ name: Type.String() }),
      reply: Type.Object({ count: Type.Integer() }),
      examples: { request: { name: 'weir' }, response: { count: 7 } },
      handle: () => ({ count: 1 }),
    });
    const shadowed = defineRoute({
      id: 'files.list',
      method: 'GET',
      path: '/files',
      summary: 'Files of our own',
      scope: 'files.list',
      audit: null,
      reply: Type.Object({}),
      handle: () => ({}),
    });
    const plugin = definePlugin({ name: 'own', create: () => ({ routes: [route, shadowed] }) });
    const described = buildOpenApi(
      await describedPipelines([
        { match: { routes: 'contributed' }, plugins: [plugin] },
        { match: {}, plugins: [] },
      ]),
      server,
    );
    const { put } = described.paths['/things/{id}'] as any;
    assert.equal(
      put.description,
      'Needs the scope `things.update` or `things.write`. Stands in the audit log. Refused while `SCIM_ENABLED` is `OFF`.',
    );
    assert.deepEqual(
      put.parameters.map((one: any) => [one.in, one.name, one.required, one.example]),
      [
        ['path', 'id', true, 'id'],
        ['query', 'deep', false, false],
        ['query', 'by', true, 1],
        ['header', 'if-match', false, '"3"'],
      ],
    );
    assert.equal(put.parameters[0].description, 'Which.');
    assert.deepEqual(put.requestBody.content['application/json'].example, { name: 'weir' });
    assert.deepEqual(put.responses['200'].content['application/json'].example, { count: 7 });
    const { get, post } = described.paths['/files'] as any;
    assert.deepEqual([get.summary, post.summary], ['Files of our own', 'Uploads a file']);
  });
});

describe('endpoints of providers', () => {
  const routed = operations.filter(({ operation }) => 'x-endpoint' in operation);

  test('every endpoint that the gateway tells apart is there, under a path that leads to it', () => {
    const known: Record<EndpointId, true> = {
      'chat.completions': true,
      completions: true,
      embeddings: true,
      moderations: true,
      responses: true,
      messages: true,
      'messages.count_tokens': true,
      'generate-content': true,
      rerank: true,
      'images.generations': true,
      images: true,
      'audio.speech': true,
      audio: true,
      files: true,
      'fine_tuning.jobs': true,
      batches: true,
      models: true,
      realtime: true,
      mcp: true,
      proxy: true,
    };
    for (const { path, method, operation } of routed) {
      const found = matchEndpoint(method.toUpperCase(), path.replaceAll(/[{}]/g, ''));
      assert.equal(operation['x-endpoint'], found.id, path);
    }
    assert.deepEqual(
      new Set(routed.map(({ operation }) => operation['x-endpoint'])),
      new Set(Object.keys(known)),
    );
  });

  test('only what a pipeline takes', async () => {
    const chat = await describedPipelines([{ match: { path: '/chat/**', methods: ['POST'] }, plugins: [] }]);
    const paths = Object.keys(buildOpenApi(chat, server).paths).filter(
      (path) => !/^\/\w+(\.json)?$/.test(path),
    );
    assert.deepEqual(paths, ['/chat/completions']);
  });

  test('what is going away says so', () => {
    const { ChatCompletionRequest: request } = document.components['schemas'] as any;
    const gone = Object.entries<any>(request.properties).filter(([, { deprecated }]) => deprecated === true);
    assert.deepEqual(gone.map(([name]) => name).sort(), ['function_call', 'functions', 'max_tokens']);
    const parameters = Object.values<any>(document.components['parameters']!);
    assert.deepEqual(
      parameters.filter(({ deprecated }) => deprecated === true).map(({ name }) => name),
      ['x-service-virtual-key'],
    );
  });

  test('chat requests within and beyond their limits', () => {
    const schema = { $ref: '#/components/schemas/ChatCompletionRequest' };
    const least = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] };
    const chat = (extra: object) => issuesOf(document, schema, { ...least, ...extra }).length === 0;
    const tool = { type: 'function', function: { name: 'f' } };
    for (const extra of [
      ...[{}, { n: 128 }, { temperature: 2 }, { top_p: 0 }, { frequency_penalty: -2 }, { stop: ['a'] }],
      ...[{ logprobs: true, top_logprobs: 20 }, { stream: true, stream_options: {} }, { unknown: 1 }],
      ...[{ logit_bias: { 5: -100 } }, { tools: Array(128).fill(tool) }, { tool_choice: 'required' }],
    ])
      assert.ok(chat(extra), JSON.stringify(extra).slice(0, 60));
    for (const extra of [
      ...[{ messages: [] }, { model: undefined }, { n: 129 }, { n: 0 }, { temperature: 2.1 }, { top_p: 1.1 }],
      ...[{ presence_penalty: 3 }, { stop: ['a', 'b', 'c', 'd', 'e'] }, { top_logprobs: 1 }],
      ...[{ logprobs: true, top_logprobs: 21 }, { stream_options: {} }, { logit_bias: { 5: 101 } }],
      ...[{ tools: Array(129).fill(tool) }, { functions: [] }, { messages: [{ role: 'robot' }] }],
    ])
      assert.ok(!chat(extra), JSON.stringify(extra).slice(0, 60));
  });

  test('headers stand under the prefix of the server', () => {
    const own = buildOpenApi(compiled, { ...server, header_prefix: 'x-acme' });
    const { parameters, headers, securitySchemes } = own.components as any;
    assert.equal(parameters['Header.provider'].name, 'x-acme-provider');
    assert.ok('x-acme-request-id' in headers);
    assert.equal(securitySchemes.ServiceKey.name, 'x-acme-api-key');
    assert.ok(!JSON.stringify(own).includes('x-service-'));
  });
});
