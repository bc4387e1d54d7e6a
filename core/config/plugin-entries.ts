import { Type } from 'typebox';
import { checkValue } from './check-value.ts';
import type { ConfigSource } from './config-source.ts';
import { knownKey } from './schema-branch.ts';
import { childPointer } from '../base/pointer.ts';
import type { Problem } from './problem.ts';
import type { PluginEntry } from './schema.ts';
import { isObject } from './schema-object.ts';
import { quoted } from '../base/did-you-mean.ts';

/** Options of every plugin, handled by the gateway and hidden from the plugin. */
export const ReservedOptionsSchema = Type.Object(
  {
    on_error: Type.Optional(
      Type.Union([Type.Literal('fail'), Type.Literal('skip')], {
        description:
          'What happens to a request when the plugin itself fails: `fail` refuses it, `skip` goes on without the plugin. Default: fail for plugins that refuse or change, skip for those that only observe.',
      }),
    ),
    timeout_ms: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 600_000,
        description:
          'How long one call of the plugin may take; 0 for no bound. Default: what the plugin declares.',
      }),
    ),
  },
  { additionalProperties: false },
);

const reservedKeys = new Set(Object.keys(ReservedOptionsSchema.properties));

/** Plugins of one pipeline after schema validation: names, or objects with one name and its options. */
export function splitPluginEntries(
  plugins: readonly unknown[],
  pointer: string,
  source: ConfigSource,
): { readonly entries: PluginEntry[]; readonly problems: Problem[] } {
  const problems: Problem[] = [];
  const entries = plugins.flatMap((plugin, index) => {
    const place = childPointer(pointer, index);
    if (typeof plugin === 'string')
      return [entryOf({ use: plugin, options: {}, pointer: place, optionsPointer: place }, source, problems)];
    const [named] = isObject(plugin) ? Object.entries(plugin) : [];
    if (named === undefined) return [];
    const [use, written] = named;
    const optionsPointer = childPointer(place, use);
    const options = written ?? {};
    if (!isObject(options)) {
      const message = `the options of ${quoted(use)} must be an object: keys indented below the name`;
      problems.push({ ...source.locate(optionsPointer, 'value'), path: optionsPointer, message });
      return [];
    }
    return [entryOf({ use, options, pointer: place, optionsPointer }, source, problems)];
  });
  return { entries, problems };
}

function entryOf(
  written: Pick<PluginEntry, 'use' | 'options' | 'pointer' | 'optionsPointer'>,
  source: ConfigSource,
  problems: Problem[],
): PluginEntry {
  const own: [string, unknown][] = [];
  const reserved: [string, unknown][] = [];
  for (const option of Object.entries(written.options))
    (knownKey(option[0], reservedKeys) === undefined ? own : reserved).push(option);
  const checked = checkValue(ReservedOptionsSchema, Object.fromEntries(reserved), {
    pointer: written.optionsPointer,
    source,
  });
  problems.push(...checked.problems);
  const { on_error: onError, timeout_ms: timeoutMs } = isObject(checked.value) ? checked.value : {};
  return {
    ...written,
    options: Object.fromEntries(own),
    onError: onError === 'fail' || onError === 'skip' ? onError : undefined,
    timeoutMs: typeof timeoutMs === 'number' ? timeoutMs : undefined,
    file: source.fileOf(written.pointer),
  };
}
