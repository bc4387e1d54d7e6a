// A part of the composition root: `weir check`.
import path from 'node:path';
import { createLog } from '../adapters/telemetry/line-log.ts';
import { loadConfig } from '../core/config/load-config.ts';
import { PluginBundler } from '../core/lifecycle/plugin-bundler.ts';
import { checkPlugins, prepareGeneration } from '../core/lifecycle/prepare.ts';
import { systemClock as clock } from '../core/ports/system-clock.ts';
import { builtIns, providerNames, providerRows } from './built-ins.ts';
import { reportProblems } from './report-problems.ts';

const env = process.env;

/** `weir check`: says everything that is wrong with a configuration; the exit code. */
export async function check(file: string): Promise<number> {
  const loaded = await loadConfig(file, { env });
  const log = createLog({
    level: 'error',
    format: 'text',
    write: (line) => process.stderr.write(line),
    clock,
  });
  const bundler = new PluginBundler({ folder: path.resolve('data', 'plugins'), clock, log });
  const sources = { builtIns, bundler, providerNames, providerRows, clock };
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
  console.log(`${path.relative('', file)} is valid.`);
  return 0;
}
