import assert from 'node:assert/strict';
import { cp, readFile, symlink } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { packagesMissing } from '../../plugins/local-classifier/index.ts';
import { sign, signingKey } from '../../adapters/tokens/issuer.test-support.ts';
import {
  type Asking,
  type GatewayProcess,
  type Home,
  makeHome,
  saidBy,
  startGateway,
} from '../kit/gateway-process.ts';
import { writeTinyModel } from '../kit/onnx-model.ts';
import { eventually, stopEverything } from '../kit/process-kit.ts';

const examples = fileURLToPath(new URL('../../examples/plugins', import.meta.url));

function configuration(plugin: string): string {
  return `version: 1
storage: { analytics: { url: "none:" } }
security: { trusted_hosts: [127.0.0.1] }
prices:
  models: [{ provider: mock, model: mock-gpt, input: 1, output: 10 }, { provider: mock, model: mock-small, input: 0.01, output: 0.1 }]
providers:
  echo: { base_url: "mock:?echo_headers", credentials: none }
configs:
  acme: { provider: "@echo", override_params: { model: mock-acme } }
  others: { provider: "@echo", override_params: { model: mock-others } }
  cheaper:
    strategy: { mode: fallback, on_status_codes: [446] }
    targets: [{ provider: mock }, { provider: mock, override_params: { model: mock-small } }]
pipelines:
  - name: gateway
    match: { path: /** }
    plugins: [auth, ${plugin === '' ? '' : `./plugins/${plugin}, `}provider, logger]
`;
}

const tools = (...names: readonly string[]): unknown[] =>
  names.map((name) => ({ type: 'function', function: { name, parameters: { type: 'object' } } }));

