import { type Static, Type } from 'typebox';
import { checkValue } from './check-value.ts';
import type { ConfigSource } from './config-source.ts';
import { knownKey } from './describe-schema.ts';
import { childPointer, isJsonObject } from '../base/json.ts';
import type { Problem } from './problem.ts';
import type { PluginEntry } from './schema.ts';
import { quoted } from '../base/did-you-mean.ts';

const PluginBreakerSchema = Type.Object(
  {
    failure_threshold: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1000,
        description:
          'Failures of one hook within a minute that open its breaker. Default: what the plugin declares, else 5.',
      }),
    ),
    cooldown_interval: Type.Optional(
      Type.Integer({
        minimum: 1000,
        maximum: 86_400_000,
        description:
          'Milliseconds until the open breaker lets one trial call through. Default: what the plugin declares, else 30000.',
      }),
    ),
    when_open: Type.Optional(
      Type.Union([Type.Literal('bypass'), Type.Literal('refuse')], {
        description:
          'How requests are handled while the breaker is open: `bypass` skips the plugin, `refuse` answers 503. Default: what the plugin declares, else bypass if `on_error` is skip and refuse if it is fail.',
      }),
    ),
  },
  { additionalProperties: false },
);

const IsolationSchema = Type.Object(
  {
    memory_mb: Type.Optional(
      Type.Integer({
        minimum: 32,
        maximum: 65_536,
        description: 'MiB of heap and buffers that its thread may have. Default: 128.',
      }),
    ),
    cpu_ms: Type.Optional(
      Type.Integer({
        minimum: 50,
        maximum: 600_000,
        description: 'How long one call may hold its thread without a turn, in milliseconds. Default: 1000.',
      }),
    ),
  },
  { additionalProperties: false },
);

/** Options of every plugin, handled by the gateway and hidden from the plugin. */
export const ReservedOptionsSchema = Type.Object(
  {
    on_error: Type.Optional(
      Type.Union([Type.Literal('fail'), Type.Literal('skip')], {
        description:
          'How a request is handled when the plugin itself fails: `fail` refuses it, `skip` continues without the plugin. Default: fail for plugins that refuse or change requests, skip for those that only observe.',
      }),
    ),
    timeout_ms: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 600_000,
        description:
          'Longest time of one call of the plugin; 0 for no limit. Default: what the plugin declares.',
      }),
    ),
    breaker: Type.Optional(
      Type.Union([Type.Boolean(), PluginBreakerSchema], {
        description:
          'Circuit breaker for each hook of the plugin: stops calls for a while after repeated failures. `true` for the defaults. Default: what the plugin declares; off for built-in plugins.',
      }),
    ),
    isolate: Type.Optional(
      Type.Union([Type.Boolean(), IsolationSchema], {
        description:
          'Runs the plugin in a thread of its own, which is stopped and started again when it loops or needs too much memory; `true` for the defaults. For plugins from files and packages.',
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
    const [named] = isJsonObject(plugin) ? Object.entries(plugin) : [];
    if (named === undefined) return [];
    const [use, written] = named;
    const optionsPointer = childPointer(place, use);
    const options = written ?? {};
    if (!isJsonObject(options)) {
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
  const reservedValues: Static<typeof ReservedOptionsSchema> =
    checked.problems.length === 0 && isJsonObject(checked.value) ? checked.value : {};
  return {
    ...written,
    options: Object.fromEntries(own),
    onError: reservedValues.on_error,
    timeoutMs: reservedValues.timeout_ms,
    ...isolationOf(reservedValues.isolate),
    ...(reservedValues.breaker !== undefined && { breaker: reservedValues.breaker }),
    file: source.fileOf(written.pointer),
  };
}

function isolationOf(
  written: boolean | { readonly memory_mb?: number; readonly cpu_ms?: number } | undefined,
): Pick<PluginEntry, 'isolate'> {
  if (written === undefined || written === false) return {};
  const { memory_mb: memoryMb = 128, cpu_ms: cpuMs = 1000 } = written === true ? {} : written;
  return { isolate: { memoryMb, cpuMs } };
}
