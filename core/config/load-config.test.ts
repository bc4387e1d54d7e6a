import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { loadConfig } from './load-config.ts';
import { configOf, load, minimal, problemsOf } from './load-texts.test-support.ts';
import { formatProblem } from './problem.ts';
import { GatewayConfigSchema } from './schema.ts';
import { validateValue } from './validate-value.ts';

describe('loadConfig: defaults', () => {
  it('fills in every section of the smallest file', async () => {
    const { config } = await configOf(minimal);
    assert.equal(config.server.port, 8787);
    assert.deepEqual(config.server.header_aliases, ['x-portkey']);
    assert.deepEqual(config.security, {
      trusted_hosts: [],
      key_prefix: 'wk_',
      directory_max_age: 900,
      refused_attempts_days: 30,
      secret_sources: { environment_prefix: '', folder: '', machine_identity: false },
    });
    assert.deepEqual(config.storage, {
      engine_start_ms: 300_000,
      redis_budget_ms: 50,
      resources: { url: 'pglite:' },
      analytics: {
        url: 'chdb:',
        replicated: false,
        replica_path: '/clickhouse/tables/{shard}/{database}/{table}',
        replica_name: '{replica}',
        sharded: false,
        insert_quorum_parallel: true,
        text_index: true,
        max_memory_bytes: 1_073_741_824,
        max_queued_queries: 32,
        query_timeout_s: 20,
      },
      counters: { url: 'memory:' },
      cache: { max_bytes: 134217728, max_value_bytes: 4194304 },
      journal: {
        flush_ms: 20,
        ship_ms: 1000,
        max_age_hours: 72,
        when_full: 'shed',
        block_ms: 10000,
        sync: 'interval',
        sync_ms: 1000,
      },
      jobs: {},
    });
    assert.deepEqual(config.retention, { logs_days: 90, bodies_days: 30, metrics_days: 365 });
    assert.deepEqual(config.log, { level: 'info', format: 'text' });
    assert.deepEqual(config.providers, {});
  });

  it('fills in what the whole schema accepts, of which a load compiles only what is written', async () => {
    const { config } = await configOf(minimal);
    const written = [{ name: 'gateway', match: { path: '/**' }, plugins: ['logger'] }];
    assert.deepEqual(validateValue(GatewayConfigSchema, { ...config, pipelines: written }).issues, []);
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
        use: 'auth',
        options: {},
        onError: undefined,
        timeoutMs: undefined,
        file: '/c/main.yaml',
        pointer: '/pipelines/0/plugins/0',
        optionsPointer: '/pipelines/0/plugins/0',
      },
      {
        use: './guards/names.ts',
        options: { names: ['Initech'] },
        onError: 'skip',
        timeoutMs: 250,
        pointer: names,
        optionsPointer: `${names}/.~1guards~1names.ts`,
        file: '/c/main.yaml',
      },
      {
        use: 'cache',
        options: {},
        onError: undefined,
        timeoutMs: undefined,
        file: '/c/main.yaml',
        pointer: '/pipelines/0/plugins/2',
        optionsPointer: '/pipelines/0/plugins/2/cache',
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
    ['no pipelines', 'version: 1\n', 'main.yaml:1:1: missing key "pipelines": a list of 1 to 1000 items'],
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

  it('never throws, and says where, whatever the file holds', async () => {
    const words = [
      'version: 1',
      'server:',
      '  port: 1',
      'pipelines:',
      '- name: a',
      '\n',
      ' ',
      '&a',
      '*a',
      '${A}',
    ];
    const yaml = fc
      .array(
        fc.constantFrom(
          ...words,
          '"',
          "'",
          '{',
          '}',
          '[',
          ']',
          '|',
          ':',
          '- ',
          '\t',
          '#',
          '!x',
          '---',
          '<<: ',
        ),
      )
      .map((parts) => parts.join(''));
    const section = fc.constantFrom(
      'server',
      'storage',
      'log',
      'security',
      'providers',
      'pipelines',
      'include',
    );
    const json = fc
      .tuple(section, fc.jsonValue())
      .map(([key, value]) => `${minimal}\n${JSON.stringify({ [key]: value }).slice(1, -1)}\n`);
    const written = fc
      .tuple(section, fc.jsonValue())
      .map(([key, value]) => JSON.stringify({ version: 1, [key]: value }));
    await fc.assert(
      fc.asyncProperty(fc.oneof(yaml, json, written, fc.string()), async (text) => {
        const result = await load({ 'main.yaml': text });
        if (result.ok) return;
        assert.ok(result.problems.length > 0);
        for (const { file, line, message } of result.problems) {
          assert.equal(file, '/c/main.yaml');
          assert.ok(line > 0 || message.includes('the configuration file'));
        }
      }),
      { numRuns: 400 },
    );
  });

  it('reports a bounded number of problems', async () => {
    const keys = Array.from({ length: 500 }, (_, index) => `q${index}x: 1`).join('\n');
    const problems = await problemsOf(`${minimal}${keys}\n`);
    assert.equal(problems.length, 100);
    assert.match(problems.at(-1) ?? '', /400 more problems are left out/);
  });
});
