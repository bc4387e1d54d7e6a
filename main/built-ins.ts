// A part of the composition root: what comes with the gateway.
import { providerTable } from '../adapters/providers.ts';
import { builtInPlugins } from '../plugins/index.ts';

/** The plugins that configurations name without a path. */
export const builtIns = new Map(builtInPlugins.map((plugin) => [plugin.name, plugin]));

/** The rows of the providers that need none of their own. */
export const providerRows = providerTable;

/** Their names. */
export const providerNames: ReadonlySet<string> = new Set(providerTable.keys());
