import { createHash } from 'node:crypto';
import type { ConfigDraft } from '../config/load-config.ts';
import { arrangeProblems, isError, type Problem } from '../config/problem.ts';
import type { GatewayConfig, PipelineConfig, PluginEntry } from '../config/schema.ts';
import { validateOptions } from '../config/check-value.ts';
import { checkPipeline, checkPipelines, checkRoutes, type Locate } from '../pipeline/compile.ts';
import type { Clock } from '../ports/clock.ts';
import type { ConfigSource } from '../config/config-source.ts';
import type { ProviderRow } from '../providers/provider-row.ts';
import {
  type LoadedPlugin,
  loadPlugin,
  pluginIdentity,
  type PluginLoad,
  type PluginSources,
} from './load-plugin.ts';
import { checkConfigs, checkConfigUses } from './check-configs.ts';
import { checkOrganisation } from './check-organisation.ts';
import { checkOrganisationResources } from './check-organisation-resources.ts';
import { bounded } from './undo-stack.ts';
import { problemAt } from './problem-at.ts';
import { Type } from 'typebox';
import { compileSchema } from '../config/ajv.ts';
import type { AnyPlugin } from '../pipeline/plugin.ts';
import type { CheckIssue, Guards } from '../organisation/guardrails.ts';

const mostExplained = 20;
const withoutOptions = Type.Object({}, { additionalProperties: false });

/** The checks that these plugins do: those that are guardrails. */
export function guardsOf(plugins: Iterable<AnyPlugin>): Guards {
  const byId = new Map<string, AnyPlugin>();
  for (const plugin of plugins) {
    if (plugin.capabilities?.guardrail !== true) continue;
    for (const id of [plugin.name, ...(plugin.checks ?? [])]) byId.set(id, plugin);
  }
  return {
    ids: [...byId.keys()].sort(),
    issues(id, parameters): readonly CheckIssue[] | undefined {
      const plugin = byId.get(id);
      if (plugin === undefined) return undefined;
      const check = compileSchema(plugin.schema ?? withoutOptions, { all: true, most: mostExplained });
      return check(parameters).map(({ path, message }) => ({ path, message }));
    },
  };
}

const longestMs = 10_000;

/** What the plugin's own `check` finds wrong with its options, each where it stands; that it failed is a problem too. */
async function optionFaults(
  { definition, options, entry }: PreparedPlugin,
  { source, clock }: Pick<PrepareInput, 'source' | 'clock'>,
): Promise<Problem[]> {
  if (definition.check === undefined) return [];
  const late = (): Error => new Error(`it has not finished within ${longestMs} ms; check what it waits for`);
  try {
    const found: unknown = await bounded(() => definition.check?.(options), { clock, ms: longestMs, late });
    return faultsIn(found).map(({ path, message }) => {
      const pointer = `${entry.optionsPointer}${path}`;
      return problemAt(source.locate(pointer, 'value'), pointer, message);
    });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const message = `the options of plugin "${definition.name}" could not be checked: ${reason}`;
    return [problemAt(source.locate(entry.pointer, 'value'), entry.pointer, message)];
  }
}

/** Plugins may come from modules that no type checker has seen. */
function faultsIn(found: unknown): { readonly path: string; readonly message: string }[] {
  const faults: unknown[] | undefined = Array.isArray(found) ? found : undefined;
  if (faults === undefined)
    throw new Error('its check must return a list of { path, message }, or an empty one');
  return faults.map((fault) => {
    const { path, message } = Object(fault) as Readonly<Record<string, unknown>>;
    if (typeof path === 'string' && typeof message === 'string') return { path, message };
    throw new Error('its check must return each fault as { path, message }, both texts');
  });
}

/** What a configuration may name: plugins, and the providers that it need not define. */
export interface PrepareSources extends PluginSources {
  /** The rows of the provider table. */
  readonly providerNames: ReadonlySet<string>;
  /** The rows themselves. Absent: what integrations say of their providers is not checked. */
  readonly providerRows?: ReadonlyMap<string, ProviderRow>;
  /** Bounds what plugins do. */
  readonly clock: Clock;
}

/** A configuration as read, and what it may name. */
interface PrepareInput extends PrepareSources {
  readonly config: GatewayConfig;
  readonly source: ConfigSource;
}

/** The same of a configuration of which only these parts are sound. */
interface CheckInput extends PrepareSources {
  readonly config: ConfigDraft['config'];
  readonly source: ConfigSource;
}

/** A plugin with its validated options, ready to be created. */
export interface PreparedPlugin {
  readonly entry: PluginEntry;
  readonly plugin: LoadedPlugin;
  readonly definition: LoadedPlugin['definition'];
  readonly options: unknown;
}

/** A pipeline whose plugins are all ready. */
export interface PreparedPipeline {
  readonly config: PipelineConfig;
  /** JSON pointer of the pipeline. */
  readonly pointer: string;
  readonly plugins: readonly PreparedPlugin[];
}

/** Everything that can be known of a generation before any plugin is created. */
export interface Prepared {
  /** 12 hexadecimal digits over the configuration's text and the plugins' code; secrets have no part in it. */
  readonly hash: string;
  readonly config: GatewayConfig;
  readonly source: ConfigSource;
  readonly pipelines: readonly PreparedPipeline[];
  /** Source files of its plugins, absolute: what to watch. */
  readonly pluginInputs: readonly string[];
  /** Hashes of the bundles that it uses. */
  readonly codeHashes: ReadonlySet<string>;
  readonly warnings: readonly Problem[];
}

