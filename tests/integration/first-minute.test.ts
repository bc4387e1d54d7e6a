// What a newcomer meets: start, the printed request, start again, mistakes, stop.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import net, { type AddressInfo } from 'node:net';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { parse } from 'yaml';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { begin, send } from '../kit/http-kit.ts';
import {
  eventually,
  ownerKey,
  runWeir,
  startWeir,
  stopEverything,
  temporaryFolder,
} from '../kit/process-kit.ts';

after(stopEverything);

const run = promisify(execFile);
/** Most of the time is spent starting; no test measures it. */
const twoAtOnce = { concurrency: 2 };

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
}

const withoutLogs = {
  version: 1,
  storage: { analytics: { url: 'none:' } },
  pipelines: [{ name: 'gateway', match: { path: '/**' }, plugins: ['auth', 'provider', 'logger'] }],
};

describe('with no configuration at all', { skip: chdbMissing }, () => {
  const env = { WEIR_ADMIN_KEY: undefined };

  test('the owner key is shown once, the printed commands work, and the data stays', async () => {
    const cwd = await temporaryFolder();
    const data = path.join(cwd, 'data');
    const weir = await startWeir({ cwd, data, env });
    const printed = weir.stdout();
    assert.match(printed, /Data +data\b/);
    assert.match(printed, /Config +gateway\.config\.yaml \(new; edit it while Weir runs\)/);
    const yaml = await readFile(path.join(cwd, 'gateway.config.yaml'), 'utf8');
    const [, schema = ''] = /^# yaml-language-server: \$schema=(.*)\n/.exec(yaml) ?? [];
    await eventually(async () => existsSync(path.resolve(cwd, schema)) || undefined);
    assert.ok('pipelines' in JSON.parse(await readFile(path.resolve(cwd, schema), 'utf8')).properties);
    assert.equal(weir.stderr().includes('wk_'), false);

    const owner = /Owner key +(\S+)/.exec(printed)?.[1] ?? '';
    assert.match(owner, /^wk_[\w-]{40}$/);
    const identity = await readFile(path.join(data, 'identity.json'), 'utf8');
    assert.ok(identity.includes(createHash('sha256').update(owner).digest('base64')));

    const curl = printed.slice(printed.indexOf('curl -s'), printed.indexOf('Its record'));
    const chat = await run('bash', ['-c', `${curl.trim()} -D headers.txt`], { cwd });
    assert.match(JSON.parse(chat.stdout).choices[0].message.content, /Hello/);
    const headers = await readFile(path.join(cwd, 'headers.txt'), 'utf8');
    const id = /^x-service-request-id: *(\S+)/im.exec(headers)?.[1] ?? '';
    const second = printed.slice(printed.lastIndexOf('curl -s')).trim().replace('<request id>', id);
    const record = await run('bash', ['-c', second], { cwd });
    const log = JSON.parse(record.stdout);
    assert.equal(log.id, id);
    assert.ok(log.metrics.total_tokens > 0 && log.metrics.cost > 0 && log.metrics.latency_ms > 0);
    const { organisation_id: organisation, workspace_id: workspace } = JSON.parse(identity);
    assert.deepEqual([log.organisation_id, log.workspace_id], [organisation, workspace]);

    const ask = (extra: object) =>
      send(weir.url, {
        path: '/v1/chat/completions',
        headers: { 'x-service-api-key': owner, ...extra },
        body: { model: 'mock-gpt', messages: [{ role: 'user', content: 'Cached?' }] },
      });
    const cached = { 'x-service-config': '{"provider":"mock","cache":{"mode":"simple"}}' };
    assert.equal((await ask(cached)).headers['x-service-cache-status'], 'MISS');
    assert.equal((await ask(cached)).headers['x-service-cache-status'], 'HIT');
    const plain = { 'x-service-provider': 'mock' };
    assert.equal((await ask(plain)).headers['x-service-cache-status'], 'DISABLED');
    const guarded = await ask({ ...plain, 'x-portkey-default-input-guardrails': '[{"default.no-such":{}}]' });
    assert.equal(guarded.status, 400);
    assert.match(guarded.text, /default-input-guardrails header asks for guardrails that cannot run/);

    const authorization = `Bearer ${owner}`;
    const bare = await send(weir.url, {
      path: '/v1/chat/completions',
      headers: { authorization },
      body: { model: '@mock/mock-gpt', messages: [{ role: 'user', content: 'Hello' }] },
    });
    assert.equal(bare.status, 200, bare.text);
    const models = await send(weir.url, { method: 'GET', path: '/v1/models', headers: { authorization } });
    assert.match(models.text, /"id":"mock-gpt".*"id":"@mock\/mock-gpt"/);

    assert.equal((await weir.stop()).code, 0);
    for (const file of await filesBelow(cwd)) {
      assert.ok(!(await readFile(file)).includes(owner), `${file} holds the owner key`);
    }

    const again = await startWeir({ cwd, data, env });
    assert.doesNotMatch(again.stdout(), /Owner key|wk_|\(new; /);
    assert.equal(await readFile(path.join(cwd, 'gateway.config.yaml'), 'utf8'), yaml);
    const { status, text } = await send(again.url, {
      path: `/v1/logs/${id}`,
      headers: { authorization: `Bearer ${owner}` },
    });
    assert.equal(status, 200, text);
    assert.equal((await again.stop()).code, 0);
  });
});

describe('a first start that ends before it listens leaves no owner key that was never shown', () => {
  const env = { WEIR_ADMIN_KEY: undefined };

  async function keyOfNextStart(data: string): Promise<void> {
    const weir = await startWeir({ yaml: withoutLogs, data, env });
    const owner = /Owner key +(wk_[\w-]{40})/.exec(weir.stdout())?.[1];
    assert.ok(owner, weir.stdout());
    const chat = { model: 'mock-gpt', messages: [{ role: 'user', content: 'Hello' }] };
    const headers = { authorization: `Bearer ${owner}`, 'x-service-provider': 'mock' };
    const { status, text } = await send(weir.url, {
      method: 'POST',
      path: '/v1/chat/completions',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(chat),
    });
    assert.equal(status, 200, text);
    await weir.stop();
    const again = await startWeir({ yaml: withoutLogs, data, env });
    assert.doesNotMatch(again.stdout(), /Owner key/);
    await again.stop();
  }

  test('the port is busy', async () => {
    const data = path.join(await temporaryFolder(), 'data');
    const holder = net.createServer().listen(0, '127.0.0.1');
    await once(holder, 'listening');
    const { port } = holder.address() as AddressInfo;
    await assert.rejects(startWeir({ yaml: withoutLogs, data, env, port }), /port is in use/);
    holder.close();
    await keyOfNextStart(data);
  });

  test('kill -9 once the key is stored', async () => {
    const data = path.join(await temporaryFolder(), 'data');
    const identity = path.join(data, 'identity.json');
    await mkdir(data);
    const killed = startWeir({
      yaml: withoutLogs,
      data,
      env,
      onChild: (child) =>
        void eventually(
          () => existsSync(identity) || undefined,
          () => 'identity.json',
        ).then(() => child.kill('SIGKILL')),
    });
    await assert.rejects(killed, /ended with SIGKILL before it listened/);
    await keyOfNextStart(data);
  });
});

describe('what keeps it from starting is one sentence', twoAtOnce, () => {
  /** No stack trace, and what the reader has to know. */
  function sentence(stderr: string, ...expected: RegExp[]): void {
    for (const one of expected) assert.match(stderr, one);
    assert.doesNotMatch(stderr, /^ {2,}at /m);
    assert.ok(stderr.trim().split('\n').length <= 2, stderr);
  }

  test('a data folder in use', async () => {
    const data = path.join(await temporaryFolder(), 'data');
    const weir = await startWeir({ yaml: withoutLogs, data });
    assert.doesNotMatch(weir.stdout(), /Owner key/);
    assert.ok(!(weir.stdout() + weir.stderr()).includes(ownerKey), 'a preset key is shown');
    const second = await runWeir(['start', '--port', '0', '--data', data]);
    assert.equal(second.code, 1);
    sentence(second.stderr, /in use by process \d+/, new RegExp(String(weir.child.pid)), /data folder/);
    assert.equal((await send(weir.url, { path: '/healthz' })).status, 200);
    await weir.stop();
  });

  test('a data folder that is a file', async () => {
    const folder = await temporaryFolder();
    const file = path.join(folder, 'file');
    await writeFile(file, '');
    const { code, stderr } = await runWeir(['start', '--port', '0', '--data', file], { cwd: folder });
    assert.equal(code, 1);
    sentence(stderr, /data folder cannot be made/, new RegExp(file), /--data/);
    assert.deepEqual((await readdir(folder)).sort(), ['file', 'gateway.config.yaml']);
  });

  test('a port in use', async () => {
    const holder = net.createServer().listen(0, '127.0.0.1');
    await once(holder, 'listening');
    const { port } = holder.address() as AddressInfo;
    const folder = await temporaryFolder();
    const file = path.join(folder, 'gateway.config.yaml');
    await writeFile(file, JSON.stringify(withoutLogs));
    const { code, stderr, stdout } = await runWeir(
      ['start', '--port', String(port), '--config', file, '--data', path.join(folder, 'data')],
      { env: { WEIR_ADMIN_KEY: 'a-key-that-is-long-enough' } },
    );
    holder.close();
    assert.equal(code, 1);
    sentence(stderr, new RegExp(`127\\.0\\.0\\.1:${port}`), /port is in use/, /--port/);
    assert.doesNotMatch(stdout, /listens on/);
  });

  test('an owner key that is too short', async () => {
    const { code, stderr } = await runWeir(['start', '--port', '0'], { env: { WEIR_ADMIN_KEY: 'short' } });
    assert.equal(code, 1);
    sentence(stderr, /WEIR_ADMIN_KEY is shorter than 16 characters/);
    assert.doesNotMatch(stderr, /"short"/);
  });

  test('a configuration that is not there', async () => {
    const { code, stderr } = await runWeir(['start', '--config', 'nowhere.yaml']);
    assert.equal(code, 1);
    sentence(stderr, /nowhere\.yaml/);
  });

  test('a command line that is wrong: the usage says how', async () => {
    const { code, stderr } = await runWeir(['start', '--prot', '1']);
    assert.equal(code, 2);
    sentence(stderr.split('\n\n')[0] ?? '', /--prot/);
    assert.match(stderr, /weir start \[--config FILE\]/);
  });
});

describe('weir check', twoAtOnce, () => {
  const wrong = [
    'version: 1', //                                     1
    'securty: { trusted_hosts: [] }', //                 2
    'server:', //                                        3
    '  port: 99999', //                                  4
    'providers:', //                                     5
    '  local: { dialekt: openai-chat }', //              6
    'pipelines:', //                                     7
    '  - name: gateway', //                              8
    '    match: { path: /** }', //                       9
    '    plugins:', //                                   10
    '      - auht', //                                   11
    '      - request-parameters: { parms: {} }', //      12
    '      - rate-limit:', //                            13
    '          requests_per_minute: ${NO_SUCH_VARIABLE}', // 14
    '      - cache: { mode: semantic }', //               15
    '      - provider', //                               16
    '      - logger: { redact: [{ expression: "(?=x)" }] }', // 17
    '      - management: { redact: [{ pattern: email }, { expression: "(" }] }', // 18
    '',
  ].join('\n');

  test('refuses what a start would: a certificate authority that is not there', async () => {
    const cwd = await temporaryFolder();
    const storage = { analytics: { url: 'https://127.0.0.1:1', ca_file: './nope.pem' } };
    const pipelines = [{ name: 'g', match: { path: '/**' }, plugins: ['auth', 'provider'] }];
    await writeFile(path.join(cwd, 'bad.yaml'), JSON.stringify({ version: 1, storage, pipelines }));
    const { code, stderr } = await runWeir(['check', 'bad.yaml'], { cwd });
    assert.equal(code, 1);
    assert.match(stderr, /storage\.analytics\.ca_file cannot be read: ENOENT/);
  });

  test('names every mistake at once, with its place and a suggestion, and starts nothing', async () => {
    const cwd = await temporaryFolder();
    await writeFile(path.join(cwd, 'bad.yaml'), wrong);
    const { code, stderr } = await runWeir(['check', 'bad.yaml'], { cwd });
    assert.equal(code, 1);
    const lines = stderr.trim().split('\n');
    const at = (line: number): string =>
      lines.find((one) => new RegExp(`bad\\.yaml:${line}:\\d+: `).test(one)) ??
      `no line ${line} in:\n${stderr}`;
    assert.match(at(2), /bad\.yaml:2:1: .*securty.*did you mean "security"/i);
    assert.match(at(4), /bad\.yaml:4:9: .*65535/);
    assert.match(at(6), /bad\.yaml:6:12: .*dialekt.*did you mean "dialect"/i);
    assert.match(at(11), /auht.*did you mean "auth"/i);
    assert.match(at(12), /parms.*did you mean "params"/i);
    assert.match(at(14), /NO_SUCH_VARIABLE/);
    assert.match(at(15), /bad\.yaml:15:24: semantic needs a provider/);
    assert.match(at(17), /bad\.yaml:17:42: this is no regular expression of RE2 \(/);
    assert.match(at(18), /bad\.yaml:18:66: this is no regular expression of RE2 \(/);
    assert.equal(lines.length, 9, stderr);
    assert.deepEqual(await readdir(cwd), ['bad.yaml']);
  });

  test('is content with the configuration that comes with the gateway', async () => {
    const cwd = await temporaryFolder();
    const { code, stdout, stderr } = await runWeir(['check'], { cwd });
    assert.deepEqual([code, stderr], [0, '']);
    assert.match(stdout, /is valid/);
    assert.deepEqual(await readdir(cwd), []);
  });
});

test('weir schema prints a JSON Schema that tells right from wrong', async () => {
  const { code, stdout } = await runWeir(['schema']);
  assert.equal(code, 0);
  const validate = formats.default(new Ajv2020({ allowUnionTypes: true })).compile(JSON.parse(stdout));
  const own: unknown = parse(await readFile(new URL('../../gateway.config.yaml', import.meta.url), 'utf8'));
  assert.ok(validate(own), JSON.stringify(validate.errors));
  assert.ok(validate(withoutLogs), JSON.stringify(validate.errors));
  assert.equal(validate({ ...withoutLogs, servr: {} }), false);
  assert.equal(validate({ ...withoutLogs, server: { port: 'x' } }), false);
});

describe('SIGTERM', twoAtOnce, () => {
  const stream = {
    path: '/v1/chat/completions',
    headers: { 'x-service-api-key': ownerKey, 'x-service-provider': 'mock' },
    body: {
      model: 'mock:chunk_latency_ms=40,tokens=20',
      stream: true,
      messages: [{ role: 'user', content: 'Hello' }],
    },
  };

  test('lets an open stream finish, accepts nothing new, and ends with 0', async () => {
    const weir = await startWeir({ yaml: withoutLogs });
    const { response } = await begin(weir.url, stream);
    let text = '';
    response.on('data', (chunk: Buffer) => (text += chunk.toString()));
    await once(response, 'data');
    const stopped = weir.stop();
    await weir.untilStderr('Shutting down');
    await eventually(async () => {
      const refused = await send(weir.url, { path: '/healthz' }).catch((error: unknown) => error);
      return refused instanceof Error ? true : undefined;
    });
    assert.doesNotMatch(text, /\[DONE\]/);
    await once(response, 'close');
    assert.ok(response.complete);
    assert.match(text, /data: \[DONE\]\n\n$/);
    const { code, stderr } = await stopped;
    assert.equal(code, 0, stderr);
  });

  test('cuts what is still open at the deadline, and says so', async () => {
    const weir = await startWeir({ yaml: { ...withoutLogs, server: { shutdown_timeout_ms: 100 } } });
    const { response } = await begin(weir.url, {
      ...stream,
      body: { ...stream.body, model: 'mock:chunk_latency_ms=20,tokens=9000' },
    });
    response.resume();
    const { code, stderr } = await weir.stop();
    assert.equal(code, 0, stderr);
    assert.match(stderr, /cut at the shutdown deadline/);
    assert.equal(response.complete, false);
  });
});
