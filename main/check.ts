// Composition root: `weir check`.
import path from 'node:path';
import { createLog } from '../adapters/telemetry/line-log.ts';
import { loadConfig } from '../core/config/load-config.ts';
import { PluginBundler } from '../core/lifecycle/plugin-bundler.ts';
import { checkPlugins, prepareGeneration } from '../core/lifecycle/prepare.ts';
import { systemClock as clock } from '../core/ports/clock.ts';
import { folderFault } from '../storage/embedded/own-folder.ts';
import { builtIns, providerNames, providerRows } from './built-ins.ts';
import { reportProblems } from './report-problems.ts';
import { serverOptions } from '../storage/clickhouse/open-server.ts';

const env = process.env;

/** Options of checking a configuration. */
interface CheckOptions {
  readonly data: string;
  readonly withoutCode: boolean;
}

/**
 * `weir check`: reports all faults of a configuration; returns the exit code. Runs the modules of third-party plugins,
 * unless `withoutCode`. `data` is the folder that a start would use.
 */
export async function check(file: string, { data, withoutCode }: CheckOptions): Promise<number> {
  const loaded = await loadConfig(file, { env });
  const log = createLog({
    level: 'error',
    format: 'text',
    write: (line) => process.stderr.write(line),
    clock,
  });
  const bundler = new PluginBundler({ folder: path.resolve(data, 'plugins'), clock, log });
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
  const unusable = await folderFault(path.resolve(data));
  if (unusable !== undefined) {
    console.error(`${data}: ${unusable}`);
    return 1;
  }
  console.log(`${path.relative('', file)} is valid.`);
  return 0;
}
