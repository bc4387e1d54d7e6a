import type { Static } from 'typebox';
import { checkValue, type CheckedValue } from './check-value.ts';
import { nodeValue } from './config-node.ts';
import { createSource, digestOf, type ConfigSource } from './config-source.ts';
import { gatherConfig } from './include.ts';
import { interpolate } from './interpolate.ts';
import { resolveTelemetry, type WrittenTelemetry } from './otlp-environment.ts';
import { childPointer } from '../base/pointer.ts';
import { splitPluginEntries } from './plugin-entries.ts';
import { arrangeProblems } from './problem-list.ts';
import { isError, type Problem } from './problem.ts';
import type { ReadFile } from './read-file.ts';
import { isObject } from './schema-object.ts';
import { GatewayConfigSchema, type GatewayConfig } from './schema.ts';

/** What loading takes beside the name of the file. */
export interface LoadOptions {
  /** Where `${NAME}` is looked up. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Reads one file by absolute name. Default: from disk, bounded. Patterns of includes always look at the disk. */
  readonly readFile?: ReadFile;
}

/** A configuration ready for use, or everything that is wrong with it, in file order. */
export type LoadResult =
  | {
      readonly ok: true;
      readonly config: GatewayConfig;
      readonly source: ConfigSource;
      readonly warnings: Problem[];
    }
  | {
      readonly ok: false;
      readonly problems: Problem[];
      /** What to watch for a correction; as in `ConfigSource`. */
      readonly files: readonly string[];
      /** The pipelines, when nothing is wrong with their own shape: their plugins, and configs, can be checked nevertheless. */
      readonly draft?: ConfigDraft;
    };

/** The part of a configuration with mistakes elsewhere that can still be checked. */
export interface ConfigDraft {
  /** Without any configs, or without `organisation`, when something is wrong with the shape of one of them. */
  readonly config: Pick<GatewayConfig, 'pipelines' | 'providers' | 'configs' | 'organisation'> &
    Partial<Pick<GatewayConfig, 'storage'>>;
  readonly source: ConfigSource;
}

/** The schema's value after defaults: what is optional with a default is there. */
type Filled = Omit<GatewayConfig, 'pipelines' | 'telemetry'> & {
  readonly telemetry: WrittenTelemetry;
} & Pick<Static<typeof GatewayConfigSchema>, 'pipelines'>;

/**
 * Reads a configuration file with all its includes, replaces variables, validates everything but the plugins'
 * own options (`validateOptions` does), and fills in defaults. Never throws: whatever is wrong is a problem
 * with its place. Values that came from variables are never quoted in a message.
 */
export async function loadConfig(file: string, { env, readFile }: LoadOptions): Promise<LoadResult> {
  const gathered = await gatherConfig(file, readFile);
  const fileNames = gathered.read.map(({ name }) => name);
  if (gathered.root === undefined)
    return {
      ok: false,
      problems: arrangeProblems(gathered.problems, fileNames),
      files: [...gathered.wanted, ...gathered.globs],
    };
  const interpolated = await interpolate(gathered.root, { env, readFile });
  const files = [...new Set([...gathered.wanted, ...interpolated.inputs, ...gathered.globs])];
  const source = createSource(interpolated.root, { files, digest: digestOf(gathered.read) });
  const written = nodeValue(interpolated.root);
  const checked = checkValue(GatewayConfigSchema, written, { pointer: '', source });
  const plugins = splitPipelines(checked.value, source);
  const problems = arrangeProblems(
    [...gathered.problems, ...interpolated.problems, ...checked.problems, ...plugins.problems],
    fileNames,
  );
  const filled = checked.value as Filled;
  const pipelines = (): GatewayConfig['pipelines'] =>
    filled.pipelines.map(({ name, match }, index) => ({
      name,
      match,
      plugins: plugins.entries[index] ?? [],
    }));
  if (problems.some(isError)) {
    const isShaped =
      Array.isArray(membersOf(checked.value, 'pipelines')) &&
      !checked.problems.some(({ path }) => path.startsWith('/pipelines'));
    return {
      ok: false,
      problems,
      files,
      ...(isShaped && { draft: { config: { pipelines: pipelines(), ...routes(checked) }, source } }),
    };
  }
  const { settings: telemetry, warnings } = resolveTelemetry(filled.telemetry, env);
  const told = warnings.map((message): Problem => {
    return { file, line: 0, column: 0, path: '/telemetry/otlp', message, severity: 'warning' };
  });
  const config = { ...filled, telemetry, pipelines: pipelines() };
  return { ok: true, config, source, warnings: [...problems, ...told] };
}

/** Configs and `organisation`, when their own shape is sound, and the providers that configs may name, sound or not. */
function routes({ value, problems }: CheckedValue): Omit<ConfigDraft['config'], 'pipelines'> {
  const { providers, configs, organisation, storage } = value as Partial<GatewayConfig>;
  const isSound = (section: unknown, pointer: string): boolean =>
    isObject(section) && !problems.some(({ path }) => path.startsWith(pointer));
  return {
    providers: isObject(providers) ? providers : {},
    configs: configs !== undefined && isSound(configs, '/configs') ? configs : {},
    ...(storage !== undefined && isSound(storage, '/storage') && { storage }),
    ...(organisation !== undefined &&
      isSound(configs, '/configs') &&
      isSound(organisation, '/organisation') && { organisation }),
  };
}

/** The plugin entries of every pipeline, as far as they can be told from a value that may be wrong. */
function splitPipelines(
  value: unknown,
  source: ConfigSource,
): { entries: ReturnType<typeof splitPluginEntries>['entries'][]; problems: Problem[] } {
  const pipelines = membersOf(value, 'pipelines');
  const split = (Array.isArray(pipelines) ? pipelines : []).map((pipeline: unknown, index) => {
    const plugins = membersOf(pipeline, 'plugins');
    const pointer = `${childPointer('/pipelines', index)}/plugins`;
    return splitPluginEntries(Array.isArray(plugins) ? plugins : [], pointer, source);
  });
  return {
    entries: split.map(({ entries }) => entries),
    problems: split.flatMap(({ problems }) => problems),
  };
}

function membersOf(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null
    ? Object.entries(value).find(([name]) => name === key)?.[1]
    : undefined;
}
