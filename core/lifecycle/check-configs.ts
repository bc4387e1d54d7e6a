import type { ConfigSource } from '../config/config-source.ts';
import { childPointer } from '../base/pointer.ts';
import type { Problem } from '../config/problem.ts';
import type { GatewayConfig } from '../config/schema.ts';
import { compileConfig } from '../routing/plan/compile-config.ts';
import { placeText, type ConfigIssue } from '../routing/plan/config-issue.ts';
import { providerLookup } from '../routing/plan/config-names.ts';
import { servicePrefixes } from '../config/service-prefixes.ts';
import { FileNames } from './file-names.ts';
import { problemAt } from './problem-at.ts';

/** What configs are checked in. */
export interface ConfigsCheck {
  readonly config: Pick<GatewayConfig, 'configs' | 'providers'> &
    Partial<Pick<GatewayConfig, 'organisation' | 'server' | 'storage'>>;
  readonly source: ConfigSource;
  /** The rows of the provider table. */
  readonly providerNames: Iterable<string>;
}

/**
 * Compiles every config of the configuration; what is wrong with one, or has no effect in it, at its place in the file.
 * Names that the file does not have are notes where there is a store that may have them.
 */
export function checkConfigs({ config, source, providerNames }: ConfigsCheck): Problem[] {
  const configs = new Map(Object.entries(config.configs));
  const knowsProvider = providerLookup({
    builtIn: providerNames,
    configured: Object.keys(config.providers),
  });
  // The draft of a configuration with mistakes elsewhere may have no server section that could be trusted.
  const prefixes = config.server === undefined ? [] : servicePrefixes(config.server);
  return [...configs].flatMap(([slug, input]) => {
    const saved = new FileNames(config, knowsProvider);
    const setup = { configs, saved, knowsProvider: saved.knowsProvider, servicePrefixes: prefixes };
    const result = compileConfig(input, { id: slug, slug, ...setup });
    const problems = (issues: readonly ConfigIssue[]): Problem[] =>
      issues
        // What is wrong within a config that this one refers to is told where it stands.
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

/** The problem, or a note of it when the name in it may be that of something in the store. */
export function laterOr({ later }: FileNames, { message }: ConfigIssue, problem: Problem): Problem {
  return later.has(message) ? { ...problem, severity: 'note' } : problem;
}

/** What is wrong in a config that stands at the pointer `base` of its source, as a problem of its file. */
export function problemOfConfig(
  { place, message }: ConfigIssue,
  base: string,
  source: ConfigSource,
): Problem {
  const pointer = place.reduce<string>(childPointer, base);
  const origin = source.origin(pointer);
  // A message quotes what is wrong; what variables hold is not to be shown.
  const text =
    origin === undefined
      ? message
      : `what ${origin.names.join(' and ')} stands for cannot be used as ${placeText(place)}`;
  return problemAt(source.locate(pointer), pointer, text);
}
