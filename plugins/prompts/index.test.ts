import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { addressedProvider } from '../../core/pipeline/keys.ts';
import { contextFor, testKey, testScope, type TestRequest } from '../../tests/kit/plugin-kit.ts';
import prompts from './index.ts';

const record = {
  kind: 'prompt',
  id: 'p',
  slug: 'pp-p',
  status: 'active',
  organisationId: 'org-1',
  workspaceId: 'ws-1',
  data: {
    template: 'Hi {{name}}',
    parameters: { seed: 1 },
    virtualKey: 'vk',
    model: 'm',
    functions: [],
    tools: [],
    toolChoice: null,
    metadata: {},
    isRawTemplate: false,
    defaultVersion: 1,
  },
};

async function run(request: TestRequest) {
  const { scope } = testScope();
  const find = (kind: string, _: unknown, name: string) =>
    kind === 'prompt' && ['p', 'pp-p'].includes(name) ? record : undefined;
  const directory = { ...scope.directory, record: find as never };
  const hooks = await prompts.create({}, { ...scope, directory });
  const context = await contextFor(prompts, {
    path: '/prompts/pp-p/completions',
    key: testKey(),
    ...request,
  });
  await hooks.request?.(context);
  return context;
}

describe('a call of a prompt', () => {
  test('becomes the request that the prompt describes', async () => {
    const context = await run({ body: { variables: { name: 'Ann' }, stream: true } });
    assert.deepEqual([context.path, context.endpoint.id], ['/chat/completions', 'chat.completions']);
    assert.deepEqual(context.json, {
      messages: [{ role: 'user', content: 'Hi Ann' }],
      model: 'm',
      seed: 1,
      stream: true,
    });
    const { prompt, promptVersion } = context.facts;
    assert.deepEqual([prompt, promptVersion, context.get(addressedProvider)], ['pp-p', '1', 'vk']);
  });

  test('goes to the provider that its own model names', async () => {
    const context = await run({ body: { variables: { name: 'Ann' }, model: '@other/x' } });
    assert.equal(context.get(addressedProvider), undefined);
  });

  test('renders a variable that is missing as nothing, unless it says strict', async () => {
    for (const body of [{}, { strict: false }, { variables: {}, strict: null }]) {
      const context = await run({ body });
      assert.deepEqual(context.json, { messages: [{ role: 'user', content: 'Hi ' }], model: 'm', seed: 1 });
    }
    const complete = await run({ body: { variables: { name: 'Ann' }, strict: true } });
    assert.equal(Object.hasOwn(complete.json as object, 'strict'), false);
  });

  const bad: readonly [name: string, request: TestRequest, code: string][] = [
    ['no variables, where they are wanted', { body: { strict: true } }, 'invalid_request'],
    ['something else for strict', { body: { strict: 'yes' } }, 'invalid_request'],
    ['no JSON', { body: 'x' }, 'invalid_json'],
    ['a list', { body: [] }, 'invalid_json'],
    ['another prompt', { path: '/prompts/q/completions', body: {} }, 'resource_not_found'],
    ['a broken path', { path: '/prompts/%zz/completions', body: {} }, 'invalid_request'],
  ];
  for (const [name, request, code] of bad)
    test(`is refused with ${name}`, () => assert.rejects(run(request), { code }));
});

test('other requests are left alone', async () => {
  for (const request of [{ path: '/chat/completions' }, { path: '/prompts/p/other' }, { method: 'GET' }]) {
    const context = await run({ body: {}, ...request });
    assert.equal(context.body.changed, false);
  }
});
