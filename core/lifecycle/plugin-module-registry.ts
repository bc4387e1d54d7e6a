import * as pluginModule from '../pipeline/plugin.ts';

const registryKey = 'weir.plugin.module';

/**
 * Makes the running process's `weir-gateway/plugin` reachable for bundled plugins and returns the source of a module that
 * re-exports it: a plugin outside the project's tree can import it, and shares its classes with the gateway.
 */
export function pluginModuleSource(): string {
  Object.assign(globalThis, { [Symbol.for(registryKey)]: pluginModule });
  const names = Object.keys(pluginModule);
  const lines = names.map((name) => `export const ${name} = shared.${name};`);
  return [`const shared = globalThis[Symbol.for('${registryKey}')];`, ...lines].join('\n');
}
