import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { send, startUpstream, type Answering } from '../../tests/kit/http-kit.ts';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';

const json =
  (value: unknown, status = 200): Answering =>
  (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(value));
  };
const models = async (url: string, headers: Record<string, string> = {}) =>
  send(url, { method: 'GET', path: '/v1/models', headers });

describe('GET /models', () => {
  test('without a provider: the models of all configured ones, and who could not be asked', async (t) => {
    const chat = await startUpstream(t, json({ data: [{ id: 'gpt-x', created: 7, owned_by: 'org' }] }));
    const gemini = await startUpstream(t, json({ models: [{ name: 'models/gemini-x' }] }));
    const broken = await startUpstream(t, json({ error: 'no' }, 500));
    const gateway = await startTestGateway(t, {
      plugins: [providerPlugin()],
      providers: {
        chat: { base_url: `${chat.url}/v1`, api_key: 'sk-held' },
        gem: { dialect: 'google-gemini', base_url: gemini.url, credentials: 'x-goog-api-key', api_key: 'g' },
        broken: { base_url: broken.url },
      },
    });
    const { status, text } = await models(gateway.url);
    assert.equal(status, 200);
    assert.deepEqual(JSON.parse(text), {
      object: 'list',
      data: [
        { id: '@chat/gpt-x', object: 'model', created: 7, owned_by: 'org' },
        { id: '@gem/gemini-x', object: 'model', created: 0, owned_by: 'gem' },
      ],
      unavailable: ['broken'],
    });
    assert.equal(chat.requests.at(-1)?.headers['authorization'], 'Bearer sk-held');
    assert.equal(gemini.requests.at(-1)?.url, '/v1beta/models?pageSize=1000');
    assert.equal(gemini.requests.at(-1)?.headers['x-goog-api-key'], 'g');
    await models(gateway.url);
    assert.equal(chat.requests.length, 1, 'the list is kept');
  });

  test('with a provider: its own list as it is, or in the known shape where it stands elsewhere', async (t) => {
    const own = { data: [{ id: 'a', extra: 1 }] };
    const chat = await startUpstream(t, json(own));
    const cohere = await startUpstream(t, json({ models: [{ name: 'command-x' }] }));
    const gateway = await startTestGateway(t, {
      plugins: [providerPlugin()],
      providers: {
        chat: { base_url: `${chat.url}/v1` },
        co: { dialect: 'cohere-v2', base_url: cohere.url, api_key: 'c' },
      },
    });
    assert.deepEqual(JSON.parse((await models(gateway.url, { 'x-service-provider': '@chat' })).text), own);
    assert.deepEqual(JSON.parse((await models(gateway.url, { 'x-service-provider': '@co' })).text), {
      object: 'list',
      data: [{ id: 'command-x', object: 'model', created: 0, owned_by: 'co' }],
    });
    const all = await models(gateway.url, {
      'x-service-provider': '@chat',
      'x-service-fetch-integrated-models': 'true',
    });
    assert.deepEqual(
      (JSON.parse(all.text) as { data: { id: string }[] }).data.map(({ id }) => id),
      ['@chat/a', '@co/command-x'],
    );
  });
});

