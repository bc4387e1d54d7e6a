import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, describe, it } from 'node:test';
import fc from 'fast-check';
import { loadConfig, type LoadResult } from './load-config.ts';
import { formatProblem } from './problem.ts';

type Env = Record<string, string | undefined>;

/** Loads `/c/main.yaml` from texts by name; a missing name is a missing file. */
function load(files: Record<string, string>, env: Env = {}): Promise<LoadResult> {
  const readFile = (path: string): Promise<Buffer> => {
    const text = files[path.replace('/c/', '')];
    if (text !== undefined) return Promise.resolve(Buffer.from(text));
    return Promise.reject(Object.assign(new Error('missing'), { code: 'ENOENT' }));
  };
  return loadConfig('/c/main.yaml', { env, readFile });
}

async function problemsOf(files: Record<string, string> | string, env?: Env): Promise<string[]> {
  const result = await load(typeof files === 'string' ? { 'main.yaml': files } : files, env);
  assert.ok(!result.ok, 'the configuration should be refused');
  return result.problems.map((problem) => formatProblem(problem).replaceAll('/c/', ''));
}

async function configOf(files: Record<string, string> | string, env?: Env) {
  const result = await load(typeof files === 'string' ? { 'main.yaml': files } : files, env);
  assert.deepEqual(result.ok ? [] : result.problems.map(formatProblem), []);
  assert.ok(result.ok);
  return result;
}

const pipelines = 'pipelines: [{ name: gateway, match: { path: /** }, plugins: [auth] }]\n';
const minimal = `version: 1\n${pipelines}`;

describe('loadConfig: defaults', () => {
  it('fills in every section of the smallest file', async () => {
    const { config } = await configOf(minimal);
    assert.equal(config.server.port, 8787);
    assert.deepEqual(config.server.header_aliases, ['x-portkey']);
    assert.deepEqual(config.security, { trusted_hosts: [], key_prefix: 'wk_' });
    assert.deepEqual(config.storage, {
      analytics: { url: 'chdb:' },
      counters: { url: 'memory:' },
      journal: { flush_ms: 20, ship_ms: 1000, max_bytes: 2147483648 },
    });
    assert.deepEqual(config.log, { level: 'info', format: 'text' });
    assert.deepEqual(config.providers, {});
  });

  it('gives every load its own defaults', async () => {
    const first = await configOf(minimal);
    first.config.server.header_aliases.push('x-changed');
    assert.deepEqual((await configOf(minimal)).config.server.header_aliases, ['x-portkey']);
  });

  it('keeps what is written, in either spelling', async () => {
    const { config } = await configOf(`${minimal}server: { basePath: /api, max_body_bytes: 2048 }\n`);
    assert.equal(config.server.base_path, '/api');
    assert.equal(config.server.max_body_bytes, 2048);
  });
});

describe('loadConfig: plugins', () => {
  it('sets reserved options apart and keeps pointers and files', async () => {
    const text = [
      'version: 1',
      'pipelines:',
      '  - name: gateway',
      '    match: { path: /** }',
      '    plugins:',
      '      - auth',
      '      - ./guards/names.ts: { names: [Initech], on_error: skip, timeoutMs: 250 }',
      '      - cache:',
    ];
    const { config, source } = await configOf(text.join('\n'));
    const names = '/pipelines/0/plugins/1';
    assert.deepEqual(config.pipelines[0]?.plugins, [
      {
        ...{ use: 'auth', options: {}, onError: undefined, timeoutMs: undefined, file: '/c/main.yaml' },
        ...{ pointer: '/pipelines/0/plugins/0', optionsPointer: '/pipelines/0/plugins/0' },
      },
      {
        ...{ use: './guards/names.ts', options: { names: ['Initech'] }, onError: 'skip', timeoutMs: 250 },
        ...{ pointer: names, optionsPointer: `${names}/.~1guards~1names.ts`, file: '/c/main.yaml' },
      },
      {
        ...{ use: 'cache', options: {}, onError: undefined, timeoutMs: undefined, file: '/c/main.yaml' },
        ...{ pointer: '/pipelines/0/plugins/2', optionsPointer: '/pipelines/0/plugins/2/cache' },
      },
    ]);
    assert.deepEqual(source.locate(`${names}/.~1guards~1names.ts/names/0`), {
      file: '/c/main.yaml',
      line: 7,
      column: 38,
    });
  });

  it('explains the commonest mistakes', async () => {
    const text = [
      'version: 1',
      'pipelines:',
      '  - name: gateway',
      '    match: { path: /** }',
      '    plugins:',
      '      - cache:',
      '        mode: simple',
      '      - cache: simple',
      '      - 7',
      '      - cache: { on_error: skp, timeout_ms: -1 }',
    ];
    assert.deepEqual(await problemsOf(text.join('\n')), [
      'main.yaml:6:9: "plugins", item 1: expected one plugin name with its options indented below it, found an object with the keys "cache" and "mode"',
      'main.yaml:8:16: the options of "cache" must be an object: keys indented below the name',
      'main.yaml:9:9: "plugins", item 3: expected the name of a plugin, alone or with its options indented below it, found 7',
      'main.yaml:10:28: "on_error": expected "fail" or "skip", found "skp"; did you mean "skip"?',
      'main.yaml:10:45: "timeout_ms": expected a whole number from 0 to 600000, found -1',
    ]);
  });
});

