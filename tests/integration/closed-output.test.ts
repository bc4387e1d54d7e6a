// A gateway that the environment alone configures, and whose output nobody reads any more.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { send } from '../kit/http-kit.ts';
import {
  eventually,
  ownerKey,
  runWeir,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';

const configuration = (prefix: string): string => `version: 1
storage: { analytics: { url: "none:" } }
pipelines:
  - { name: gateway, match: { path: /** }, plugins: [auth, { add-prefix: { prefix: "${prefix}: " } }, provider, logger] }
`;

let folder: string;
let configFile: string;
let weir: WeirProcess;

before(async () => {
  folder = await temporaryFolder();
  configFile = path.join(folder, 'elsewhere.yaml');
  await writeFile(configFile, configuration('one'));
  const env = { WEIR_CONFIG: configFile, WEIR_DATA: path.join(folder, 'data'), PORT: '0' };
  weir = await startWeir({ cwd: await temporaryFolder(), env });
});
after(stopEverything);

async function said(): Promise<string> {
  const { status, text } = await send(weir.url, {
    path: '/v1/chat/completions',
    headers: { 'x-service-api-key': ownerKey, 'x-service-provider': 'mock' },
    body: { model: 'mock-gpt', messages: [{ role: 'user', content: 'Hello' }] },
  });
  assert.equal(status, 200, text);
  return text;
}

test('WEIR_CONFIG, WEIR_DATA and PORT say the same as the command line', async () => {
  assert.match(await said(), /one: Hello/);
  assert.ok(existsSync(path.join(folder, 'data', 'identity.json')));
  assert.match(weir.stdout(), /elsewhere\.yaml/);
});

test('it serves, reloads and ends when nobody reads its output any more', { timeout: 20_000 }, async () => {
  const { child } = weir;
  child.stdout?.destroy();
  child.stderr?.destroy();
  for (const prefix of ['two', 'three']) {
    await writeFile(`${configFile}.new`, configuration(prefix));
    await rename(`${configFile}.new`, configFile);
    await eventually(async () => (await said()).includes(`${prefix}: Hello`) || undefined);
  }
  assert.equal((await weir.stop()).code, 0);
});

test('weir help says how, on standard output', async () => {
  const { code, stdout, stderr } = await runWeir(['help']);
  assert.deepEqual([code, stderr], [0, '']);
  for (const word of [
    'weir start',
    'weir check',
    'weir schema',
    'WEIR_CONFIG',
    'WEIR_DATA',
    'WEIR_ADMIN_KEY',
  ]) {
    assert.ok(stdout.includes(word), `no "${word}" in:\n${stdout}`);
  }
});