/** The result of `prepareGeneration`; `pluginInputs` are to be watched in either case. */
type PrepareResult =
  | { readonly ok: true; readonly prepared: Prepared }
  | { readonly ok: false; readonly problems: readonly Problem[]; readonly pluginInputs: readonly string[] };

/**
 * Loads every plugin, validates every option, checks every pipeline and every config, and creates nothing: this is also what
 * `weir check` does. Returns all problems at once, in the order of the file. Runs the top level of plugins' modules.
 */
export async function prepareGeneration(input: PrepareInput): Promise<PrepareResult> {
  const { loads, parts, problems } = await examine(input);
  const pluginInputs = [...new Set([...loads.values()].flatMap((load) => load.inputs))];
  if (problems.some(isError)) return { ok: false, problems, pluginInputs };
  const codeHashes = new Set([...loads.values()].flatMap((load) => (load.ok && load.plugin.codeHash) || []));
  return {
    ok: true,
    prepared: {
      hash: generationHash(input.source.digest, codeHashes),
      config: input.config,
      source: input.source,
      pipelines: parts.map((part) => part.pipeline),
      pluginInputs,
      codeHashes,
      warnings: problems,
    },
  };
}

/**
 * What is wrong with the plugins and configs of a configuration that has mistakes elsewhere (`known`): all problems together,
 * in the order of the file. Problems within a place that is known to be wrong are left out.
 */
export async function checkPlugins(input: CheckInput, known: readonly Problem[]): Promise<Problem[]> {
  const { problems } = await examine(input);
  const isNew = ({ path }: Problem): boolean =>
    !known.some((one) => one.path !== '' && (path === one.path || path.startsWith(`${one.path}/`)));
  return arrangeProblems([...known, ...problems.filter(isNew)], namesOf(input));
}

async function examine(input: CheckInput): Promise<Examined> {
  const loads = await loadAll(input);
  const parts = await Promise.all(
    input.config.pipelines.map((config, index) => preparePipeline(config, index, { input, loads })),
  );
  const locate: Locate = (pointer, part) => input.source.locate(pointer, part);
  // With a plugin missing, what others need from it would be reported as well, and mislead.
  const isComplete = parts.every(
    ({ pipeline }) => pipeline.plugins.length === pipeline.config.plugins.length,
  );
  const problems = arrangeProblems(
    [
      ...checkConfigs(input),
      ...checkConfigUses(input),
      ...checkOrganisation(input),
      ...checkOrganisationResources({ ...input, guards: guardsOf(input.builtIns.values()) }),
      ...parts.flatMap((part) => part.problems),
      ...checkPipelines(input.config.pipelines, locate),
      ...(isComplete
        ? checkRoutes(
            parts.map(({ pipeline }) => pipeline),
            locate,
          )
        : []),
    ],
    namesOf(input),
  );
  return { loads, parts, problems };
}

interface Examined {
  readonly loads: ReadonlyMap<string, PluginLoad>;
  readonly parts: readonly Awaited<ReturnType<typeof preparePipeline>>[];
  readonly problems: readonly Problem[];
}

/** The configuration's files as messages name them, in the order in which plugins appear. */
function namesOf({ config, source }: CheckInput): string[] {
  const entries = config.pipelines.flatMap((pipeline) => pipeline.plugins);
  return [
    ...new Set(['', ...entries.map((entry) => entry.pointer)].map((pointer) => source.locate(pointer).file)),
  ];
}

async function loadAll(input: CheckInput): Promise<ReadonlyMap<string, PluginLoad>> {
  const loads = new Map<string, PluginLoad>();
  for (const entry of input.config.pipelines.flatMap((pipeline) => pipeline.plugins)) {
    const identity = pluginIdentity(entry);
    if (loads.has(identity)) continue;
    loads.set(identity, await loadPlugin(entry, input.source.locate(entry.pointer, 'value'), input));
  }
  return loads;
}

async function preparePipeline(
  config: PipelineConfig,
  index: number,
  { input, loads }: { input: CheckInput; loads: ReadonlyMap<string, PluginLoad> },
): Promise<{ pipeline: PreparedPipeline; problems: Problem[] }> {
  const problems: Problem[] = [];
  const plugins: PreparedPlugin[] = [];
  for (const entry of config.plugins) {
    const load = loads.get(pluginIdentity(entry));
    if (load === undefined) continue;
    if (!load.ok) {
      problems.push(...load.problems);
      continue;
    }
    const { plugin } = load;
    const { definition } = plugin;
    const validated = validateOptions(definition.schema, entry.options, entry.optionsPointer, input.source);
    problems.push(...validated.problems);
    const prepared = { entry, plugin, definition, options: validated.value };
    if (validated.problems.length === 0) problems.push(...(await optionFaults(prepared, input)));
    plugins.push(prepared);
  }
  const pipeline = { config, pointer: `/pipelines/${index}`, plugins };
  // With a plugin missing, what the others need from it would be reported as well, and mislead.
  const isComplete = plugins.length === config.plugins.length;
  if (isComplete)
    problems.push(...checkPipeline(pipeline, (pointer, part) => input.source.locate(pointer, part)));
  return { pipeline, problems };
}

function generationHash(digest: string, codeHashes: Iterable<string>): string {
  const hash = createHash('sha256').update(digest);
  for (const code of [...codeHashes].sort()) hash.update('\0').update(code);
  return hash.digest('hex').slice(0, 12);
}
