import type { ConfigSource } from '../config/config-source.ts';
import { quoted } from '../base/did-you-mean.ts';
import { childPointer, type JsonObject } from '../base/json.ts';
import type { Problem } from '../config/problem.ts';
import { type GatewayConfig, type PluginEntry, servicePrefixes } from '../config/schema.ts';
import { compileConfig, unknownConfig } from '../routing/plan/compile-config.ts';
import { providerLookup, type ConfigIssue, placeText } from '../routing/plan/read-config.ts';
import { readGuardrails } from '../routing/plan/read-guardrails.ts';
import { FileNames } from './check-organisation.ts';
import { problemAt } from './problem-at.ts';
import type { Checks } from '../pipeline/plugin.ts';
import type { RouteConfigInput } from '../organisation/route-config.ts';

/** Configuration whose configs are checked. */
export interface ConfigsCheck {
  readonly config: Pick<GatewayConfig, 'configs' | 'providers'> &
    Partial<Pick<GatewayConfig, 'organisation' | 'server' | 'storage'>>;
  readonly source: ConfigSource;
  /** The rows of the provider table. */
  readonly providerNames: Iterable<string>;
  /** The checks of guardrails; undefined: no guardrail is accepted. */
  readonly guards?: Checks | undefined;
}

/**
 * Compiles every config of the configuration; returns mistakes and settings without an effect, each at its place in the
 * file. Names that the file does not have are notes where there is a store that may have them.
 */
export function checkConfigs({ config, source, providerNames, guards }: ConfigsCheck): Problem[] {
  const configs = new Map(Object.entries(config.configs));
  const knowsProvider = providerLookup({
    builtIn: providerNames,
    configured: Object.keys(config.providers),
  });
  // The draft of a configuration with mistakes elsewhere may have no server section that could be trusted.
  const prefixes = config.server === undefined ? [] : servicePrefixes(config.server);
  return [...configs].flatMap(([slug, input]) => {
    const saved = new FileNames(config, knowsProvider);
    const setup = {
      configs,
      saved,
      knowsProvider: saved.knowsProvider,
      servicePrefixes: prefixes,
      checks: guards,
    };
    const result = compileConfig(input, { id: slug, slug, ...setup });
    const problems = (issues: readonly ConfigIssue[]): Problem[] =>
      issues
        // A mistake within a config that this one refers to is reported at its own place.
        .filter(({ within }) => within === undefined)
        .map((issue) =>
          laterOr(saved, issue, problemOfConfig(issue, childPointer('/configs', slug), source)),
        );
    const warnings = problems(result.warnings).map((problem): Problem => ({
      ...problem,
      severity: 'warning',
    }));
    return [...(result.ok ? [] : problems(result.issues)), ...warnings];
  });
}

/** The problem, or a note of it when its name may be in the store. */
export function laterOr({ later }: FileNames, { message }: ConfigIssue, problem: Problem): Problem {
  return later.has(message) ? { ...problem, severity: 'note' } : problem;
}

/** Turns a config's issue into a problem of its file; the config stands at the pointer `base` of its source. */
export function problemOfConfig(
  { place, message }: ConfigIssue,
  base: string,
  source: ConfigSource,
): Problem {
  const pointer = place.reduce<string>(childPointer, base);
  const origin = source.origin(pointer);
  // A message quotes the wrong value; values of variables must not be shown.
  const text =
    origin === undefined
      ? message
      : `what ${origin.names.join(' and ')} stands for cannot be used as ${placeText(place)}`;
  return problemAt(source.locate(pointer), pointer, text);
}

/** The parts of a configuration that use each other. */
interface ConfigUses {
  readonly config: Pick<GatewayConfig, 'configs' | 'pipelines'> &
    Partial<Pick<GatewayConfig, 'organisation'>>;
  readonly source: ConfigSource;
}

/**
 * Checks that configs and plugins fit together: the config that a `provider` plugin names exists, and a config that
 * wants answers cached has a plugin that does it (a warning: the same file may be used with other pipelines).
 */
export function checkConfigUses({ config, source }: ConfigUses): Problem[] {
  const entries = config.pipelines.flatMap(({ plugins }) => plugins);
  const missing = entries.flatMap((entry) => missingConfig(entry, config.configs, source));
  if (entries.some(({ use }) => use === 'cache')) return missing;
  return [
    ...missing,
    ...Object.entries(config.configs).flatMap(([slug, one]) =>
      uncached(one, childPointer('/configs', slug), source),
    ),
    ...(config.organisation?.configs ?? []).flatMap(({ config: one }, index) =>
      uncached(one, `/organisation/configs/${index}/config`, source),
    ),
  ];
}

