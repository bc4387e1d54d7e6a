import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PluginOrigins, frameWithin } from './plugin-errors.ts';

function thrownWith(...lines: string[]): Error {
  const error = new Error('boom');
  error.stack = ['Error: boom', ...lines.map((line) => `    at ${line}`)].join('\n');
  return error;
}

const origins = new PluginOrigins();
origins.record('deny', ['/their folder/deny.ts', '/data/plugins/0a1b.mjs', '/their folder/shared.ts']);
origins.record('allow', ['/their folder/allow.ts', '/their folder/shared.ts']);

const cases: { name: string; thrown: unknown; plugin: string | undefined }[] = [
  { name: 'a source path', thrown: thrownWith('Object.create (/their folder/deny.ts:5:9)'), plugin: 'deny' },
  { name: 'a bundle', thrown: thrownWith('file:///data/plugins/0a1b.mjs:5:9'), plugin: 'deny' },
  {
    name: 'an encoded URL',
    thrown: thrownWith('async go (file:///their%20folder/deny.ts:5:9)'),
    plugin: 'deny',
  },
  {
    name: 'an async frame without a name',
    thrown: thrownWith('async /data/plugins/0a1b.mjs:1:1'),
    plugin: 'deny',
  },
  {
    name: 'a frame below the gateway and the runtime',
    thrown: thrownWith(
      'node:internal/timers:581:17',
      'take (/weir/storage/memory.ts:1:1)',
      'x (/their folder/allow.ts:1:1)',
    ),
    plugin: 'allow',
  },
  {
    name: 'a shared module above a file of its own',
    thrown: thrownWith('shared (/their folder/shared.ts:1:1)', 'go (/their folder/allow.ts:2:2)'),
    plugin: 'allow',
  },
  {
    name: 'a shared module alone',
    thrown: thrownWith('shared (/their folder/shared.ts:1:1)'),
    plugin: 'deny',
  },
  {
    name: 'the cause',
    thrown: new Error('outer', { cause: thrownWith('x (/their folder/deny.ts:1:1)') }),
    plugin: 'deny',
  },
  { name: 'somebody else', thrown: thrownWith('x (/weir/core/run.ts:1:1)'), plugin: undefined },
  { name: 'a similar path', thrown: thrownWith('x (/their folder/deny.ts.ts:1:1)'), plugin: undefined },
  { name: 'no error at all', thrown: 'boom', plugin: undefined },
  { name: 'a stack that is no text', thrown: Object.assign(new Error('x'), { stack: 7 }), plugin: undefined },
  { name: 'a broken URL', thrown: thrownWith('x (file://%zz/a.ts:1:1)'), plugin: undefined },
];
for (const { name, thrown, plugin } of cases) {
  test(`${name} is attributed to ${plugin ?? 'nobody'}`, () => {
    assert.equal(origins.attribute(thrown), plugin);
  });
}

test('a circle of causes ends', () => {
  const error = thrownWith('x (/a.ts:1:1)');
  error.cause = error;
  assert.equal(origins.attribute(error), undefined);
});

test('the innermost frame within some files gives the line to blame', () => {
  const thrown = thrownWith('JSON.parse (<anonymous>)', 'x (/a.ts:3:7)', 'y (/a.ts:9:1)');
  assert.deepEqual(frameWithin(thrown, ['/a.ts']), { file: '/a.ts', line: 3, column: 7 });
  assert.equal(frameWithin(thrown, ['/b.ts']), undefined);
});
