import type { AnyPlugin, Hooks } from './plugin.ts';

/** A plugin created for one place in one pipeline of one generation. */
export interface PluginInstance {
  readonly definition: AnyPlugin;
  /** The plugin's name: label of logs, metrics and errors. */
  readonly name: string;
  readonly hooks: Hooks;
  readonly onError: 'fail' | 'skip';
  /** 0 for no bound. */
  readonly timeoutMs: number;
  /** True for plugins that come with the gateway. */
  readonly builtIn: boolean;
}
