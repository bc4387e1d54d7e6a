// Composition root: `weir check`.
import path from 'node:path';
import { createLog } from '../adapters/telemetry/line-log.ts';
import { loadConfig } from '../core/config/load-config.ts';
import { watchFiles } from '../core/config/watch.ts';
import { PluginBundler } from '../core/lifecycle/plugin-bundler.ts';
import { checkPlugins, prepareGeneration } from '../core/lifecycle/prepare.ts';
import { systemClock as clock } from '../core/ports/clock.ts';
import { privateFolders } from '../storage/embedded/own-folder.ts';
import { builtIns, providerNames, providerRows } from './built-ins.ts';
import { reportProblems } from './config-file.ts';
import { serverOptions } from '../storage/clickhouse/open-server.ts';

const env = process.env;

/** Options of checking a configuration. */
interface CheckOptions {
  readonly data: string;
  readonly withoutCode: boolean;
  /** Checks again whenever one of the files changes, until the process is ended. */
  readonly watch: boolean;
}

/**
 * `weir check`: reports all faults of a configuration; returns the exit code. Runs the modules of third-party plugins,
 * unless `withoutCode`. `data` is the folder that a start would use.
 */
export async function check(file: string, options: CheckOptions): Promise<number | undefined> {
  if (!options.watch) return (await checkOnce(file, options)).code;
  const shown = path.relative('', file);
  let files: readonly string[] = [file];
  const again = async (): Promise<void> => {
    ({ files } = await checkOnce(file, options));
    console.log(`Waiting for a change of ${shown} …`);
  };
  const since = clock.now();
  await again();
  // The watcher alone keeps no process alive.
  setInterval(() => undefined, keepAliveMs);
  watchFiles(() => files, again, { clock, log: errorLog, since });
  return undefined;
}

const keepAliveMs = 60_000;
const errorLog = createLog({
  level: 'error',
  format: 'text',
  write: (line) => process.stderr.write(line),
  clock,
});

/** The exit code, and the files that may change it. */
interface Checked {
  readonly code: number;
  readonly files: readonly string[];
}

async function checkOnce(file: string, options: CheckOptions): Promise<Checked> {
  const loaded = await loadConfig(file, { env });
  const files = loaded.ok ? loaded.source.files : loaded.files;
  return { code: await codeOf(file, loaded, options), files };
}

async function codeOf(
  file: string,
  loaded: Awaited<ReturnType<typeof loadConfig>>,
  { data, withoutCode }: CheckOptions,
): Promise<number> {
  const bundler = new PluginBundler({ folder: path.resolve(data, 'plugins'), clock, log: errorLog });
  const sources = { builtIns, bundler, providerNames, providerRows, clock, withoutCode };
  if (!loaded.ok) {
    const { draft, problems } = loaded;
    return reportProblems(
      draft === undefined ? problems : await checkPlugins({ ...draft, ...sources }, problems),
    );
  }
  const { config, source } = loaded;
  const prepared = await prepareGeneration({ config, source, ...sources });
  if (!prepared.ok) return reportProblems(prepared.problems);
  reportProblems([...loaded.warnings, ...prepared.prepared.warnings]);
  const { analytics } = config.storage;
  if (analytics.url.startsWith('http')) {
    try {
      // Files that a start reads before it connects.
      await serverOptions(analytics, path.dirname(file));
    } catch (error) {
      console.error(`${file}: ${error instanceof Error ? error.message : String(error)}`);
      return 1;
    }
  }
  const unusable = await privateFolders.fault(path.resolve(data));
  if (unusable !== undefined) {
    console.error(`${data}: ${unusable}`);
    return 1;
  }
  console.log(`${path.relative('', file)} is valid.`);
  return 0;
}
