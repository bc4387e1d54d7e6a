import { createHash } from 'node:crypto';
import type { ConfigDraft } from '../config/load-config.ts';
import { arrangeProblems, isError, type Problem } from '../config/problem.ts';
import type { GatewayConfig, PipelineConfig, PluginEntry } from '../config/schema.ts';
import { validateOptions } from '../config/check-value.ts';
import { checkPipeline, checkPipelines, checkRoutes, type Locate } from '../pipeline/compile.ts';
import { bounded } from '../base/deadline.ts';
import type { Clock } from '../ports/clock.ts';
import type { ConfigSource, Place } from '../config/config-source.ts';
import type { ProviderRow } from '../providers/provider-row.ts';
import { checkConfigs, checkConfigUses, checkToolServers } from './check-configs.ts';
import { checkOrganisation } from './check-organisation.ts';
import { checkOrganisationResources } from './check-organisation-resources.ts';
import { problemAt, suggestion } from './problem-at.ts';
import type { AnyPlugin } from '../pipeline/plugin.ts';
import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { frameWithin } from './plugin-errors.ts';
import type { PluginBundle, PluginBundler } from './plugin-bundler.ts';
import { checkDefinition, defaultExport } from './check-definition.ts';
import { isolatedDefinition } from './isolation/isolated-plugin.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { whenAnswered } from '../organisation/guardrails.ts';
import { type GenerationChecks, guardsOfGeneration, offerProblems } from './offered-checks.ts';

/** A plugin's definition and where its code came from. */
interface LoadedPlugin {
  readonly definition: AnyPlugin;
  readonly builtIn: boolean;
  /** Hash of its code; undefined for one that comes with the gateway. */
  readonly codeHash: string | undefined;
}

/** A plugin, or all its faults; `inputs` are the files to watch in either case. */
type PluginLoad =
  | { readonly ok: true; readonly plugin: LoadedPlugin; readonly inputs: readonly string[] }
  | { readonly ok: false; readonly problems: readonly Problem[]; readonly inputs: readonly string[] };

/** Where plugins come from. */
interface PluginSources {
  /** The plugins that come with the gateway, by name. */
  readonly builtIns: ReadonlyMap<string, AnyPlugin>;
  readonly bundler: Pick<PluginBundler, 'bundle' | 'load' | 'write' | 'origins'>;
  /** For the time bounds of plugins. */
  readonly clock: Clock;
  /** Code that does not come with the gateway is not run: its options stay unchecked. */
  readonly withoutCode?: boolean;
}

/**
 * Finds the plugin that an entry of a pipeline names: a built-in, a file (relative to the configuration file), or
 * a package installed for that file's folder. Never rejects for a fault of the plugin.
 */
export async function loadPlugin(
  entry: PluginEntry,
  place: Place,
  sources: PluginSources,
): Promise<PluginLoad> {
  const builtIn = sources.builtIns.get(entry.use);
  if (builtIn !== undefined) {
    if (entry.isolate !== undefined) return { ok: false, problems: [notIsolable(entry, place)], inputs: [] };
    return { ok: true, plugin: { definition: builtIn, builtIn: true, codeHash: undefined }, inputs: [] };
  }
  const folder = dirname(resolve(entry.file));
  const found = locateCode(entry.use, folder);
  const refuse = (...messages: string[]): PluginLoad => ({
    ok: false,
    problems: messages.map((message) => problemAt(place, entry.pointer, message)),
    inputs: found.watch,
  });
  if (found.entry === undefined)
    return refuse(
      found.isPath ? missingFile(entry.use, found.watch) : unknownName(entry.use, folder, sources),
    );
  if (sources.withoutCode === true) {
    const message = `plugin "${entry.use}" was not run (--no-plugins), so neither its options nor its place in the pipeline were checked`;
    return {
      ok: false,
      problems: [{ ...problemAt(place, entry.pointer, message), severity: 'note' }],
      inputs: found.watch,
    };
  }
  const bundled = await sources.bundler.bundle({ entry: found.entry, folder, place, pointer: entry.pointer });
  if (!bundled.ok) return bundled;
  return loadBundle(entry, place, { sources, bundle: bundled.bundle });
}

