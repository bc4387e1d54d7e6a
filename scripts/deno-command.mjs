// Command line of Deno for the gateway. Permissions: all, because the configuration decides which files, hosts and
// variables are used. Packages come from node_modules, as on Node, and nothing is fetched at run time.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { runtimeFlags } from './runtime-flags.mjs';

/** The program of the `deno` package, or undefined when the package is not installed or has none for this system. */
export function denoProgram() {
  const require = createRequire(import.meta.url);
  try {
    const folder = path.dirname(require.resolve('deno/package.json'));
    const program = path.join(folder, process.platform === 'win32' ? 'deno.exe' : 'deno');
    // The package adds its program at installation; an installation without scripts leaves that to this code.
    return existsSync(program) ? program : require('deno/install_api.cjs').runInstall();
  } catch {
    return undefined;
  }
}

/** Deno's arguments before the entry file. */
export const denoArguments = [
  'run',
  '--allow-all',
  '--node-modules-dir=manual',
  '--cached-only',
  `--v8-flags=${runtimeFlags.join(',')}`,
];
