// A part of the composition root: `weir plugin new`, `weir plugin test` and `weir plugin docs`.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createLog } from '../../adapters/telemetry/line-log.ts';
import type { PluginCommand } from '../../core/administration/cli/command-arguments.ts';
import { formatProblem } from '../../core/config/problem.ts';
import { PluginBundler } from '../../core/lifecycle/plugin-bundler.ts';
import { loadPlugin } from '../../core/lifecycle/prepare.ts';
import type { AnyPlugin, Hooks } from '../../core/pipeline/plugin.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { builtIns } from '../built-ins.ts';
import { inspectGateway } from '../testing/gateway.ts';
import { checkMatrix } from './check-matrix.ts';
import { makePluginFolder } from './new-plugin.ts';
import { pluginReference } from './plugin-reference.ts';

/** Dependencies of the command. */
interface PluginCommandParts {
  readonly clock: Clock;
  readonly print: (text: string) => void;
  readonly complain: (text: string) => void;
}

/** Runs the command; the exit code. */
export async function runPluginCommand(command: PluginCommand, parts: PluginCommandParts): Promise<number> {
  const { print, complain } = parts;
  try {
    if (command.action === 'new') {
      print(await makePluginFolder(command.plugin));
      return 0;
    }
    const definition = await loadDefinition(command.file, parts);
    if (command.action === 'test') return await checkMatrix({ ...command, definition }, print);
    print(pluginReference(definition, await hooksOf(definition, command)));
    return 0;
  } catch (error) {
    complain(error instanceof Error ? error.message : String(error));
    return 1;
  }
}

/** The definition in a file. Rejects with everything that is wrong with it. */
async function loadDefinition(file: string, { clock, complain }: PluginCommandParts): Promise<AnyPlugin> {
  const folder = await mkdtemp(path.join(tmpdir(), 'weir-plugin-'));
  try {
    const log = createLog({ level: 'error', format: 'text', write: complain, clock });
    const bundler = new PluginBundler({ folder, clock, log });
    const entry = {
      use: path.resolve(file),
      options: {},
      onError: undefined,
      timeoutMs: undefined,
      pointer: '',
      optionsPointer: '',
      file: path.resolve('gateway.config.yaml'),
    };
    const loaded = await loadPlugin(entry, { file, line: 0, column: 0 }, { builtIns, bundler, clock });
    if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join('\n'));
    return loaded.plugin.definition;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Hooks that the plugin's `create` returns; undefined where required options are not given. */
async function hooksOf(
  { schema }: AnyPlugin,
  { file, options }: Extract<PluginCommand, { action: 'docs' }>,
): Promise<Hooks | undefined> {
  const { required = [] } = (schema ?? {}) as { readonly required?: readonly string[] };
  if (options === undefined && required.length > 0) return undefined;
  const { gateway, plugin } = await inspectGateway({ plugin: file, options: options ?? {} });
  try {
    return plugin().hooks;
  } finally {
    await gateway.close();
  }
}