/** Identifies the plugin of an entry, so that a plugin used twice is loaded once. */
function pluginIdentity(entry: PluginEntry): string {
  return `${dirname(resolve(entry.file))}\0${entry.use}\0${JSON.stringify(entry.isolate)}`;
}

async function loadBundle(
  entry: PluginEntry,
  place: Place,
  { sources, bundle }: { sources: PluginSources; bundle: PluginBundle },
): Promise<PluginLoad> {
  const { inputs } = bundle;
  const refuse = (messages: readonly string[], at: Place = place): PluginLoad => ({
    ok: false,
    problems: messages.map((message) => problemAt(at, entry.pointer, `plugin "${entry.use}": ${message}`)),
    inputs,
  });
  try {
    const { checked, file } = await runBundle(entry, sources, bundle);
    if ('faults' in checked) return refuse(checked.faults);
    const { definition } = checked;
    if (sources.builtIns.has(definition.name)) {
      return refuse([`the name "${definition.name}" belongs to a built-in plugin; give it another name`]);
    }
    sources.bundler.origins.record(definition.name, [file, ...inputs]);
    return { ok: true, plugin: { definition, builtIn: false, codeHash: bundle.hash }, inputs };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return refuse([`its module failed while loading: ${message}`], frameWithin(error, inputs));
  }
}

/** Runs a bundle in this thread, or has it run in one of its own. */
async function runBundle(
  { isolate: limits }: PluginEntry,
  { bundler, clock }: PluginSources,
  bundle: PluginBundle,
): Promise<{
  readonly checked: { readonly definition: AnyPlugin } | { readonly faults: readonly string[] };
  readonly file: string;
}> {
  if (limits === undefined) {
    const { exports, file } = await bundler.load(bundle);
    return { checked: checkDefinition(defaultExport(exports)), file };
  }
  // Deno's threads have no bound of memory, and some of its loops cannot be ended.
  if ('deno' in process.versions)
    throw new Error(
      '"isolate" needs threads with a bound of memory, which Deno has not; run the gateway on Node, or remove it',
    );
  const file = await bundler.write(bundle);
  return { checked: await isolatedDefinition({ file, limits, clock }), file };
}

function notIsolable({ use, pointer }: PluginEntry, place: Place): Problem {
  const message = `plugin "${use}" is a part of the gateway, which needs more of it than a thread has; remove "isolate", which is for plugins from files and packages`;
  return problemAt(place, pointer, message);
}

interface CodeLocation {
  readonly isPath: boolean;
  /** Undefined when nothing is there. */
  readonly entry: string | undefined;
  /** Files that appear or change when the fault is mended. */
  readonly watch: readonly string[];
}

function locateCode(use: string, folder: string): CodeLocation {
  if (/^[./]/.test(use) || /\.[cm]?[jt]sx?$/.test(use)) {
    const path = resolve(folder, use);
    return { isPath: true, entry: existsSync(path) ? path : undefined, watch: [path] };
  }
  const packageName = use.split('/', use.startsWith('@') ? 2 : 1).join('/');
  const places = ancestors(folder).map((one) => join(one, 'node_modules', packageName, 'package.json'));
  return { isPath: false, entry: places.some((path) => existsSync(path)) ? use : undefined, watch: [] };
}

function ancestors(folder: string): string[] {
  const parent = dirname(folder);
  return parent === folder ? [folder] : [folder, ...ancestors(parent)];
}

function missingFile(use: string, watch: readonly string[]): string {
  return `plugin file "${use}" does not exist (looked for ${watch.join(', ')}); correct the path, which is relative to the file that names it`;
}

function unknownName(use: string, folder: string, { builtIns }: PluginSources): string {
  const names = [...builtIns.keys()].sort().join(', ');
  const known = `built in are ${names}; a file's path begins with "./", and a package must be installed for ${folder}`;
  return `unknown plugin "${use}"${suggestion(use, builtIns.keys())} (${known})`;
}

const longestMs = 10_000;

/** Faults that the plugin's own `check` finds in its options, each at its place; a failure of `check` is a problem too. */
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

/** Names that a configuration can use: plugins, and the providers that it need not define. */
export interface PrepareSources extends PluginSources {
  /** The rows of the provider table. */
  readonly providerNames: ReadonlySet<string>;
  /** The rows themselves. Absent: the provider settings of integrations are not checked. */
  readonly providerRows?: ReadonlyMap<string, ProviderRow>;
}