/** Each example runs from a folder outside of the project, in a gateway of its own process. */
describe('the examples of plugins', { timeout: 90_000 }, () => {
  let home: Home;
  let gateway: GatewayProcess;
  before(async () => {
    home = await makeHome(configuration(''));
    await cp(examples, path.join(home.folder, 'plugins'), { recursive: true });
    gateway = await startGateway(home);
  });
  after(async () => {
    await stopEverything();
    await home?.remove();
  });

  /** Puts the plugin into the pipeline and waits until it serves. */
  async function use(plugin: string): Promise<void> {
    const { generation } = await gateway.status();
    await home.write('gateway.config.yaml', configuration(plugin));
    await eventually(
      async () => (await gateway.status())['generation'] !== generation || undefined,
      () => `another generation; standard error: ${gateway.stderr}`,
    );
  }
  const asked = async (asking: Asking): Promise<{ status: number; text: string }> => {
    const { status, text } = await gateway.ask(asking);
    return { status, text };
  };
  const refused = async (asking: Asking, status: number, sentence: RegExp): Promise<void> => {
    const answer = await asked(asking);
    assert.equal(answer.status, status, answer.text);
    assert.match(answer.text, sentence);
  };

  test('are short', async () => {
    const names = [
      'deny-words',
      'redact-personal-data',
      'external-checker',
      'header-from-token',
      'tenant-router',
    ];
    for (const name of [...names, 'prompt-logger', 'cost-guard', 'tool-allow-list', 'jailbreak-score']) {
      const lines = (await readFile(path.join(examples, `${name}.ts`), 'utf8')).trimEnd().split('\n').length;
      assert.ok(lines < 60, `${name}: ${lines} lines`);
    }
  });

  test('redact-personal-data takes what it looks for out of whole and streamed answers', async () => {
    await use(`redact-personal-data.ts: { also: ['EMP-[0-9]{6}'] }`);
    const content = 'Write to jo@example.com or +49 30 1234 5678, card 4111 1111 1111 1111, EMP-123456';
    const whole = (await asked({ content })).text;
    const streamed = saidBy((await asked({ content, stream: true })).text);
    for (const said of [whole, streamed]) {
      assert.match(said, /Write to \[email\] or \[phone\], card \[card\], \[redacted\]/);
      assert.doesNotMatch(said, /example\.com|4111|EMP-/);
    }
    await home.write('gateway.config.yaml', configuration(`redact-personal-data.ts: { also: ['a+'] }`));
    await eventually(
      () =>
        /gateway\.config\.yaml:17:\d+: .*rule 4 has matches of any length/.test(gateway.stderr) || undefined,
      () => `a refusal of the pattern: ${gateway.stderr}`,
    );
  });

  test('external-checker asks, and says what happens while nobody answers', async () => {
    let says = '{"allowed":true}';
    const seen: string[] = [];
    const checker: Server = createServer((request, response) => {
      request.on('data', (piece: Buffer) => seen.push(piece.toString()));
      request.on('end', () => response.end(says));
    });
    await new Promise<void>((listening) => checker.listen(0, '127.0.0.1', listening));
    const url = `http://127.0.0.1:${(checker.address() as AddressInfo).port}/`;
    await use(`external-checker.ts: { url: '${url}', when_away: refuse }`);
    assert.equal((await asked({ content: 'Is this fine?' })).status, 200);
    assert.deepEqual(JSON.parse(seen.join('')), { texts: ['Is this fine?'] });
    says = '{"allowed":false,"reason":"too rude"}';
    await refused({ content: 'You!' }, 446, /The prompt is refused: \\"too rude\\"/);
    says = 'no JSON';
    await refused({}, 446, /could not be checked/);
    await new Promise((closed) => checker.close(closed));
    await refused({}, 446, /could not be checked/);
    await use(`external-checker.ts: { url: '${url}', when_away: allow }`);
    assert.equal((await asked({})).status, 200);
    assert.match(gateway.stderr, /the checker did not answer/);
  });

  test('header-from-token tells the provider who asks, and only what a token proves', async () => {
    const key = await signingKey();
    const keys = `{ set: ${JSON.stringify({ keys: [key.publicKey] })} }`;
    await use(`header-from-token.ts: { token: X-User-Token, keys: ${keys}, claim: sub, header: X-End-User }`);
    const token = await sign(key, { sub: 'jo', exp: Math.floor(Date.now() / 1000) + 60 });
    const headers = { 'x-service-provider': '@echo', 'x-end-user': 'somebody else', 'x-user-token': token };
    const answer = await gateway.ask({ headers });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.headers.get('x-mock-echo-x-end-user'), 'jo');
    assert.equal(answer.headers.get('x-mock-echo-x-user-token'), null);
    await refused({}, 401, /Send the user's token in X-User-Token/);
    await refused({ headers: { 'x-user-token': await sign(key, { exp: 1 }) } }, 401, /token_invalid/);
  });

  test('tenant-router sends each tenant through its config', async () => {
    await use('tenant-router.ts: { by: tenant, configs: { acme: acme } }');
    const of = (tenant: string) => ({
      headers: { 'x-service-metadata': JSON.stringify({ tenant }), 'x-service-provider': '' },
    });
    assert.match((await asked(of('acme'))).text, /"model":"mock-acme"/);
    await refused(of('initech'), 400, /No tenant \\"initech\\". Say one of acme/);
    await use('tenant-router.ts: { by: tenant, configs: { acme: acme }, otherwise: others }');
    assert.match((await asked(of('initech'))).text, /"model":"mock-others"/);
  });

  test('prompt-logger writes a line for each request', async () => {
    const file = path.join(home.folder, 'prompts.jsonl');
    await use(`prompt-logger.ts: { file: '${file}', longest: 5 }`);
    await asked({ content: 'Hello world' });
    const line = await eventually(
      async () => (await readFile(file, 'utf8').catch(() => '')).trim() || undefined,
      () => `a line in ${file}`,
    );
    const { prompt, model, status } = JSON.parse(line) as Record<string, unknown>;
    assert.deepEqual([prompt, model, status], ['Hello', 'mock-gpt', 200]);
  });

  test('cost-guard refuses what may cost too much, and lets a fallback to a cheaper model pass', async () => {
    await use('cost-guard.ts: { most_usd: 0.01, answer_tokens: 4000, unpriced: refuse }');
    await refused({}, 446, /may cost 0\.04\d\d dollars, and 0\.01 is the most/);
    const body = { model: 'mock-gpt', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 100 };
    assert.equal((await asked({ body })).status, 200);
    const unpriced = { model: 'mock-unheard-of', headers: { 'x-service-provider': '@echo' } };
    await refused(unpriced, 446, /Nobody knows what mock-unheard-of costs/);
    const cheaper = await asked({ headers: { 'x-service-provider': '', 'x-service-config': 'cheaper' } });
    assert.match(cheaper.text, /"model":"mock-small"/);
  });

  test('tool-allow-list refuses other tools, in requests and in answers', async () => {
    await use('tool-allow-list.ts: { tools: [get_weather, search_*] }');
    const call = (names: readonly string[], stream = false) => ({
      model: 'mock-gpt',
      messages: [{ role: 'user', content: 'please get_weather' }],
      tools: tools(...names),
      stream,
    });
    assert.match((await asked({ body: call(['get_weather', 'search_web']) })).text, /"name":"get_weather"/);
    await refused({ body: call(['delete_all']) }, 446, /The tool \\"delete_all\\" is not allowed/);
    const gemini = {
      contents: [{ parts: [{ text: 'Hi' }] }],
      tools: [{ functionDeclarations: [{ name: 'wipe' }] }],
    };
    await refused({ path: 'beta/models/mock-gpt:generateContent', body: gemini }, 446, /"wipe\\?"/);
  });

  test(
    'jailbreak-score asks a local model, and tells the provider its score',
    { skip: packagesMissing() ?? false },
    async () => {
      await symlink(
        fileURLToPath(new URL('../../node_modules', import.meta.url)),
        path.join(home.folder, 'node_modules'),
      );
      const folder = path.join(home.folder, 'model');
      await writeTinyModel(folder, { words: { ignore: 9, rules: 2 }, labels: ['SAFE', 'JAILBREAK'] });
      await use(`jailbreak-score.ts: { folder: '${folder}', label: 1, limit: 0.9 }`);
      await refused({ content: 'Ignore them' }, 446, /looks like a jailbreak/);
      const answer = await gateway.ask({ content: 'My rules', headers: { 'x-service-provider': '@echo' } });
      assert.equal(answer.status, 200, answer.text);
      const score = Number(answer.headers.get('x-mock-echo-x-jailbreak-score'));
      assert.ok(score > 0.1 && score < 0.2, String(score));
    },
  );
});
