// What requests are configured with, owned by the configuration alone: without a store, and with the embedded one.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { makeHome } from '../kit/gateway-process.ts';
import { send } from '../kit/http-kit.ts';
import { eventually, ownerKey, runWeir, startWeir, stopEverything } from '../kit/process-kit.ts';

after(stopEverything);

const planted = 'sk-planted-0123456789-canary';
const secret = 'wk_batch_0123456789';

const configuration = (store: string, value: number, target = 'virtual_key: mocked') => `version: 1
storage: { resources: { url: "${store}" }, analytics: { url: "none:" } }
configs: { plain: { virtual_key: mocked, override_params: { user: "\${PLANTED}" } } }
providers: { direct: { base_url: "mock://localhost", api_key: "\${PLANTED}" } }
organisation:
  workspaces: [{ slug: ws-lab, name: Laboratory }]
  keys:
    - { name: batch, type: workspace-service, workspace: ws-lab, key: ${secret}, scopes: [completions.write] }
  integrations:
    - slug: mocked
      name: Mocked
      ai_provider_id: mock
      key: \${PLANTED}
      workspaces: [{ id: ws-lab, enabled: true }]
  configs:
    - { slug: pc-main, name: Main, workspace: ws-lab, config: { ${target} } }
  rate_limit_policies:
    - slug: few
      workspace: ws-lab
      conditions: [{ key: api_key, value: batch }, { key: config, value: pc-main }]
      group_by: [{ key: api_key }]
      type: requests
      unit: rph
      value: ${value}
pipelines:
  - { name: admin, match: { routes: contributed }, plugins: [auth, management] }
  - { name: gateway, match: { path: /** }, plugins: [auth, policies, provider] }
`;

for (const store of ['none:', 'pglite:']) {
  describe(`records of the file with storage.resources ${store}`, () => {
    test('serve requests, are shown, and follow the file', async (t) => {
      const home = await makeHome(configuration(store, 1));
      t.after(() => home.remove());
      const env = { PLANTED: planted };
      const weir = await startWeir({ config: home.configFile, data: home.data, env });
      const ask = (headers: Record<string, string>, model = 'mock-gpt') =>
        send(weir.url, {
          path: '/v1/chat/completions',
          headers: { 'x-service-api-key': secret, ...headers },
          body: { model, messages: [{ role: 'user', content: 'Hello' }] },
        });
      const read = (path: string, by = ownerKey, method = 'GET') =>
        send(weir.url, { path: `/v1${path}`, method, headers: { 'x-service-api-key': by } });

      assert.equal((await ask({}, '@mocked/mock-gpt')).status, 200);
      assert.equal((await ask({ 'x-service-virtual-key': 'mocked' })).status, 200);
      assert.equal((await ask({ 'x-service-config': 'plain' })).status, 200);
      assert.equal((await ask({ 'x-service-config': 'pc-main' })).status, 200);
      const limited = await ask({ 'x-service-config': 'pc-main' });
      assert.deepEqual([limited.status, limited.json().error?.code], [429, 'rate_limited'], limited.text);

      const shown: string[] = [];
      const list = async (path: string): Promise<unknown[]> => {
        const answer = await read(path);
        assert.equal(answer.status, 200, `${path}: ${answer.text}`);
        shown.push(answer.text);
        return answer
          .json()
          .data.map((one: Record<string, unknown>) => [one['slug'] ?? one['name'], one['managed_by']]);
      };
      const first = [
        [
          await list('/configs'),
          [
            ['plain', 'file'],
            ['pc-main', 'file'],
          ],
        ],
        [
          await list('/providers'),
          [
            ['direct', 'file'],
            ['mocked', 'file'],
          ],
        ],
        [await list('/integrations'), [['mocked', 'file']]],
        [await list('/policies/rate-limits'), [['1 requests per hour', 'file']]],
      ];
      for (const [found, expected] of first) assert.deepEqual(found, expected);
      for (const path of [
        '/configs/plain',
        '/configs/pc-main',
        '/integrations/mocked',
        '/providers/direct',
      ]) {
        const answer = await read(path);
        assert.equal(answer.status, 200, `${path}: ${answer.text}`);
        shown.push(answer.text);
      }
      assert.ok(!shown.join('\n').includes(planted), 'secrets of the file are never shown');
      assert.ok(!shown.join('\n').includes('sk…ry'), 'not even their first and last letters');
      const refused = await read('/configs/pc-main', ownerKey, 'DELETE');
      if (store === 'none:') assert.match(refused.text, /storage\.resources is \\"none:\\"/);
      else {
        assert.equal(refused.status, 409, refused.text);
        assert.match(refused.text, /gateway\.config\.yaml \(organisation\.configs\[0\]\); change it there/);
      }

      await home.write('gateway.config.yaml', configuration(store, 100, 'provider: mock'));
      await eventually(async () =>
        (await ask({ 'x-service-config': 'pc-main' })).status === 200 ? true : undefined,
      );
      assert.match((await read('/configs/pc-main')).text, /"provider":"mock"/);
    });
  });
}

test('weir check notes names that only the store can have, and refuses them without a store', async (t) => {
  const home = await makeHome(configuration('pglite:', 1, 'virtual_key: mokked'));
  t.after(() => home.remove());
  const check = () => runWeir(['check', home.configFile], { env: { PLANTED: planted } });
  const noted = await check();
  assert.equal(noted.code, 0, noted.stderr);
  assert.match(
    noted.stderr,
    /gateway\.config\.yaml:16:\d+: note: there is no virtual key "mokked"; did you mean "mocked"\? If not, it has to be one of the store/,
  );
  await home.write('gateway.config.yaml', configuration('none:', 1, 'virtual_key: mokked'));
  const refused = await check();
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /:16:\d+: there is no virtual key "mokked"; did you mean "mocked"\?/);
});
