import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { yamlEntries, yamlSlot } from './app/src/editor/yaml-place.ts';

/** Where a text that is cut at `|` goes on: what may be written, and the place. */
function slotOf(text: string): string {
  const slot = yamlSlot(text.slice(0, text.indexOf('|')));
  return slot === undefined ? 'nothing' : `${slot.takes} ${['', ...slot.place].join('/')}`;
}

describe('what may be written at a place of YAML', () => {
  const cases: readonly (readonly [text: string, slot: string])[] = [
    ['|', 'name '],
    ['version: 1\n|', 'name '],
    ['server:\n  |', 'name /server'],
    ['server:\n  port: 1\n  |\npipelines: []', 'name /server'],
    ['server:\n  port: |', 'value /server/port'],
    ['server:\n  tls:\n    cert: a\n  |', 'name /server'],
    ['server:\n  tls:\n    cert: a\n    |', 'name /server/tls'],
    ['server: { port: 1, |', 'name /server'],
    ['server: { port: |', 'value /server/port'],
    ['{ "server": { "port": 1 },\n  "providers": {\n    "a": { |', 'name /providers/a'],
    ['a: [x, |', 'both /a/1'],
    ['a: [x, { b: c }, { |', 'name /a/2'],
    ['a:\n  - |', 'both /a/0'],
    ['a:\n- x\n- |', 'both /a/1'],
    ['a:\n  - b: 1\n    |', 'name /a/0'],
    ['a:\n- b: 1\n  |', 'name /a/0'],
    ['a:\n- b: 1\n|', 'name '],
    ['a:\n  - - x\n    - |', 'both /a/0/1'],
    ['a:\n  - b: 1\n  |', 'nothing'],
    ['a: 1 # |', 'nothing'],
    ['a: word |', 'nothing'],
    ['a: >-\n  words of a text\n  |', 'nothing'],
    ['a: >-\n  words: of a text\nb: |', 'value /b'],
    ['"a b": { x: "{", |', 'name /a b'],
    ["match: { path: /** }\nurl: 'http://x:1/#y'\nz: |", 'value /z'],
    ['a: &one { b: 1 }\nc: |', 'value /c'],
    ['a:\n  # a comment\n\n  |', 'name /a'],
  ];
  for (const [text, slot] of cases)
    test(JSON.stringify(text), () => {
      assert.equal(slotOf(text), slot);
    });
});

test('every name and scalar has its place', () => {
  const text = `version: 1 # first
server: { port: 8787, "host": '::1' }
pipelines:
  - name: gateway
    match: { path: /** }
    plugins: [auth, { provider: { default: mock } }]
note: |
  no: name
x: http://a:1
`;
  const shown = yamlEntries(text).map(
    ({ place, isName, text: word, from, to }) =>
      `${[...place, word].join('/')}${isName ? ':' : ''} ${text.slice(from, to) === word ? '' : text.slice(from, to)}`,
  );
  assert.deepEqual(
    shown.map((one) => one.trim()),
    [
      ...['version:', 'version/1', 'server:', 'server/port:', 'server/port/8787'],
      ...['server/host: "host"', "server/host/::1 '::1'", 'pipelines:', 'pipelines/0/name:'],
      ...['pipelines/0/name/gateway', 'pipelines/0/match:', 'pipelines/0/match/path:'],
      ...['pipelines/0/match/path//**', 'pipelines/0/plugins:', 'pipelines/0/plugins/0/auth'],
      ...['pipelines/0/plugins/1/provider:', 'pipelines/0/plugins/1/provider/default:'],
      ...['pipelines/0/plugins/1/provider/default/mock', 'note:', 'x:', 'x/http://a:1'],
    ],
  );
});