/** What each client sends, and how it reads the answer. */
const clients = {
  openai: { path: '/v1/models', headers: {}, ids: (body: Listed) => body.data?.map(({ id }) => id) },
  anthropic: {
    path: '/v1/models',
    headers: { 'anthropic-version': '2023-06-01' },
    ids: (body: Listed) => body.data?.map(({ id, type }) => (type === 'model' ? id : 'no model')),
  },
  gemini: {
    path: '/v1beta/models',
    headers: {},
    ids: (body: Listed) => body.models?.map(({ name }) => name.replace(/^models\//, '')),
  },
  'gemini by its key': {
    path: '/v1/models',
    headers: { 'x-goog-api-key': 'k' },
    ids: (body: Listed) => body.models?.map(({ name }) => name.replace(/^models\//, '')),
  },
};
interface Listed {
  readonly data?: readonly { readonly id: string; readonly type?: string }[];
  readonly models?: readonly { readonly name: string }[];
  readonly has_more?: boolean;
  readonly last_id?: string;
  readonly nextPageToken?: string;
}

describe('models in the shape of each client', () => {
  const hosts = {
    chat: {
      list: {
        object: 'list',
        data: [
          { id: 'a', object: 'model', created: 5 },
          { id: 'b', object: 'model' },
        ],
      },
      one: { id: 'a', object: 'model', created: 5 },
    },
    claude: {
      list: {
        data: [
          { type: 'model', id: 'a' },
          { type: 'model', id: 'b' },
        ],
        has_more: false,
      },
      one: { type: 'model', id: 'a' },
    },
    gem: { list: { models: [{ name: 'models/a' }, { name: 'models/b' }] }, one: { name: 'models/a' } },
    co: { list: { models: [{ name: 'a' }, { name: 'b' }] }, one: { name: 'a' } },
  };
  const dialects = {
    chat: 'openai-chat',
    claude: 'anthropic-messages',
    gem: 'google-gemini',
    co: 'cohere-v2',
  } as const;

  async function started(t: TestContext, options: Record<string, unknown> = {}) {
    const providers: Record<string, object> = {};
    const seen: string[] = [];
    for (const [name, { list, one }] of Object.entries(hosts)) {
      const host = await startUpstream(t, (request, response, body) => {
        seen.push(request.url ?? '');
        json(/models\/a/.test(request.url ?? '') ? one : list)(request, response, body);
      });
      const dialect = dialects[name as keyof typeof dialects];
      providers[name] = { dialect, base_url: host.url, api_key: 'k' };
    }
    const gateway = await startTestGateway(t, { plugins: [providerPlugin(options)], providers });
    const ask = async (path: string, headers: Record<string, string>) => {
      const { status, text } = await send(gateway.url, { method: 'GET', path, headers });
      return { status, body: JSON.parse(text) as Listed & { id?: string; name?: string } };
    };
    return { ask, seen };
  }

  for (const [client, { path, headers, ids }] of Object.entries(clients)) {
    for (const host of Object.keys(hosts))
      test(`${client} asks ${host}`, async (t) => {
        const { ask } = await started(t);
        const named = { ...headers, 'x-service-provider': `@${host}` };
        assert.deepEqual(ids((await ask(path, named)).body), ['a', 'b']);
        if (host === 'co' && client === 'openai') return;
        const { status, body } = await ask(`${path}/a`, named);
        assert.deepEqual([status, (body.id ?? body.name)?.replace('models/', '')], [200, 'a']);
        assert.equal(body.name !== undefined, client.startsWith('gemini'));
      });

    test(`${client} asks for the catalogue, for a page of it, and for one model`, async (t) => {
      const { ask } = await started(t);
      const all = Object.keys(hosts).flatMap((host) => [`@${host}/a`, `@${host}/b`]);
      assert.deepEqual(ids((await ask(path, headers)).body)?.toSorted(), all.toSorted());
      for (const id of ['@chat/a', encodeURIComponent('@gem/b')]) {
        const { status, body } = await ask(`${path}/${id}`, headers);
        assert.equal(status, 200);
        assert.equal((body.id ?? body.name)?.replace('models/', ''), decodeURIComponent(id));
      }
      const missing = await ask(`${path}/@chat/none`, headers);
      assert.equal(missing.status, 404);
    });
  }

  test('pages of Anthropic and Gemini clients hold each model once', async (t) => {
    const { ask } = await started(t);
    const ofAnthropic: string[] = [];
    for (let after = '', more: boolean | undefined = true; more === true && ofAnthropic.length < 20;) {
      const { headers, ids } = clients.anthropic;
      const { body } = await ask(`/v1/models?limit=3${after}`, headers);
      ofAnthropic.push(...(ids(body) ?? []));
      after = `&after_id=${encodeURIComponent(body.last_id ?? '')}`;
      more = body.has_more;
    }
    const ofGemini: string[] = [];
    for (let token: string | undefined = ''; token !== undefined && ofGemini.length < 20;) {
      const { body } = await ask(`/v1beta/models?pageSize=3&pageToken=${token}`, {});
      ofGemini.push(...(clients.gemini.ids(body) ?? []));
      token = body.nextPageToken;
    }
    assert.equal(new Set(ofAnthropic).size, 8);
    assert.deepEqual(ofAnthropic, ofGemini);
    for (const query of ['limit=0', 'after_id=none', 'limit=x'])
      assert.equal((await ask(`/v1/models?${query}`, clients.anthropic.headers)).status, 400, query);
    for (const query of ['pageSize=0', 'pageToken=x'])
      assert.equal((await ask(`/v1beta/models?${query}`, {})).status, 400, query);
  });

  test("a caller's own credential is sent where its list is fetched", async (t) => {
    const host = await startUpstream(t, json({ data: [{ id: 'a' }] }));
    const gateway = await startTestGateway(t, {
      plugins: [providerPlugin()],
      table: new Map([['open', { base_url: host.url }]]),
    });
    const { status } = await send(gateway.url, {
      method: 'GET',
      path: '/v1/models',
      headers: { ...clients.anthropic.headers, 'x-service-provider': 'open', authorization: 'Bearer sk-own' },
    });
    assert.deepEqual([status, host.requests[0]?.headers['authorization']], [200, 'Bearer sk-own']);
  });

  test('the built-in provider as default: its models by bare and by addressed name, beside those of all others', async (t) => {
    const { ask } = await started(t, { default: 'mock' });
    const found = clients.openai.ids((await ask('/v1/models', {})).body) ?? [];
    for (const id of ['mock-gpt', '@mock/mock-gpt', '@chat/a', '@gem/b']) assert.ok(found.includes(id), id);
    assert.equal(new Set(found).size, found.length);
    const { ask: other } = await started(t, { default: '@chat' });
    assert.deepEqual((await other('/v1/models', {})).body, hosts.chat.list);
  });
});
