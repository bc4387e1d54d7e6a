import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  defaultSecurity,
  type SecuritySettings,
  type SettingsCategory,
} from '../ports/organisation-settings.ts';
import { settingsIn } from './settings-in.ts';

const categories = Object.keys(defaultSecurity) as SettingsCategory[];
const plain = { noNullPrototype: true } as const;
/** A category whose switches stand as they like. */
const flags = <C extends object>(category: C): fc.Arbitrary<C> => {
  const names = Object.keys(category);
  return fc
    .tuple(...names.map(() => fc.boolean()))
    .map((values) => Object.fromEntries(names.map((name, index) => [name, values[index]])) as C);
};
const number = fc.option(fc.nat(), { nil: undefined });
const settings = {
  data_visibility: flags(defaultSecurity.data_visibility),
  prompts: flags(defaultSecurity.prompts),
  configs: flags(defaultSecurity.configs),
  logging: fc.record({ mode: fc.constantFrom('full' as const, 'metadata' as const) }, plain),
  user_api_keys: fc.record({ maxPerWorkspace: number, defaultDays: number, maxDays: number }, plain),
};

test('each category comes from the workspace when it may say it and does, else from the organisation', () => {
  const whole: fc.Arbitrary<SecuritySettings> = fc.record(settings, plain);
  const overrides: fc.Arbitrary<Partial<SecuritySettings>> = fc.record(settings, {
    ...plain,
    requiredKeys: [],
  });
  fc.assert(
    fc.property(whole, overrides, fc.subarray(categories), (security, own, overridable) => {
      const before = structuredClone({ security, own });
      const merged = settingsIn({ security, overridable }, own);
      for (const category of categories) {
        const expected = overridable.includes(category)
          ? (own[category] ?? security[category])
          : security[category];
        assert.deepEqual(merged[category], expected, category);
      }
      assert.deepEqual({ security, own }, before, 'what was given stays as it was');
    }),
  );
});

test('a workspace that overrides nothing has what its organisation has', () => {
  assert.deepEqual(settingsIn({ security: defaultSecurity, overridable: categories }), defaultSecurity);
});
