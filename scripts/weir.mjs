#!/usr/bin/env node
// The `weir` command: main.ts through tsx, in this process's working directory.
import { spawn } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { runEnvironment } from './bundle-modules.mjs';
import { runtimeFlags } from './runtime-flags.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const loader = import.meta.resolve('tsx');
const child = spawn(
  process.execPath,
  [...runtimeFlags, '--import', loader, path.join(root, 'main.ts'), ...process.argv.slice(2)],
  { stdio: 'inherit', env: { ...process.env, ...runEnvironment } },
);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('exit', (code, signal) => process.exit(code ?? (signal === null ? 1 : 128)));
