/** The configuration file over the administration API, on a gateway of two workers. */
import assert from 'node:assert/strict';
import { chmod, readdir, readFile, rename, stat, symlink } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { makeHome, saidBy, startGateway, type GatewayProcess, type Home } from '../kit/gateway-process.ts';
import { eventually, ownerKey, stopEverything } from '../kit/process-kit.ts';
import { defaultRuntime } from '../kit/runtimes.ts';

// Deno has one process.
const workers = defaultRuntime === 'node' ? 2 : 1;
const secret = 'a-literal-secret-of-the-file';
const configuration = (prefix: string, writes: string, key: string = secret): string => `version: 1
server: { port: 8787, workers: ${workers} }
storage: { resources: { url: "pglite:" } }
providers:
  mock-two: { service: mock, api_key: ${key} } # with its key
pipelines:
  - name: admin
    match: { routes: contributed }
    plugins: [auth, { management: ${writes} }]
  - name: gateway
    match: { path: /** }
    plugins: [auth, { add-prefix: { prefix: "${prefix}: " } }, provider]
`;
const on = '{ config_writes: true }';

interface Shown {
  readonly writes: boolean;
  readonly text: string | null;
  readonly reason: string | null;
  readonly version: string;
  readonly masked: number;
}

interface Fault {
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

describe('the configuration file over the administration API', { timeout: 300_000 }, () => {
  let home: Home;
  let gateway: GatewayProcess;
  before(async () => {
    home = await makeHome(configuration('zero', on));
    gateway = await startGateway(home);
  });
  after(async () => {
    await stopEverything();
    await home?.remove();
  });

  async function call<T>(method: string, place: string, body?: object, key = ownerKey) {
    const answer = await fetch(`${gateway.url}/v1/admin/config-file${place}`, {
      method,
      headers: { 'x-service-api-key': key, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return { status: answer.status, body: (await answer.json()) as T };
  }
  const read = async (): Promise<Shown> => (await call<Shown>('GET', '')).body;
  const onDisk = (): Promise<string> => readFile(home.configFile, 'utf8');
  const audited = async (): Promise<string> => {
    const answer = await fetch(`${gateway.url}/v1/audit-logs`, {
      headers: { 'x-service-api-key': ownerKey },
    });
    return answer.text();
  };

  test('its text is shown to the owner with masks, and written back with the secrets that it had', async () => {
    await chmod(home.configFile, 0o640);
    const { text, version, masked, writes } = await read();
    assert.ok(writes && text !== null);
    assert.equal(masked, 1);
    assert.equal(text, configuration('zero', on, '"***1***"'));
    const written = await call<{ outcome: string; version: string }>('PUT', '', {
      text: text.replace('zero', 'one'),
      version,
    });
    assert.equal(written.status, 200, JSON.stringify(written.body));
    assert.equal(written.body.outcome, 'swapped');
    assert.equal(await onDisk(), configuration('one', on));
    assert.equal((await stat(home.configFile)).mode & 0o777, 0o640);
    assert.deepEqual(
      (await readdir(home.folder)).filter((name) => name.endsWith('.tmp')),
      [],
    );
    for (let turn = 0; turn < 6; turn += 1)
      assert.match(saidBy((await gateway.ask({ stream: true })).text), /"one: /);
    const trail = await audited();
    assert.match(trail, /config_file/);
    assert.doesNotMatch(trail, new RegExp(secret));
    assert.doesNotMatch(trail, /add-prefix/);
  });

  test('a stale text, one with faults, one that does not start and a foreign mask change nothing', async () => {
    const { text, version } = await read();
    assert.ok(text !== null);
    const before = await onDisk();
    const stale = await call<{ error: { code: string } }>('PUT', '', { text, version: 'older' });
    assert.equal(stale.status, 412);
    const faulty = {
      text: text.replace('pipelines:', 'pipelinez:').replace('"***1***"', '  "***1***"'),
      version,
    };
    const checked = await call<{ valid: boolean; faults: readonly Fault[] }>('POST', '/check', faulty);
    assert.equal(checked.body.valid, false);
    assert.ok(
      checked.body.faults.some(
        ({ line, column, message }) => line === 6 && column === 1 && /did you mean "pipelines"/.test(message),
      ),
      JSON.stringify(checked.body),
    );
    assert.equal((await call('PUT', '', faulty)).status, 400);
    const foreign = await call<{ faults: readonly Fault[] }>('POST', '/check', {
      text: text.replace('***1***', '***7***'),
      version,
    });
    assert.equal(foreign.body.faults[0]?.line, 5);
    assert.match(foreign.body.faults[0]?.message ?? '', /mask/);
    assert.equal(await onDisk(), before);
    const plugin = await home.write(
      'broken.ts',
      "export default { name: 'broken', create() { throw new Error('no start today'); } };\n",
    );
    const failing = {
      text: text.replace('[auth, { add', `[auth, ./${path.basename(plugin)}, { add`),
      version,
    };
    const failed = await call<{ outcome: string; faults: readonly Fault[] }>('PUT', '', failing);
    assert.equal(failed.body.outcome, 'failed', JSON.stringify(failed.body));
    assert.match(failed.body.faults[0]?.message ?? '', /no start today/);
    assert.equal(await onDisk(), before);
    assert.match(saidBy((await gateway.ask({ stream: true })).text), /"one: /);
    assert.equal((await gateway.status())['config_error'], null);
  });

  test('only owners see and write it', async () => {
    const made = await fetch(`${gateway.url}/v1/api-keys/organisation/service`, {
      method: 'POST',
      headers: { 'x-service-api-key': ownerKey, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'all settings', scopes: ['organisation_settings.update'] }),
    });
    const { key } = (await made.json()) as { key: string };
    assert.equal((await call('GET', '', undefined, key)).status, 403);
    assert.equal((await call('PUT', '', { text: 'version: 1', version: '' }, key)).status, 403);
  });

  test('without the option the text is only read, with its masks', async () => {
    const { version } = await read();
    await home.write('gateway.config.yaml', configuration('two', '{}'));
    await eventually(
      async () => saidBy((await gateway.ask({ stream: true })).text).includes('"two: ') || undefined,
    );
    const { writes, text, reason, masked } = await read();
    assert.deepEqual([writes, reason, masked], [false, null, 1]);
    assert.equal(text, configuration('two', '{}', '"***1***"'));
    const refused = await call<{ error?: { message: string } }>('PUT', '', { text: 'version: 1', version });
    assert.equal(refused.status, 400);
    assert.match(JSON.stringify(refused.body), /config_writes/);
  });

  test('a linked file stays a link', async () => {
    const target = await home.write('real.yaml', configuration('three', on));
    await home.write('gateway.config.yaml', configuration('three', on));
    await symlink(target, path.join(home.folder, 'link'));
    await rename(path.join(home.folder, 'link'), home.configFile);
    await eventually(async () => (await read()).writes || undefined);
    const { text, version } = await read();
    const written = await call<{ outcome: string }>('PUT', '', {
      text: text?.replace('three', 'four'),
      version,
    });
    assert.equal(written.body.outcome, 'swapped', JSON.stringify(written.body));
    assert.match(await readFile(target, 'utf8'), /four/);
  });
});