/** A configuration as read, and the names that it may use. */
interface PrepareInput extends PrepareSources {
  readonly config: GatewayConfig;
  readonly source: ConfigSource;
}

/** The same for a configuration that has only these sound parts. */
interface CheckInput extends PrepareSources {
  readonly config: ConfigDraft['config'];
  readonly source: ConfigSource;
}

/** A plugin with its validated options, ready to be created. */
interface PreparedPlugin {
  readonly entry: PluginEntry;
  readonly plugin: LoadedPlugin;
  readonly definition: LoadedPlugin['definition'];
  readonly options: unknown;
}

/** A pipeline whose plugins are all ready. */
interface PreparedPipeline {
  readonly config: PipelineConfig;
  /** JSON pointer of the pipeline. */
  readonly pointer: string;
  readonly plugins: readonly PreparedPlugin[];
}

/** A generation before any plugin is created. */
export interface Prepared {
  /** 12 hexadecimal digits over the configuration's text and the plugins' code; secrets have no part in it. */
  readonly hash: string;
  readonly config: GatewayConfig;
  readonly source: ConfigSource;
  readonly pipelines: readonly PreparedPipeline[];
  /** Source files of its plugins, absolute, to be watched. */
  readonly pluginInputs: readonly string[];
  /** Hashes of the bundles that it uses. */
  readonly codeHashes: ReadonlySet<string>;
  readonly warnings: readonly Problem[];
  /** Checks that its guardrails can use. */
  readonly checks: GenerationChecks;
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
  const { loads, parts, problems, checks } = await examine(input);
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
      checks,
    },
  };
}

/**
 * Problems of the plugins and configs of a configuration that has mistakes elsewhere (`known`): all problems together, in
 * the order of the file. Problems within a place that is known to be wrong are left out.
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
  // With a plugin missing, the needs of others for it would be reported as well, and mislead.
  const isComplete = parts.every(
    ({ pipeline }) => pipeline.plugins.length === pipeline.config.plugins.length,
  );
  const builtIns = [...input.builtIns.values()];
  const plugins = parts.flatMap(({ pipeline }) => pipeline.plugins);
  const guards = guardsOfGeneration(builtIns, plugins, { isComplete });
  const find = (): Problem[] => [
    ...checkConfigs({ ...input, guards }),
    ...checkConfigUses(input),
    ...checkToolServers({ ...input, guards }),
    ...checkOrganisation(input),
    ...checkOrganisationResources({ ...input, guards }),
    ...parts.flatMap((part) => part.problems),
    ...offerProblems(builtIns, plugins, input.source),
    ...checkPipelines(input.config.pipelines, locate),
    ...(isComplete
      ? checkRoutes(
          parts.map(({ pipeline }) => pipeline),
          locate,
        )
      : []),
  ];
  const problems = arrangeProblems(await found(find, input.source), namesOf(input));
  return { loads, parts, problems, checks: guards };
}

/** Problems that code in threads has a part in; what it cannot look at is a problem. */
async function found(find: () => Problem[], source: ConfigSource): Promise<Problem[]> {
  try {
    return await whenAnswered(find);
  } catch (error) {
    if (!GatewayError.is(error)) throw error;
    return [problemAt(source.locate('/pipelines', 'key'), '/pipelines', error.message)];
  }
}

interface Examined {
  readonly loads: ReadonlyMap<string, PluginLoad>;
  readonly parts: readonly Awaited<ReturnType<typeof preparePipeline>>[];
  readonly problems: readonly Problem[];
  readonly checks: GenerationChecks;
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
    const { definition, builtIn: isSlim } = plugin;
    const place = { pointer: entry.optionsPointer, source: input.source, isSlim };
    const validated = validateOptions(definition.schema, entry.options, place);
    problems.push(...validated.problems);
    const prepared = { entry, plugin, definition, options: validated.value };
    if (validated.problems.length === 0) problems.push(...(await optionFaults(prepared, input)));
    plugins.push(prepared);
  }
  const pipeline = { config, pointer: `/pipelines/${index}`, plugins };
  // With a plugin missing, the needs of the others for it would be reported as well, and mislead.
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
