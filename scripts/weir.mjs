#!/usr/bin/env node
// The `weir` command: main.ts, in this process's working directory.
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { runtimeFlags } from './runtime-flags.mjs';
import { supervise } from './supervise.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const args = process.argv.slice(2);
supervise(process.execPath, [...runtimeFlags, path.join(here, 'run.mjs'), ...args], {
  // Without a word, or with options alone, it starts as well.
  restart: args[0] === undefined || args[0] === 'start' || args[0].startsWith('--'),
});
