import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it, test } from 'node:test';
import { type Command, readArguments, version } from './arguments.ts';

const start = (change: Partial<Extract<Command, { name: 'start' }>>): Command => ({
  name: 'start',
  config: undefined,
  port: undefined,
  host: undefined,
  data: 'data',
  ...change,
});

const check = { name: 'check', data: 'data', withoutCode: false, watch: false } as const;

test('weir --version prints the version of the package', () => {
  const { version: packaged } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
  assert.equal(version, packaged);
});

describe('readArguments', () => {
  const cases: readonly [string, string[], Record<string, string>, Command][] = [
    ['nothing', [], {}, start({})],
    ['flags without a command', ['--port', '9000'], {}, start({ port: 9000 })],
    [
      'everything',
      ['start', '--config', 'a.yaml', '--port=1', '--host', '::', '--data', 'd'],
      {},
      start({ config: 'a.yaml', port: 1, host: '::', data: 'd' }),
    ],
    [
      'the environment',
      ['start'],
      { WEIR_CONFIG: 'e.yaml', PORT: '7', WEIR_HOST: '0.0.0.0', WEIR_DATA: 'ed' },
      start({ config: 'e.yaml', port: 7, host: '0.0.0.0', data: 'ed' }),
    ],
    ['a drain delay', [], { WEIR_DRAIN_DELAY_MS: '0' }, start({ drainDelayMs: 0 })],
    ['variables that are set to nothing', [], { WEIR_CONFIG: '', PORT: '', WEIR_DATA: '' }, start({})],
    ['port 0', ['--port', '0'], { PORT: '7' }, start({ port: 0 })],
    ['check with the environment', ['check'], { WEIR_CONFIG: 'e.yaml' }, { ...check, file: 'e.yaml' }],
    ['check without a file', ['check'], { WEIR_CONFIG: '' }, { ...check, file: undefined }],
    ['check wins over the environment', ['check', 'x'], { WEIR_CONFIG: 'e' }, { ...check, file: 'x' }],
    ['the command line wins', ['start', '--port', '8'], { PORT: '7' }, start({ port: 8 })],
    ['check', ['check', 'x.yaml'], {}, { ...check, file: 'x.yaml' }],
    [
      'check without code',
      ['check', 'x', '--no-plugins', '--data', 'd'],
      { WEIR_DATA: 'e' },
      { name: 'check', file: 'x', data: 'd', withoutCode: true, watch: false },
    ],
    ['version', ['--version'], {}, { name: 'version' }],
    ['schema', ['schema'], {}, { name: 'schema' }],
    [
      'the tables of ClickHouse',
      ['clickhouse', 'schema', '--config', 'c.yaml', '--one-server'],
      {},
      { name: 'clickhouse', config: 'c.yaml', oneServer: true },
    ],
    [
      'the tables of ClickHouse, with the environment',
      ['clickhouse', 'schema'],
      { WEIR_CONFIG: 'e.yaml' },
      { name: 'clickhouse', config: 'e.yaml', oneServer: false },
    ],
    [
      'journal status',
      ['journal', 'status', '--json'],
      { WEIR_DATA: 'd' },
      { name: 'journal', action: 'status', data: 'd', json: true },
    ],
    [
      'journal verify',
      ['journal', 'verify', '--data', 'x'],
      { WEIR_DATA: 'd' },
      { name: 'journal', action: 'verify', data: 'x', json: false },
    ],
    [
      'journal replay of the quarantine',
      ['journal', 'replay', '--quarantine'],
      { WEIR_CONFIG: 'c.yaml', WEIR_DATA: '' },
      {
        name: 'journal',
        action: 'replay',
        data: 'data',
        json: false,
        config: 'c.yaml',
        quarantine: true,
        files: [],
        table: undefined,
      },
    ],
    [
      'journal replay of files',
      ['journal', 'replay', 'a', '--table=bodies', 'b', '--config', 'e.yaml', '--json'],
      {},
      {
        name: 'journal',
        action: 'replay',
        data: 'data',
        json: true,
        config: 'e.yaml',
        quarantine: false,
        files: ['a', 'b'],
        table: 'bodies',
      },
    ],
    [
      'export',
      ['export'],
      { WEIR_DATA: 'd', WEIR_CONFIG: 'c.yaml' },
      { name: 'export', data: 'd', config: 'c.yaml', out: undefined, organisation: undefined },
    ],
    [
      'export of one organisation into a file',
      ['export', '--out', 'o.yaml', '--organisation=x', '--data', 'd', '--config', 'c'],
      { WEIR_DATA: 'e' },
      { name: 'export', data: 'd', config: 'c', out: 'o.yaml', organisation: 'x' },
    ],
    [
      'import',
      ['import', 'o.yaml', '--replace'],
      {},
      { name: 'import', data: 'data', config: undefined, file: 'o.yaml', replace: true },
    ],
    [
      'audit verify',
      ['audit', 'verify', '--organisation', 'x'],
      {},
      { name: 'audit', data: 'data', config: undefined, organisation: 'x' },
    ],
    ['import alone', ['import'], {}, { name: 'help', topic: 'import' }],
    ['audit alone', ['audit'], {}, { name: 'help', topic: 'audit' }],
    ['export --help', ['export', '--help'], {}, { name: 'help', topic: 'export' }],
    ['journal alone', ['journal'], {}, { name: 'help', topic: 'journal' }],
    ['journal --help', ['journal', 'replay', '--help'], {}, { name: 'help', topic: 'journal' }],
    [
      'explain',
      ['explain', '--config', 'c', '--request', 'r.json', '--json'],
      { WEIR_CONFIG: 'e.yaml' },
      { name: 'explain', config: 'c', request: 'r.json', file: 'e.yaml', json: true },
    ],
    [
      'explain with a configuration',
      ['explain', '--file=f.yaml', '--config', '{"provider":"x"}', '--request', 'r'],
      { WEIR_CONFIG: 'e.yaml' },
      { name: 'explain', config: '{"provider":"x"}', request: 'r', file: 'f.yaml', json: false },
    ],
    ['explain alone', ['explain'], {}, { name: 'help', topic: 'explain' }],
    ['explain --help', ['explain', '--config', 'c', '-h'], {}, { name: 'help', topic: 'explain' }],
    ['help', ['start', '--help'], {}, { name: 'help' }],
  ];
  for (const [name, args, env, expected] of cases) {
    it(name, () => assert.deepEqual(readArguments(args, env), expected));
  }

  for (const args of [
    ['start', '--prot', '1'],
    ['start', '--port', 'x'],
    ['start', '--port', '70000'],
    ['chek'],
    ['check', 'a', 'b'],
    ['start', 'file.yaml'],
    ['schema', 'more'],
    ['start', '--port', '65536'],
    ['start', '--config'],
    ['explain', '--config', 'c'],
    ['explain', '--request', 'r'],
    ['explain', '--config', 'c', '--request', 'r', 'more'],
    ['journal', 'stat'],
    ['journal', 'status', 'more'],
    ['journal', 'verify', '--config', 'x'],
    ['journal', 'replay'],
    ['journal', 'replay', '--quarantine', 'file'],
    ['journal', 'replay', 'file', '--table', 'rows'],
  ]) {
    it(`explains ${args.join(' ')}`, () => {
      const command = readArguments(args, {});
      assert.equal(command.name, 'help');
      assert.ok(command.name === 'help' && command.problem);
    });
  }
});

test('weir plugin says which plugin, and what is wrong with its arguments', () => {
  const read = (...args: string[]) => readArguments(['plugin', ...args], {});
  assert.deepEqual(read('new', 'my-check'), { name: 'plugin', action: 'new', plugin: 'my-check' });
  assert.deepEqual(read('test', './p.ts', '--options', '{"a":1}', '--answer', 'x'), {
    name: 'plugin',
    action: 'test',
    file: './p.ts',
    options: { a: 1 },
    prompt: undefined,
    answer: 'x',
  });
  assert.deepEqual(read('docs', './p.ts'), {
    name: 'plugin',
    action: 'docs',
    file: './p.ts',
    options: undefined,
  });
  const wrong: readonly (readonly [string[], RegExp])[] = [
    [['make', 'x'], /knows new, test and docs, not "make"/],
    [['test'], /takes one file/],
    [['new', 'a', 'b'], /takes one name/],
    [['new', 'a', '--options', '{}'], /new takes no --options/],
    [['test', './p.ts', '--options', '[1]'], /no JSON object/],
  ];
  for (const [args, problem] of wrong) {
    const said = read(...args);
    assert.match(said.name === 'help' ? (said.problem ?? '') : '', problem);
  }
});
