/** The runtimes that the gateway is tested on. */
import { denoArguments, denoProgram } from '../../scripts/deno-command.mjs';

/** Its name. */
export type Runtime = 'node' | 'deno';

/** What runs a source file: a program, and its arguments before that file. */
interface Launcher {
  readonly program: string;
  readonly args: readonly string[];
}

const tsx = import.meta.resolve('tsx');

/** The runtime of started gateways where a test names none: WEIR_TEST_RUNTIME, or Node. */
export const defaultRuntime: Runtime = process.env['WEIR_TEST_RUNTIME'] === 'deno' ? 'deno' : 'node';

/** How one of our sources is run. Throws when the runtime is not installed. */
export function launcher(runtime: Runtime): Launcher {
  if (runtime === 'node') return { program: process.execPath, args: ['--import', tsx] };
  const program = denoProgram();
  if (program === undefined) {
    throw new Error('Deno is not here: run npm install, which brings the package deno.');
  }
  return { program, args: denoArguments };
}
