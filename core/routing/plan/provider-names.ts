import { didYouMean } from '../../base/did-you-mean.ts';
import { inProcessProvider } from '../../providers/provider-row.ts';
import { quoted } from '../../base/word-list.ts';
import type { LeafProvider } from './plan-node.ts';

/**
 * Undefined for a provider that exists, else a sentence that says that it does not and what may have been meant.
 * `saved`: those of a store, which count like those of the configuration.
 */
export type KnowsProvider = (provider: LeafProvider, saved?: SavedProviders) => string | undefined;

/** Providers of a store, as one workspace sees them. */
export interface SavedProviders {
  /** By slug or id. */
  hasProvider(name: string): boolean;
  /** For suggestions. */
  providerSlugs(): Iterable<string>;
}

/** The providers that a configuration has. */
export interface ProviderNames {
  /** Rows of the provider table. */
  readonly builtIn: Iterable<string>;
  /** Those under `providers` in the configuration: only they, and `mock`, can be named as virtual key or with an `@`. */
  readonly configured: Iterable<string>;
}

/** Looks names up among the providers of one configuration. */
export function providerLookup(names: ProviderNames): KnowsProvider {
  const builtIn = new Set(names.builtIn);
  const configured = new Set(names.configured);
  if (builtIn.has(inProcessProvider)) configured.add(inProcessProvider);
  const all = new Set([...configured, ...builtIn]);
  return ({ name, kind }, saved) => {
    const isSlug = name.startsWith('@');
    const candidates = isSlug || kind === 'virtual-key' ? configured : all;
    const bare = isSlug ? name.slice(1) : name;
    if (candidates.has(bare)) return undefined;
    const maySave = candidates === configured;
    if (maySave && saved?.hasProvider(bare) === true) return undefined;
    const meant = didYouMean(
      bare,
      maySave && saved !== undefined ? [...candidates, ...saved.providerSlugs()] : candidates,
    );
    const what = kind === 'virtual-key' ? 'virtual key' : isSlug ? 'provider slug' : 'provider';
    const remedy =
      meant !== undefined
        ? `did you mean ${quoted(isSlug ? `@${meant}` : meant)}?`
        : maySave && saved !== undefined
          ? 'make a provider of that slug for the workspace, or define it under "providers" in the configuration'
          : 'define it under "providers" in the configuration';
    return `there is no ${what} ${quoted(name)}; ${remedy}`;
  };
}
