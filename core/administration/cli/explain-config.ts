import path from 'node:path';
import { checkValue } from '../../config/check-value.ts';
import { nodeValue } from '../../config/config-node.ts';
import { createSource, type ConfigSource } from '../../config/config-source.ts';
import type { LoadResult } from '../../config/load-config.ts';
import { parseYaml } from '../../config/parse-yaml.ts';
import { childPointer } from '../../base/pointer.ts';
import { isError, type Problem } from '../../config/problem.ts';
import { servicePrefixes } from '../../config/service-prefixes.ts';
import { maxConfigFileBytes, readText } from '../../config/read-file.ts';
import { problemOfConfig } from '../../lifecycle/check-configs.ts';
import { RouteConfigSchema, type RouteConfigInput } from '../../organisation/route-config.ts';
import { compileConfig, unknownConfig } from '../../routing/plan/compile-config.ts';
import type { CompiledConfig } from '../../routing/plan/plan-node.ts';
import { providerLookup } from '../../routing/plan/config-names.ts';

/** The configuration in which a config is looked up, or into which it is thought. */
interface ConfigPlace {
  readonly loaded: Extract<LoadResult, { ok: true }>;
  /** Rows of the provider table. */
  readonly providerNames: ReadonlySet<string>;
}

/** A config, undefined when it cannot be used, and what is to be said about it. */
interface FoundConfig {
  readonly config: CompiledConfig | undefined;
  readonly problems: readonly Problem[];
}

interface Written {
  readonly input: RouteConfigInput;
  /** Pointer to it in its source. */
  readonly base: string;
  readonly source: ConfigSource;
  readonly slug: string | undefined;
}

/** Finds a config by its name, in a file, or in the text itself (`{ … }`), and compiles it. */
export async function findConfig(named: string, place: ConfigPlace): Promise<FoundConfig> {
  const { config, source } = place.loaded;
  if (named.trimStart().startsWith('{')) return given(named, { path: '--config', name: '--config' }, place);
  const input = Object.hasOwn(config.configs, named) ? config.configs[named] : undefined;
  if (input !== undefined)
    return compiled({ input, base: childPointer('/configs', named), source, slug: named }, place);
  const read = await readText(named, maxConfigFileBytes);
  if (read.ok) return given(read.text, { path: path.resolve(named), name: named }, place);
  const isFile = /[/\\]|\.(?:json|ya?ml)$/i.test(named);
  const message = isFile ? read.message : `${unknownConfig(named, Object.keys(config.configs))}, and no file`;
  return refused([{ file: isFile ? named : '--config', line: 0, column: 0, path: '', message }]);
}

function given(text: string, file: { path: string; name: string }, place: ConfigPlace): FoundConfig {
  const { root, problems } = parseYaml(text, file);
  if (root === undefined)
    return refused(
      problems.length > 0
        ? problems
        : [{ file: file.name, line: 0, column: 0, path: '', message: 'is empty; write a config' }],
    );
  const source = createSource(root, { files: [file.path], digest: '' });
  const checked = checkValue(RouteConfigSchema, nodeValue(root), { pointer: '', source });
  if (checked.problems.some(isError)) return refused(checked.problems);
  return compiled({ input: checked.value as RouteConfigInput, base: '', source, slug: undefined }, place);
}

function compiled(
  { input, base, source, slug }: Written,
  { loaded, providerNames }: ConfigPlace,
): FoundConfig {
  const { configs, providers, server } = loaded.config;
  const result = compileConfig(input, {
    ...{ id: slug ?? 'inline', slug, configs: new Map(Object.entries(configs)) },
    servicePrefixes: servicePrefixes(server),
    knowsProvider: providerLookup({ builtIn: providerNames, configured: Object.keys(providers) }),
  });
  const warnings = result.warnings.map((issue): Problem => ({
    ...problemOfConfig(issue, base, source),
    severity: 'warning',
  }));
  if (result.ok) return { config: result.config, problems: warnings };
  return refused([...result.issues.map((issue) => problemOfConfig(issue, base, source)), ...warnings]);
}

function refused(problems: readonly Problem[]): FoundConfig {
  return { config: undefined, problems };
}