function missingConfig(
  { use, options, optionsPointer }: PluginEntry,
  configs: GatewayConfig['configs'],
  source: ConfigSource,
): Problem[] {
  const { config: slug } = options;
  if (use !== 'provider' || typeof slug !== 'string' || Object.hasOwn(configs, slug)) return [];
  const pointer = childPointer(optionsPointer, 'config');
  return [
    problemAt(source.locate(pointer), pointer, `"config": ${unknownConfig(slug, Object.keys(configs))}`),
  ];
}

function uncached(config: RouteConfigInput, pointer: string, source: ConfigSource): Problem[] {
  const place = cachedPlace(config, pointer, 0);
  if (place === undefined) return [];
  const message =
    '"cache": no pipeline has the plugin "cache", so nothing is cached; add it before "provider"';
  return [{ ...problemAt(source.locate(place), place, message), severity: 'warning' }];
}

/** Pointer of the first cache setting in a config. */
function cachedPlace(config: RouteConfigInput, pointer: string, depth: number): string | undefined {
  const { cache, targets } = config;
  const mode = typeof cache === 'object' ? cache.mode : cache;
  if (mode !== undefined && mode !== 'off') return childPointer(pointer, 'cache');
  // Configs that are nested too deeply are refused elsewhere.
  if (depth > 16) return undefined;
  for (const [index, target] of (targets ?? []).entries()) {
    const found = cachedPlace(target, childPointer(childPointer(pointer, 'targets'), index), depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Plugins that judge or count calls of tools: they have to stand in front of the plugin that serves them. */
const inFrontOfTools: ReadonlySet<string> = new Set(['policies', 'guardrails']);
const toolPhases = [
  ['input_guardrails', 'input'],
  ['output_guardrails', 'output'],
] as const;

/**
 * Checks what stands in front of the plugin `mcp`: plugins that judge calls of tools come before it, and the guardrails
 * that its options give to servers exist and have a plugin that runs them.
 */
export function checkToolServers({ config, source, providerNames, guards }: ToolServersCheck): Problem[] {
  const configured = Object.keys(config.providers);
  const names = new FileNames(config, providerLookup({ builtIn: providerNames, configured }), '');
  return config.pipelines.flatMap(({ plugins }) => {
    const at = plugins.findIndex(({ use }) => use === 'mcp');
    if (at < 0) return [];
    const late = plugins.slice(at + 1).filter(({ use }) => inFrontOfTools.has(use));
    const isJudged = plugins.slice(0, at).some(({ use }) => use === 'guardrails');
    return [
      ...late.map(({ use, pointer }) =>
        problemAt(
          source.locate(pointer),
          pointer,
          `plugin ${quoted(use)} stands behind "mcp" and would see no calls of tools; list it before "mcp"`,
        ),
      ),
      ...plugins
        .filter(({ use }) => use === 'mcp')
        .flatMap((entry) => serverProblems(entry, isJudged, { names, source, guards })),
    ];
  });
}

interface ToolServersCheck extends ConfigsCheck {
  readonly config: ConfigsCheck['config'] & Pick<GatewayConfig, 'pipelines'>;
}

/** The schema of the options is checked apart, and what is wrong by it is left out here. */
function serverProblems(
  { options, optionsPointer }: PluginEntry,
  isJudged: boolean,
  { names, source, guards }: Pick<ToolServersCheck, 'source' | 'guards'> & { readonly names: FileNames },
): Problem[] {
  const servers = childPointer(optionsPointer, 'servers');
  return Object.entries(Object(options['servers']) as object).flatMap(([slug, server]: [string, unknown]) =>
    toolPhases.flatMap(([key, phase]): Problem[] => {
      const written: unknown = (Object(server) as Readonly<Record<string, unknown>>)[key];
      if (!Array.isArray(written) || written.length === 0) return [];
      const pointer = childPointer(childPointer(servers, slug), key);
      if (!isJudged) {
        const message = `${quoted(key)}: no plugin "guardrails" stands before "mcp" and would run them; add it`;
        return [problemAt(source.locate(pointer), pointer, message)];
      }
      const problems: Problem[] = [];
      readGuardrails(
        written.map((one: unknown) => (isGuardrail(one) ? one : {})),
        { phase, type: 'guardrail', place: key },
        { checks: guards, find: (name) => names.findGuardrail(name) },
        (place, message) => {
          if (!isGuardrail(written[Number(place[0])])) return;
          const issue = { place, path: placeText(place), message, within: undefined };
          problems.push(laterOr(names, issue, problemOfConfig(issue, pointer, source)));
        },
      );
      return problems;
    }),
  );
}

function isGuardrail(value: unknown): value is string | JsonObject {
  if (typeof value === 'string') return value !== '';
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