describe('loadConfig: problems', () => {
  it('reports all mistakes of a file at once, in file order', async () => {
    const text = [
      '# The gateway of the größte team',
      'version: 1',
      'server: { port: "87x", header_prefx: x-team }   # two in a line',
      'log:',
      '  level: wran',
      'providers:',
      '  openai:',
      '    api_key: ${OPENAI_API_KEY}',
      'pipelines:',
      '  - match: { path: "/**" }',
      '    plugins: []',
    ];
    const expected = [
      'main.yaml:3:17: "port": expected a whole number from 0 to 65535, found "87x"',
      'main.yaml:3:24: unknown key "header_prefx"; did you mean "header_prefix"?',
      'main.yaml:5:10: "level": expected "debug", "info", "warn" or "error", found "wran"; did you mean "warn"?',
      'main.yaml:8:14: the environment variable OPENAI_API_KEY is not set; set it, or give a default: ${OPENAI_API_KEY:-default}',
      'main.yaml:10:5: missing key "name": a name of letters, digits, "-" and "_"',
      'main.yaml:11:14: "plugins": expected a list of 1 to 64 items, found an empty list',
    ];
    assert.deepEqual(await problemsOf(text.join('\n')), expected);
    assert.deepEqual(await problemsOf(text.join('\r\n')), expected);
  });

  const single: readonly [string, string, string][] = [
    [
      'an empty file',
      '# nothing yet\n',
      'main.yaml: the configuration file is empty; it needs at least "version: 1" and "pipelines"',
    ],
    ['a list', '- a\n', 'main.yaml:1:1: the file must hold an object: keys such as "pipelines:"'],
    ['no pipelines', 'version: 1\n', 'main.yaml:1:1: missing key "pipelines": a list of 1 to 64 items'],
    ['another version', minimal.replace('1', '2'), 'main.yaml:1:10: "version": expected 1, found 2'],
    [
      'an empty section',
      `${minimal}server:\n`,
      'main.yaml:3:1: "server": expected an object, found nothing; give it a value or remove the key',
    ],
    [
      'quotes too many',
      `${minimal}server: { port: "80" }\n`,
      'main.yaml:3:17: "port": expected a whole number from 0 to 65535, found "80"; remove the quotes',
    ],
    [
      'quotes missing',
      `${minimal}server: { host: 10 }\n`,
      'main.yaml:3:17: "host": expected text, found 10; put it in quotes',
    ],
    [
      'both spellings',
      `${minimal}server: { base_path: /a, basePath: /b }\n`,
      'main.yaml:3:26: "base_path" and "basePath" are two spellings of the same key; keep one',
    ],
    [
      'a bad name',
      `${minimal}providers: { "my own": {} }\n`,
      'main.yaml:3:14: "my own" cannot be a name here; names must match ^[A-Za-z0-9][A-Za-z0-9_-]*$',
    ],
    [
      'an unknown key unlike any',
      `${minimal}log: { colour: red }\n`,
      'main.yaml:3:8: unknown key "colour"; known here: level and format',
    ],
    [
      'an item of a list',
      `${minimal}server: { header_aliases: [x-a, X_B] }\n`,
      'main.yaml:3:33: "header_aliases", item 2: expected lower-case words joined by hyphens, found "X_B"',
    ],
    [
      'a match without rules',
      minimal.replace('{ path: /** }', '{}'),
      'main.yaml:2:37: "match": expected an object with "routes" or "path", found an empty object',
    ],
    [
      'a misspelled key that is required, once',
      minimal.replace('plugins', 'plugin'),
      'main.yaml:2:52: unknown key "plugin"; did you mean "plugins"?',
    ],
  ];
  for (const [name, text, expected] of single)
    it(`explains ${name}`, async () => assert.deepEqual(await problemsOf(text), [expected]));

  it('says when the file is missing, or a directory, and what to watch', async () => {
    const missing = await load({});
    assert.ok(!missing.ok);
    assert.deepEqual(missing.problems.map(formatProblem), [
      '/c/main.yaml: the configuration file does not exist; create it or correct the name',
    ]);
    assert.deepEqual(missing.files, ['/c/main.yaml']);
    const folder = await loadConfig(tmpdir(), { env: {} });
    assert.ok(!folder.ok);
    assert.match(
      folder.problems.map(formatProblem).join(),
      /the configuration file is a directory, not a file/,
    );
  });

  it('reports a bounded number of problems', async () => {
    const keys = Array.from({ length: 500 }, (_, index) => `q${index}x: 1`).join('\n');
    const problems = await problemsOf(`${minimal}${keys}\n`);
    assert.equal(problems.length, 100);
    assert.match(problems.at(-1) ?? '', /400 more problems are left out/);
  });
});

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

