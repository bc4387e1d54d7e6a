import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import { openTestResources, startAdministration } from '../../../tests/kit/administration-kit.ts';
import { startUpstream } from '../../../tests/kit/http-kit.ts';
import { openTestDirectory, type OpenedDirectory } from '../../../tests/kit/live-directory-kit.ts';
import { ok } from '../../../tests/kit/routing-kit.ts';

let opened: OpenedDirectory;
const closing: (() => Promise<void>)[] = [];
before(async () => {
  const closer = { after: (close: () => Promise<void>) => void closing.push(close) };
  opened = await openTestDirectory(closer, await openTestResources(closer));
});
after(async () => {
  for (const close of closing.reverse()) await close();
});

const held = 'sk-held-in-the-file-0123456789';

async function explaining(t: TestContext) {
  const upstream = await startUpstream(t, ok);
  const administration = await startAdministration(t, opened.resources, {
    directory: opened.directory,
    providers: {
      first: { base_url: `${upstream.url}/v1`, api_key: held },
      second: { base_url: `${upstream.url}/v1`, api_key: held },
    },
  });
  const tenant = await administration.tenant('explained');
  const service = tenant.key({ kind: 'workspace-service', name: 'service', scopes: ['*'] });
  const explain = (body: object, key = service) =>
    administration.call(key, { path: '/configs/explain', body });
  return { ...administration, upstream, tenant, service, explain };
}

const fallback = {
  strategy: { mode: 'fallback', on_status_codes: [503] },
  targets: [
    { provider: '@first', retry: { attempts: 1 }, override_params: { model: 'large' } },
    { name: 'last resort', provider: '@second' },
  ],
};

describe('explaining a config without sending anything', () => {
  test('tells the targets in the order of trying, and what leads from one to the next', async (t) => {
    const { explain, upstream } = await explaining(t);
    const answer = await explain({ config: fallback, request: { body: { model: 'small', messages: [] } } });
    assert.equal(answer.status, 200, answer.text);
    const { data } = answer.json();
    assert.deepEqual(
      data.tries.map((one: any) => [one.option, one.name, one.provider, one.model, one.problem]),
      [
        ['config.targets[0]', null, 'first', 'large', null],
        ['config.targets[1]', 'last resort', 'second', 'small', null],
      ],
    );
    assert.deepEqual(data.tries[0].on_failure, [
      { statuses: [503], by: 'config', then: 'config.targets[1]' },
    ]);
    assert.deepEqual(data.tries[0].params, { set: { model: 'large' }, removed: [] });
    assert.deepEqual(
      data.branches.map((one: any) => [one.path, one.mode, one.random]),
      [['config', 'fallback', false]],
    );
    assert.equal(upstream.requests.length, 0);
    assert.ok(!answer.text.includes(held) && !answer.text.includes('127.0.0.1'), answer.text);
  });

  test('reads metadata and body for conditions, and knows the caller', async (t) => {
    const { explain, service } = await explaining(t);
    const config = {
      strategy: {
        mode: 'conditional',
        conditions: [
          { query: { 'metadata.plan': 'paid' }, then: 'paid' },
          { query: { 'api_key.id': service.id }, then: 'mine' },
        ],
        default: 'free',
      },
      targets: ['paid', 'mine', 'free'].map((name) => ({ name, provider: '@first' })),
    };
    const goes = async (headers: object): Promise<unknown> => {
      const answer = await explain({ config, request: { headers, body: { model: 'm' } } });
      assert.equal(answer.status, 200, answer.text);
      return answer.json().data.tries[0].name;
    };
    assert.equal(await goes({ 'x-service-metadata': '{"plan":"paid"}' }), 'paid');
    assert.equal(await goes({}), 'mine');
  });

  test('a config as text, a saved one by its own slug, and faults with their places', async (t) => {
    const { explain, call, service } = await explaining(t);
    const asText = await explain({ config: JSON.stringify(fallback) });
    assert.equal(asText.json().data.tries.length, 2, asText.text);
    const saved = await call(service, { path: '/configs', body: { name: 'One', config: fallback } });
    const { slug } = saved.json().data;
    const nested = await explain({ config: { targets: [{ config: slug }] } });
    assert.equal(nested.json().data.tries[0].provider, 'first', nested.text);
    const circle = await explain({ config: { targets: [{ config: slug }] }, slug });
    assert.equal(circle.status, 400, circle.text);
    const broken = await explain({ config: { ...fallback, targets: [{ provider: '@frist' }] } });
    assert.equal(broken.status, 400, broken.text);
    assert.equal(broken.json().errors[0].path, '/config/targets/0/provider');
  });

  test('a request that would be refused, and one that cannot be read', async (t) => {
    const { explain } = await explaining(t);
    const strategy = { mode: 'conditional', conditions: [{ query: { 'metadata.a': 'b' }, then: 'x' }] };
    const config = { strategy, targets: [{ name: 'x', provider: '@first' }] };
    const refused = await explain({ config, request: { body: { model: 'm' } } });
    assert.equal(refused.status, 200, refused.text);
    assert.equal(refused.json().data.tries.length, 0);
    assert.equal(typeof refused.json().data.refused.code, 'string');
    for (const request of [
      { path: 'no-slash' },
      { headers: { 'a b': 'c' } },
      { method: 'P O' },
      { more: 1 },
    ]) {
      const answer = await explain({ config, request });
      assert.equal(answer.status, 400, `${JSON.stringify(request)} ${answer.text}`);
    }
  });

  test('needs the right to read configs', async (t) => {
    const { explain, tenant } = await explaining(t);
    const key = tenant.key({ kind: 'workspace-service', name: 'logs', scopes: ['logs.view'] });
    assert.equal((await explain({ config: fallback }, key)).status, 403);
  });
});

test('the schema of configs is one that editors read', async (t) => {
  const { call, service } = await explaining(t);
  const answer = await call(service, { method: 'GET', path: '/configs/schema' });
  assert.equal(answer.status, 200, answer.text);
  const schema = answer.json();
  assert.equal(schema.$ref, '#/$defs/RouteConfig');
  assert.equal(schema.$defs.RouteConfig.properties.targets.items.$ref, '#/$defs/RouteConfig');
});
