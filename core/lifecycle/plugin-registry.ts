/** Where bundles of plugins look for `weir-gateway/plugin`: the module of the thread that runs them. */
export const registryKey = 'weir.plugin.module';

/** Provides the module that bundled plugins of this thread import as `weir-gateway/plugin`. */
export function pluginRegistry(module: Readonly<Record<string, unknown>>): void {
  Object.assign(globalThis, { [Symbol.for(registryKey)]: module });
}
