import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { optionErrors } from '../tests/kit/plugin-kit.ts';
import { builtInPlugins } from './index.ts';

interface Described {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Described>>;
  readonly items?: Described;
  readonly additionalProperties?: unknown;
}

/** Paths of options that the generated reference could not explain, or that would take unknown options silently. */
function undocumented(schema: Described, path: string): string[] {
  const options = Object.entries(schema.properties ?? {}).flatMap(([name, option]) => [
    ...(option.description === undefined && option.properties === undefined ? [`${path}.${name}`] : []),
    ...undocumented(option, `${path}.${name}`),
  ]);
  const open =
    schema.properties !== undefined && schema.additionalProperties !== false ? [`${path}: open`] : [];
  return [...options, ...open, ...(schema.items ? undocumented(schema.items, `${path}[]`) : [])];
}

test('built-in plugins have names of their own, in kebab-case', () => {
  const names = builtInPlugins.map((plugin) => plugin.name);
  assert.equal(new Set(names).size, names.length);
  for (const name of names) assert.match(name, /^[a-z]+(-[a-z]+)*$/);
});

for (const plugin of builtInPlugins) {
  describe(`built-in plugin ${plugin.name}`, () => {
    test('explains itself and every option, and takes no unknown ones', () => {
      assert.match(plugin.description ?? '', /^[A-Z].*\.$/);
      assert.deepEqual(undocumented((plugin.schema ?? {}) as Described, plugin.name), []);
      assert.match(optionErrors(plugin, { an_unknown_option: 1 }), /additional/);
    });
  });
}
