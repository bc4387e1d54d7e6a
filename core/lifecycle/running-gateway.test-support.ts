import type { TestContext } from 'node:test';
import { restartNeeded } from '../config/diff.ts';
import { loadConfig } from '../config/load-config.ts';
import { watchFiles } from '../config/watch.ts';
import { definePlugin, Type, type AnyPlugin } from '../pipeline/plugin.ts';
import { PluginBreakers } from '../pipeline/plugin-breaker.ts';
import type { Clock } from '../ports/clock.ts';
import { type CreatedPipeline, startGeneration } from './generation.ts';
import { prepareGeneration } from './prepare.ts';
import { pluginFolder, type PluginFolder } from './plugin-files.test-support.ts';
import {
  realClock,
  recordingServices,
  type Line,
  type RecordingMetrics,
} from './recording-services.test-support.ts';
import { Reloader } from './reload.ts';

/** Events of the plugins below, in order: `+name` for a creation, `-name` for a disposal. */
type Life = string[];

/** A built-in that notes its life. */
function livingPlugin(life: Life, definition: Omit<AnyPlugin, 'create'>, hooks = {}): AnyPlugin {
  return {
    ...definition,
    create(_, scope) {
      life.push(`+${definition.name}`);
      scope.onDispose(() => void life.push(`-${definition.name}`));
      scope.setInterval(() => undefined, 1000);
      return hooks;
    },
  };
}

/** A configuration in a temporary folder and everything to run it with. */
export interface TestBench extends PluginFolder {
  readonly life: Life;
  readonly lines: Line[];
  readonly metrics: RecordingMetrics;
  /** Writes `gateway.config.yaml` with one pipeline of these plugins, each a line of YAML. */
  configure(plugins: readonly string[], more?: string): Promise<void>;
  build(): ReturnType<typeof startGeneration<readonly CreatedPipeline[]>>;
  /** `beforeLoad` runs before each reading of the configuration. */
  reloader(
    env?: Record<string, string>,
    beforeLoad?: () => Promise<void>,
  ): {
    reloader: Reloader<readonly CreatedPipeline[]>;
    /** Arguments of the watcher. */
    watched: { files(): string[]; change(): Promise<void>; stopped: boolean };
  };
  /** One that watches its files itself. */
  watching(): Reloader<readonly CreatedPipeline[]>;
}

/** Makes one. Built in are `auth` (provides the key), `limit` (needs it), `provider` (answers), `logger` (settles). */
export async function testBench(t: TestContext, clock: Clock = realClock): Promise<TestBench> {
  const where = await pluginFolder(t);
  const life: Life = [];
  const { services, lines, metrics } = recordingServices(clock);
  const nothing = (): void => undefined;
  const schema = Type.Object({ size: Type.Optional(Type.Integer()) }, { additionalProperties: false });
  const builtIns = new Map<string, AnyPlugin>();
  const add = (plugin: AnyPlugin): unknown => builtIns.set(plugin.name, plugin);
  add(livingPlugin(life, { name: 'auth', capabilities: { provides: ['key'] } }, { request: nothing }));
  add(livingPlugin(life, { name: 'limit', schema, capabilities: { needs: ['key'] } }, { request: nothing }));
  add(livingPlugin(life, { name: 'provider', capabilities: { answers: true } }, { request: nothing }));
  add(livingPlugin(life, { name: 'logger', capabilities: { timeoutMs: 5 } }, { settled: nothing }));
  add(definePlugin({ name: 'hanging', create: () => new Promise(() => undefined) }));
  const start = {
    builtIns,
    breakers: new PluginBreakers({ clock, log: services.log, metrics }),
    bundler: where.bundler,
    clock,
    log: services.log,
    providerNames: new Set(['openai', 'anthropic']),
    services: () => services,
    compile: (pipelines: readonly CreatedPipeline[]) => pipelines,
  };
  const file = where.path('gateway.config.yaml');
  return {
    ...where,
    life,
    lines,
    metrics,
    configure: (plugins, more = '') => where.write({ 'gateway.config.yaml': yamlOf(plugins) + more }),
    async build() {
      const loaded = await loadConfig(file, { env: {} });
      if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
      const input = { ...start, config: loaded.config, source: loaded.source };
      const result = await prepareGeneration(input);
      const built = result.ok ? await startGeneration(result.prepared, input) : result;
      if (built.ok) t.after(() => void built.generation.retire());
      return built;
    },
    reloader(env = {}, beforeLoad = () => Promise.resolve()) {
      const watched = { files: (): string[] => [], change: () => Promise.resolve(), stopped: false };
      const watch = (files: () => string[], change: () => Promise<void>): (() => void) => {
        Object.assign(watched, { files, change });
        return () => void (watched.stopped = true);
      };
      const load = async (): ReturnType<typeof loadConfig> => {
        await beforeLoad();
        return loadConfig(file, { env });
      };
      const reloader = new Reloader({ ...start, metrics, load, watch, restartNeeded });
      t.after(() => reloader.stop());
      return { reloader, watched };
    },
    watching() {
      const options = { clock, log: services.log, pollMs: 20, settleMs: 5 };
      const reloader = new Reloader({
        ...start,
        metrics,
        restartNeeded,
        load: () => loadConfig(file, { env: {} }),
        watch: (files, change, since) => watchFiles(files, change, { ...options, since }),
      });
      t.after(() => reloader.stop());
      return reloader;
    },
  };
}

function yamlOf(plugins: readonly string[]): string {
  const head = ['version: 1', 'pipelines:', '  - name: gateway', '    match: { path: /** }', '    plugins:'];
  return [...head, ...plugins.map((plugin) => `      - ${plugin}`), ''].join('\n');
}
