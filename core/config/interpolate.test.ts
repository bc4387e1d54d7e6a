import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { configOf, load, minimal, problemsOf, type Env } from './load-texts.test-support.ts';
import { formatProblem } from './problem.ts';

describe('loadConfig: variables', () => {
  const provider = (value: string): string => `${minimal}providers: { openai: { api_key: ${value} } }\n`;
  const keyOf = async (value: string, env: Env, files: Record<string, string> = {}): Promise<unknown> => {
    const { config } = await configOf({ 'main.yaml': provider(value), ...files }, env);
    return config.providers.openai?.api_key;
  };

  it('replaces them in plain, quoted and block texts', async () => {
    const env = { A: 'one', B: 'two' };
    assert.equal(await keyOf('"x-${A}-${B}"', env), 'x-one-two');
    assert.equal(await keyOf("'${C:-three}'", env), 'three');
    assert.equal(await keyOf('"${A:-three}"', { A: '' }), 'three');
    assert.equal(await keyOf('"$${A}"', env), '${A}');
    const { config } = await configOf(
      `${minimal}providers:\n  openai:\n    service: \${B}\n    api_key: |-\n      \${A}\n      b\n`,
      env,
    );
    assert.deepEqual(config.providers.openai, { service: 'two', api_key: 'one\nb' });
  });

  it('never lets a value become structure', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ minLength: 1 }), async (value) => {
        assert.equal(await keyOf('"${A}"', { A: value }), value);
      }),
      { numRuns: 50 },
    );
    assert.equal(await keyOf('"${A}"', { A: 'x", evil: "${B}\n- *a' }), 'x", evil: "${B}\n- *a');
  });

  it('reads files relative to the YAML file, without the last line break', async () => {
    const files = { 'secrets/key': 'from file\n' };
    assert.equal(await keyOf('"${file:secrets/key}"', {}, files), 'from file');
    assert.equal(await keyOf('"${file:/c/secrets/key}"', {}, files), 'from file');
    const { source } = await configOf({ 'main.yaml': provider('"${file:secrets/key}"'), ...files });
    assert.deepEqual(source.files, ['/c/main.yaml', '/c/secrets/key']);
  });

  it('says which file is missing and watches for it', async () => {
    const result = await load({ 'main.yaml': provider('"${file:key}"') });
    assert.ok(!result.ok);
    assert.deepEqual(result.problems.map(formatProblem), [
      '/c/main.yaml:3:33: the file in ${file:key} does not exist; create it or correct the name',
    ]);
    assert.deepEqual(result.files, ['/c/main.yaml', '/c/key']);
  });

  it('turns a whole variable into what the schema wants', async () => {
    const text = [
      minimal.replace('[auth]', '[{ cache: { on_error: "${E}", timeout_ms: "${T}", ttl: "${T}" } }]'),
      'server: { port: "${PORT}", host: "${PORT}" }\n',
    ].join('');
    const { config } = await configOf(text, { PORT: '8080', E: 'skip', T: '5' });
    assert.equal(config.server.port, 8080);
    assert.equal(config.server.host, '8080');
    const plugin = config.pipelines[0]?.plugins[0];
    assert.deepEqual([plugin?.onError, plugin?.timeoutMs, plugin?.options], ['skip', 5, { ttl: '5' }]);
  });

  it('does not turn a part of a text into a number', async () => {
    assert.deepEqual(await problemsOf(`${minimal}server: { port: "8\${A}" }\n`, { A: '0' }), [
      'main.yaml:3:17: "port": expected a whole number from 0 to 65535, found a text with ${A} in it',
    ]);
  });

  it('does not shadow other problems, nor cause any', async () => {
    const text = `${minimal}server: { port: "\${NONE}", header_prefix: "\${NONE}", host: 5 }\n`;
    assert.deepEqual(
      (await problemsOf(text)).map((problem) => problem.slice(0, 60)),
      [
        'main.yaml:3:17: the environment variable NONE is not set; se',
        'main.yaml:3:43: the environment variable NONE is not set; se',
        'main.yaml:3:60: "host": expected text, found 5; put it in qu',
      ],
    );
  });

  it('refuses them in keys and includes', async () => {
    assert.deepEqual(
      await problemsOf(`${minimal}providers: { "\${A}": {} }\n`, { A: 'x' }).then((all) => all[0]),
      'main.yaml:3:14: variables are not replaced in keys; write the key itself',
    );
    assert.deepEqual(await problemsOf(`include: ["\${A}.yaml"]\n${minimal}`, { A: 'x' }), [
      'main.yaml:1:11: variables are not replaced in "include"; write the path itself',
    ]);
  });

  it('never shows what a variable or a secret holds', async () => {
    const secret = 'hunter2-super-secret';
    const text = [
      minimal.replace('/**', '"${S}"').replace('[auth]', '[{ x: { on_error: "${S}" } }]'),
      'server: { port: "${S}", header_prefix: "a ${S}", operations: "${S}", header_aliases: ["${S} b"] }\n',
      'log: "${S}"\n',
      'storage: { analytics: { url: "${file:s}" }, counters: { url: "x${S}" } }\n',
      `providers: { a: { api_key: [${secret}], dialect: "\${S}", base_url: "\${S}" } }\n`,
    ].join('');
    const problems = await problemsOf({ 'main.yaml': text, s: secret }, { S: secret });
    assert.equal(problems.length, 12);
    assert.doesNotMatch(problems.join('\n'), new RegExp(secret));
    assert.ok(problems.some((problem) => problem.includes('found the value of ${S}')));
    assert.ok(problems.some((problem) => problem.includes('found the value of ${file:s}')));
  });

  it('has a digest that knows texts but no secrets', async () => {
    const digest = async (text: string, env: Env, secret: string): Promise<string> =>
      (await configOf({ 'main.yaml': text, key: secret }, env)).source.digest;
    const text = provider('"${A}${file:key}"');
    const first = await digest(text, { A: '1' }, 'x');
    assert.match(first, /^[0-9a-f]{64}$/);
    assert.equal(await digest(text, { A: '2' }, 'y'), first);
    assert.notEqual(await digest(`${text}# changed\n`, { A: '1' }, 'x'), first);
  });
});
