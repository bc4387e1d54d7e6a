#!/usr/bin/env node
// The `weir` command: main.ts, in this process's working directory.
import { spawn } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { runtimeFlags } from './runtime-flags.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const child = spawn(
  process.execPath,
  [...runtimeFlags, path.join(here, 'run.mjs'), ...process.argv.slice(2)],
  { stdio: 'inherit' },
);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('exit', (code, signal) => process.exit(code ?? (signal === null ? 1 : 128)));
