import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readArguments, type Command } from './arguments.ts';

const start = (change: Partial<Extract<Command, { name: 'start' }>>): Command => ({
  name: 'start',
  config: undefined,
  port: undefined,
  data: 'data',
  ...change,
});

describe('readArguments', () => {
  const cases: readonly [string, string[], Record<string, string>, Command][] = [
    ['nothing', [], {}, start({})],
    ['flags without a command', ['--port', '9000'], {}, start({ port: 9000 })],
    [
      'everything',
      ['start', '--config', 'a.yaml', '--port=1', '--data', 'd'],
      {},
      start({ config: 'a.yaml', port: 1, data: 'd' }),
    ],
    [
      'the environment',
      ['start'],
      { WEIR_CONFIG: 'e.yaml', PORT: '7', WEIR_DATA: 'ed' },
      start({ config: 'e.yaml', port: 7, data: 'ed' }),
    ],
    ['variables that are set to nothing', [], { WEIR_CONFIG: '', PORT: '', WEIR_DATA: '' }, start({})],
    ['port 0', ['--port', '0'], { PORT: '7' }, start({ port: 0 })],
    ['check with the environment', ['check'], { WEIR_CONFIG: 'e.yaml' }, { name: 'check', file: 'e.yaml' }],
    ['check without a file', ['check'], { WEIR_CONFIG: '' }, { name: 'check', file: undefined }],
    ['check wins over the environment', ['check', 'x'], { WEIR_CONFIG: 'e' }, { name: 'check', file: 'x' }],
    ['the command line wins', ['start', '--port', '8'], { PORT: '7' }, start({ port: 8 })],
    ['check', ['check', 'x.yaml'], {}, { name: 'check', file: 'x.yaml' }],
    ['schema', ['schema'], {}, { name: 'schema' }],
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
  ]) {
    it(`explains ${args.join(' ')}`, () => {
      const command = readArguments(args, {});
      assert.equal(command.name, 'help');
      assert.ok(command.name === 'help' && command.problem);
    });
  }
});
