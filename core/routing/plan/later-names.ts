import type { SavedProviders } from './provider-names.ts';
import type { SavedConfigs } from './saved-names.ts';

/**
 * The names in a config of the configuration that are not in it: each may be that of something saved, which is looked up
 * when a request uses the config. Providers are taken to be there, configs are not: nothing can be compiled without them.
 */
export class LaterNames implements SavedConfigs, SavedProviders {
  readonly configs = new Set<string>();
  readonly providers = new Set<string>();

  find(name: string): undefined {
    this.configs.add(name);
  }

  slugs(): readonly string[] {
    return [];
  }

  hasProvider(name: string): boolean {
    this.providers.add(name);
    return true;
  }

  providerSlugs(): readonly string[] {
    return [];
  }
}
