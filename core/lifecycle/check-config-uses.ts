import type { ConfigSource } from '../config/config-source.ts';
import { childPointer } from '../base/pointer.ts';
import type { Problem } from '../config/problem.ts';
import type { GatewayConfig, PluginEntry } from '../config/schema.ts';
import type { RouteConfigInput } from '../organisation/route-config.ts';
import { unknownConfig } from '../routing/plan/compile-config.ts';
import { problemAt } from './problem-at.ts';

/** The parts of a configuration that use each other. */
export interface ConfigUses {
  readonly config: Pick<GatewayConfig, 'configs' | 'pipelines'> &
    Partial<Pick<GatewayConfig, 'organisation'>>;
  readonly source: ConfigSource;
}

/**
 * What configs and plugins expect of each other: the config that a `provider` plugin names is there, and a config that
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
  // What is nested more deeply than configs may be is refused elsewhere.
  if (depth > 16) return undefined;
  for (const [index, target] of (targets ?? []).entries()) {
    const found = cachedPlace(target, childPointer(childPointer(pointer, 'targets'), index), depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}
