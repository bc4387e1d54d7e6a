import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shownPipelines } from './shown-pipelines.ts';

const names: Readonly<Record<string, string>> = {
  '/pipelines/0/plugins/0/logger/sink': '${SINK_ADDRESS}',
  '/pipelines/0/plugins/0/logger/list/1': '${ITEM}',
};
const source = {
  locate: () => ({ file: 'gateway.config.yaml', line: 7, column: 9 }),
  origin: (pointer: string) => {
    const name = names[pointer];
    return name === undefined ? undefined : { names: [name], whole: true, resolved: true };
  },
};

function optionsShown(options: Record<string, unknown>): unknown {
  const entry = {
    use: 'logger',
    options,
    onError: undefined,
    timeoutMs: undefined,
    file: 'gateway.config.yaml',
  };
  const pointer = '/pipelines/0/plugins/0';
  const plugins = [{ ...entry, pointer, optionsPointer: `${pointer}/logger` }];
  const [pipeline] = shownPipelines([{ name: 'gateway', match: { path: '/**' }, plugins }], source);
  assert.equal(pipeline?.plugins[0]?.place, 'gateway.config.yaml:7:9');
  return pipeline.plugins[0].options;
}

test('options of plugins are shown without secrets', () => {
  assert.deepEqual(
    optionsShown({
      bodies: true,
      max: 5,
      api_key: 'sk-1',
      nested: { clientSecret: 'sk-2', tokens: ['sk-3', { deep: 'sk-4' }], password: 5 },
      headers: { 'x-any': 'sk-5' },
      url: 'https://user:sk-6@host.example/path?sig=sk-7',
      plain: 'text',
    }),
    {
      bodies: true,
      max: 5,
      api_key: '***',
      nested: { clientSecret: '***', tokens: ['***', { deep: '***' }], password: '***' },
      headers: { 'x-any': '***' },
      url: 'https://***@host.example/path?***',
      plain: 'text',
    },
  );
});

test('of a value made of variables, only their names are shown', () => {
  assert.deepEqual(optionsShown({ sink: 'value-of-it', list: ['a', 'value-of-it'] }), {
    sink: '${SINK_ADDRESS}',
    list: ['a', '${ITEM}'],
  });
});

test('long and deep options are cut', () => {
  const deep = JSON.parse('{"a":'.repeat(20) + '1' + '}'.repeat(20)) as Record<string, unknown>;
  const shown = JSON.stringify(
    optionsShown({ text: 'x'.repeat(5000), list: Array.from({ length: 500 }, () => 'i'), deep }),
  );
  assert.ok(shown.length < 1000, String(shown.length));
});
