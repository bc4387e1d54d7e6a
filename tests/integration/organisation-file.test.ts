// Workspaces and keys that the configuration owns, in a gateway without a store; the commands that need one say so.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, test } from 'node:test';
import { makeHome } from '../kit/gateway-process.ts';
import { send } from '../kit/http-kit.ts';
import { eventually, ownerKey, runWeir, startWeir, stopEverything } from '../kit/process-kit.ts';

after(stopEverything);

const configuration = (keys: string) => `version: 1
storage: { resources: { url: "none:" }, analytics: { url: "none:" } }
organisation:
  workspaces: [{ slug: ws-lab, name: Laboratory }]
  keys:
${keys}
pipelines:
  - { name: admin, match: { routes: contributed }, plugins: [auth, management] }
  - { name: gateway, match: { path: /** }, plugins: [auth, provider] }
`;
const key = (name: string, members = '') =>
  `    - { name: ${name}, type: workspace-service, key: wk_${name}_0123456789, scopes: [completions.write], ${members} }\n`;

test('keys of the file work without a store, and follow it', async (t) => {
  const home = await makeHome(configuration(key('first', 'workspace: ws-lab')));
  t.after(() => home.remove());
  const weir = await startWeir({ config: home.configFile, data: home.data });
  const status = async (secret: string): Promise<number> => {
    const answer = await send(weir.url, {
      path: '/v1/chat/completions',
      headers: { 'x-service-api-key': secret, 'x-service-provider': 'mock' },
      body: { model: 'mock-gpt', messages: [{ role: 'user', content: 'Hello' }] },
    });
    return answer.status;
  };
  assert.equal(await status('wk_first_0123456789'), 200);
  assert.equal(await status('wk_second_0123456789'), 401);

  await home.write('gateway.config.yaml', configuration(key('second')));
  await eventually(async () => ((await status('wk_second_0123456789')) === 200 ? true : undefined));
  assert.equal(await status('wk_first_0123456789'), 401);

  await home.write('gateway.config.yaml', configuration(key('third', 'workspace: ws-lub')));
  const problems = await eventually(async () => {
    const answer = await send(weir.url, {
      method: 'GET',
      path: '/status',
      headers: { 'x-service-api-key': ownerKey },
    });
    return answer.json().config_error?.problems as string[] | undefined;
  });
  assert.match(
    problems.join('\n'),
    /:6:\d+: "workspace": there is no workspace "ws-lub".*did you mean "ws-lab"\?/,
  );
  assert.equal(await status('wk_second_0123456789'), 200);
});

test('export, import and audit verify say what keeps them from working', async (t) => {
  const home = await makeHome(configuration(key('first')));
  t.after(() => home.remove());
  const run = (...args: string[]) =>
    runWeir([...args, '--config', home.configFile, '--data', home.data], { env: {} });
  for (const args of [['export'], ['audit', 'verify']]) {
    const { code, stderr } = await run(...args);
    assert.equal(code, 1);
    assert.match(stderr, /There is no store: storage\.resources\.url is "none:"/);
  }
  await home.write('gateway.config.yaml', configuration(key('first')).replace('none:', 'pglite:'));
  const nowhere = await run('export');
  assert.equal(nowhere.code, 1);
  assert.match(nowhere.stderr, /There is no store at .*resources\. Name its data folder/);
  const missing = await run('import', path.join(home.folder, 'missing.yaml'));
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /missing\.yaml does not exist/);
});
