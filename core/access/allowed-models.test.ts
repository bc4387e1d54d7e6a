import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { KeyRecord } from '../ports/directory.ts';
import type { WorkspaceDefaults } from '../ports/resources.ts';
import auth from '../../plugins/auth/index.ts';
import { providerPlugin } from '../../tests/kit/gateway-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import { routed } from '../../tests/kit/routing-kit.ts';

const secret = 'wk_0123456789abcdef';
const chat = (model: string) => ({ model, messages: [{ role: 'user', content: 'hi' }] });

async function started(
  t: Parameters<typeof routed>[0],
  allowed: readonly string[] | undefined,
  own?: WorkspaceDefaults,
) {
  const key: Partial<KeyRecord> = allowed === undefined ? {} : { defaults: { allowedModels: allowed } };
  const { gateway, upstream } = await routed(t, {
    configs: { cheap: { provider: '@held', override_params: { model: 'cheap-1' } } },
    keys: { [secret]: testKey(key) },
    directory: { defaultsOf: () => (own === undefined ? {} : { own }) },
    plugins: [auth, providerPlugin({ default: '@held' })],
    answer: (_request, response) => void response.end('{"data":[{"id":"gpt-4o"},{"id":"other"}]}'),
  });
  const ask = (request: NonNullable<Parameters<typeof send>[1]>) =>
    send(gateway.url, { ...request, headers: { 'x-service-api-key': secret, ...request.headers } });
  const model = (name: string, headers = {}) =>
    ask({ path: '/v1/chat/completions', headers, body: chat(name) });
  return { ask, model, upstream };
}

const codeOf = (answer: { status: number; json(): { error?: { code: string; message: string } } }) =>
  answer.status === 200 ? 200 : answer.json().error?.code;

describe('the models that a key allows', () => {
  test('may be asked for, with or without the slug of a provider, and others not', async (t) => {
    const { model, upstream } = await started(t, ['gpt-4o', 'claude-*']);
    for (const name of ['gpt-4o', '@held/gpt-4o', 'claude-3'])
      assert.equal((await model(name)).status, 200, name);
    for (const name of ['gpt-4', 'xgpt-4o', 'claude', '@held/other'])
      assert.equal(codeOf(await model(name)), 'model_not_allowed', name);
    assert.equal(upstream.requests.length, 3);
    const refused = await model('gpt-4p');
    assert.equal(refused.status, 403);
    assert.match(
      refused.json().error?.message ?? '',
      /service key "first key".*"gpt-4p".*Did you mean "gpt-4o"/,
    );
  });

  test('bind requests whose bodies are not read otherwise, and those that name no model', async (t) => {
    const { ask, upstream } = await started(t, ['gpt-4o']);
    const job = (model: string) => ask({ path: '/v1/fine_tuning/jobs', body: { model, training_file: 'f' } });
    assert.equal(codeOf(await job('other')), 'model_not_allowed');
    assert.equal(codeOf(await job('gpt-4o')), 200);
    const batch = await ask({
      path: '/v1/batches',
      body: { input_file_id: 'f', endpoint: '/v1/chat/completions' },
    });
    assert.match(batch.json().error?.message ?? '', /models of a batch stand in its file/);
    // An upload runs no model.
    assert.equal(codeOf(await ask({ path: '/v1/files', body: { purpose: 'batch' } })), 200);
    assert.equal(upstream.requests.length, 2);
  });

  test('hold for saved configs as requests name the model, and forbid configs of the request', async (t) => {
    const { model, upstream } = await started(t, ['gpt-4o']);
    assert.equal(codeOf(await model('gpt-4o', { 'x-service-config': 'cheap' })), 200);
    assert.equal(codeOf(await model('cheap-1', { 'x-service-config': 'cheap' })), 'model_not_allowed');
    const own = JSON.stringify({ provider: '@held', override_params: { model: 'other' } });
    assert.equal(codeOf(await model('gpt-4o', { 'x-service-config': own })), 'config_override_denied');
    assert.equal(upstream.requests.length, 1);
  });

  test('are those of the key and of its workspace at once', async (t) => {
    const { model } = await started(t, ['gpt-4o', 'other'], { allowedModels: ['gpt-*'] });
    assert.equal(codeOf(await model('gpt-4o')), 200);
    assert.match((await model('other')).json().error?.message ?? '', /workspace ws-1/);
    const { model: open } = await started(t, undefined, { allowedModels: ['gpt-*'] });
    assert.equal(codeOf(await open('other')), 'model_not_allowed');
  });

  test('are the ones that the catalogue shows', async (t) => {
    const { ask } = await started(t, ['gpt-4o']);
    const listed = await ask({
      ...{ method: 'GET', path: '/v1/models' },
      headers: { 'x-service-fetch-integrated-models': 'true' },
    });
    const { data } = JSON.parse(listed.text) as { data: { id: string }[] };
    assert.ok(data.length > 0);
    assert.deepEqual(
      data.filter(({ id }) => !id.endsWith('gpt-4o')),
      [],
    );
  });
});
