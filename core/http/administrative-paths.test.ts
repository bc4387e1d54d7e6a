// What begins like administration and is none stays here: bodies hold secrets. What providers serve goes to them.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import auth from '../../plugins/auth/index.ts';
import management from '../../plugins/management/index.ts';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream } from '../../tests/kit/http-kit.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import { contributedRoutes } from '../../tests/kit/openapi-kit.ts';

const routes = await contributedRoutes();
const prefixes = [...new Set(routes.map(({ path }) => path.split('/')[1] as string))];

async function start(t: Parameters<typeof startUpstream>[0]) {
  const provider = await startUpstream(t, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  const gateway = await startTestGateway(t, {
    providers: { up: { base_url: provider.url, credentials: 'none' } },
    keys: { wk_key: testKey({ kind: 'owner' }) },
    pipelines: [
      { name: 'admin', match: { routes: 'contributed' }, plugins: [auth, management] },
      { match: { path: '/**' }, plugins: [auth, providerPlugin({ default: 'up' })] },
    ],
  });
  const ask = (method: string, path: string) =>
    send(gateway.url, {
      method,
      path,
      headers: { 'x-service-api-key': 'wk_key' },
      ...(method === 'POST' && { body: { secret: 'of-somebody' } }),
    });
  return { provider, ask };
}

describe('paths that begin like administration', () => {
  test('name the route that was meant, and never leave', async (t) => {
    const { provider, ask } = await start(t);
    for (const [method, path, said] of [
      ['POST', '/v1/api-keys/organisation/user', /no POST \/api-keys\/organisation\/user/],
      ['POST', '/v1/api-keys/workspace/users', /Did you mean POST \/api-keys\/workspace\/user\?/],
      ['PATCH', '/v1/configs/c', /Did you mean (GET|PUT|DELETE) \/configs\/\{slug\}\?/],
      ['POST', '/v1/integrations/', /Did you mean POST \/integrations\?|no POST/],
      ['POST', '/v1/admin/workspace', /Did you mean POST \/admin\/workspaces\?/],
      ['POST', '/v1/v1/virtual-keys', /no POST/],
      ['POST', '/v1/deployments/gpt/chat/completions', /is \/proxy\/deployments\/gpt\/chat\/completions/],
      ['POST', '/v1/collections/c/points', /is \/proxy\/collections\/c\/points/],
      ['POST', '/v1/traces/ingest', /is \/proxy\/traces\/ingest/],
      ['POST', '/v1/Virtual-Keys', /Did you mean POST \/virtual-keys\?/],
    ] as const) {
      const answer = await ask(method, path);
      assert.deepEqual([answer.status, answer.json().error.code], [404, 'route_not_found'], answer.text);
      assert.match(answer.text, said);
    }
    assert.equal(provider.requests.length, 0);
  });

  test('go nowhere in any spelling', async (t) => {
    const { provider, ask } = await start(t);
    const spelled = (text: string) =>
      fc.constantFrom(
        text,
        text.toUpperCase(),
        `/${text}`,
        `%${text.charCodeAt(0).toString(16)}${text.slice(1)}`,
        `v1/${text}`,
        `V1//${text}`,
      );
    const given = fc.record({
      method: fc.constantFrom('POST', 'PUT', 'PATCH', 'DELETE', 'PROPFIND'),
      prefix: fc.constantFrom(...prefixes).chain(spelled),
      rest: fc.array(fc.stringMatching(/^[a-z-]{1,9}$/), { maxLength: 3 }),
    });
    await fc.assert(
      fc.asyncProperty(given, async ({ method, prefix, rest }) => {
        const answer = await ask(method, `/v1/${[prefix, ...rest].join('/')}`);
        const told = `${method} ${prefix} ${rest.join('/')}: ${answer.status}`;
        assert.equal(provider.requests.length, 0, told);
      }),
      { numRuns: 250 },
    );
  });

  test('are passed where a provider has them, and behind /proxy', async (t) => {
    const { provider, ask } = await start(t);
    const paths = [
      ...['/v1/proxy/deployments/gpt/chat/completions', '/v1/proxy/collections/c/points', '/v1/files'],
      ...[
        '/v1/prompts/p/completions',
        '/v1/batches',
        '/v1/models/m:predict',
        '/v1/proxy/api-keys/organisation/user',
      ],
      ...['/v1/proxy/logs', '/v1/organization/users', '/v1/logging', '/v1/cachedContents'],
    ];
    for (const path of paths) assert.equal((await ask('POST', path)).status, 200, path);
    assert.equal(provider.requests.length, paths.length);
  });
});