describe('loadConfig: includes', () => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-include-'));
  after(() => rmSync(folder, { recursive: true }));
  let number = 0;
  /** Loads `main.yaml` of a new folder with these files. */
  const loadFolder = async (files: Record<string, string>, env: Env = {}) => {
    const base = join(folder, String(number++));
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(base, name)), { recursive: true });
      writeFileSync(join(base, name), text);
    }
    const result = await loadConfig(join(base, 'main.yaml'), { env });
    const problems = result.ok ? result.warnings : result.problems;
    const watched = result.ok ? result.source.files : result.files;
    return {
      result,
      problems: problems.map((problem) => formatProblem(problem).replaceAll(`${base}/`, '')),
      files: watched.map((file) => file.replace(`${base}/`, '')),
    };
  };
  const pipeline = (name: string): string =>
    `pipelines:\n  - { name: ${name}, match: { path: / }, plugins: [{ p: { file: x } }] }\n`;

  it('merges keys, appends lists in order, and keeps places and files', async () => {
    const { result, files } = await loadFolder({
      'main.yaml': `version: 1\ninclude: [conf.d/*.yaml, one.yaml]\nserver: { port: 1 }\n${pipeline('main')}`,
      'conf.d/b.yaml': `server: { host: "0.0.0.0" }\n${pipeline('b')}`,
      'conf.d/a.yaml': `version: 1\ninclude: [deep/../deep/more.yaml]\n${pipeline('a')}`,
      'conf.d/deep/more.yaml': `# empty above\n\n${pipeline('more')}`,
      'one.yaml': 'providers: { local: { base_url: "http://127.0.0.1:1/v1", api_key: "${file:key}" } }\n',
      key: 'k\n',
      'conf.d/.hidden.yaml': 'nonsense: true\n',
    });
    assert.ok(result.ok);
    const { config, source } = result;
    assert.deepEqual(
      config.pipelines.map(({ name }) => name),
      ['main', 'a', 'more', 'b'],
    );
    assert.deepEqual([config.server.port, config.server.host], [1, '0.0.0.0']);
    assert.equal(config.providers.local?.api_key, 'k');
    assert.deepEqual(files, [
      ...['main.yaml', 'conf.d/a.yaml', 'conf.d/b.yaml', 'conf.d/deep/more.yaml', 'one.yaml', 'key'],
      'conf.d/*.yaml',
    ]);
    const entry = config.pipelines[2]?.plugins[0];
    assert.ok(entry);
    assert.match(entry.file, /conf\.d\/deep\/more\.yaml$/);
    const place = source.locate(`${entry.optionsPointer}/file`);
    assert.match(place.file, /\d+\/conf\.d\/deep\/more\.yaml$/);
    assert.deepEqual([place.line, place.column], [4, 62]);
  });

  it('names both places when values differ, and neither value', async () => {
    const { problems } = await loadFolder({
      'main.yaml': `version: 1\ninclude: [a.yaml]\nserver: { host: one, port: 5, header_aliases: [x] }\n${pipeline('m')}`,
      'a.yaml': 'version: 1\nserver:\n  host: two\n  port: 5\n  header_aliases: y\n',
    });
    assert.deepEqual(problems, [
      'a.yaml:3:9: this key has another value at main.yaml:3:17; keep one of them',
      'a.yaml:5:19: this key is a single value here and a list at main.yaml:3:47; keep one of them',
    ]);
  });

  it('finds a problem in the file where it stands', async () => {
    const { problems } = await loadFolder({
      'main.yaml': `version: 1\ninclude: [a.yaml]\nserver: { base_path: /a, prt: 1 }\n${pipeline('m')}`,
      'a.yaml': `server:\n  basePath: /b\n  hst: x\n${pipeline('9-_/')}`,
    });
    assert.deepEqual(problems, [
      'main.yaml:3:26: unknown key "prt"; did you mean "port"?',
      'a.yaml:2:3: "base_path" and "basePath" are two spellings of the same key; keep one',
      'a.yaml:3:3: unknown key "hst"; did you mean "host"?',
      'a.yaml:5:13: "name": expected a name of letters, digits, "-" and "_", found "9-_/"',
    ]);
  });

  it('refuses a circle', async () => {
    const { problems } = await loadFolder({
      'main.yaml': `version: 1\ninclude: [a.yaml]\n${pipeline('m')}`,
      'a.yaml': 'include: [sub/b.yaml]\n',
      'sub/b.yaml': 'include:\n  - ../main.yaml\n',
    });
    assert.deepEqual(problems, [
      'sub/b.yaml:2:5: the includes go round in a circle: main.yaml → a.yaml → sub/b.yaml → main.yaml; remove one of them',
    ]);
  });

  it('reads a file once, and a pattern means the other files', async () => {
    const { result } = await loadFolder({
      'main.yaml': `version: 1\ninclude: ["*.yaml", a.yaml]\n${pipeline('m')}`,
      'a.yaml': pipeline('a'),
      'b.yaml': `include: [a.yaml]\n${pipeline('b')}`,
    });
    assert.ok(result.ok);
    assert.deepEqual(
      result.config.pipelines.map(({ name }) => name),
      ['m', 'a', 'b'],
    );
  });

  it('warns of a pattern without files but refuses a name without a file', async () => {
    const main = (include: string): Record<string, string> => ({
      'main.yaml': `version: 1\ninclude:\n  - ${include}\n${pipeline('m')}`,
    });
    const pattern = await loadFolder(main('conf.d/*.yaml'));
    assert.ok(pattern.result.ok);
    assert.deepEqual(pattern.problems, [
      'main.yaml:3:5: warning: no file matches "conf.d/*.yaml"; correct the pattern or remove it',
    ]);
    const name = await loadFolder(main('conf.d/a.yaml'));
    assert.ok(!name.result.ok);
    assert.deepEqual(name.problems, [
      'main.yaml:3:5: the included file conf.d/a.yaml does not exist; create it or correct the name',
    ]);
    assert.deepEqual(name.files, ['main.yaml', 'conf.d/a.yaml']);
  });

  it('reports broken YAML of all files at once, and nothing that follows from it', async () => {
    const { problems } = await loadFolder({
      'main.yaml': 'version: 1\ninclude: [a.yaml, b.yaml]\n',
      'a.yaml': 'pipelines:\n\t- x\n',
      'b.yaml': 'a: 1\na: 2\n',
    });
    assert.deepEqual(
      problems.map((problem) => problem.split(': ')[0]),
      ['a.yaml:2:1', 'b.yaml:2:1'],
    );
  });

  for (const [written, expected] of [
    ['include: a.yaml', 'main.yaml:1:1: "include" must be a list of file names or patterns'],
    ['include: [5]', 'main.yaml:1:11: an include must be the name of a file or a pattern'],
    [`include: [${'x,'.repeat(101)}]`, 'main.yaml:1:1: "include" may hold at most 100 entries'],
  ] as const)
    it(`refuses ${written.slice(0, 20)}`, async () => {
      const { problems } = await loadFolder({ 'main.yaml': `${written}\nversion: 1\n${pipeline('m')}` });
      assert.deepEqual(problems, [expected]);
    });

  it('reads a bounded number of files', async () => {
    const many = Object.fromEntries(
      Array.from({ length: 120 }, (_, index) => [`d/${index}.yaml`, 'version: 1\n']),
    );
    const { problems } = await loadFolder({ 'main.yaml': `include: [d/*.yaml]\n${minimal}`, ...many });
    assert.deepEqual(problems, ['main.yaml:1:11: more than 100 files are included']);
  });
});
