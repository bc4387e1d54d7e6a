// Composition root: the built-in plugins and providers.
import { providerTable } from '../adapters/providers.ts';
import { builtInPlugins } from '../plugins/index.ts';

/** The plugins that configurations can name without a path. */
export const builtIns = new Map(builtInPlugins.map((plugin) => [plugin.name, plugin]));

/** The rows of providers that need no configuration. */
export const providerRows = providerTable;

/** Names of the built-in providers. */
export const providerNames: ReadonlySet<string> = new Set(providerTable.keys());
