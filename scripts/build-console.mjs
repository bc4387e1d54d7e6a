// Builds the pages of the console (plugins/console/app) into dist/console, when what is there is not their build. Their
// packages are installed beside their sources, from a lock file of their own: the gateway needs none of them. `npm start`
// runs this in the background, tests of the console and the package run it first. A second run waits for the first.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const app = path.join(root, 'plugins', 'console', 'app');
const modules = path.join(app, 'node_modules');
const target = path.join(root, 'dist', 'console');
const stamp = path.join(target, '.sources');
const lock = path.join(root, 'dist', '.console-lock');
const isForced = process.argv.includes('--force');
/** Its packages alone, for a check of its types. */
const isInstallOnly = process.argv.includes('--install');

/** A lock that is older belongs to a process that has ended. */
const longestBuildMs = 600_000;

if (!existsSync(path.join(app, 'package.json'))) process.exit(0);
const wanted = hashOf([...sources(), ['WEIR_CONSOLE_LANGUAGE', process.env.WEIR_CONSOLE_LANGUAGE ?? 'en']]);
if (isInstallOnly || isForced || !isBuilt()) {
  await acquire();
  try {
    if (isInstallOnly) install();
    else if (isForced || !isBuilt()) build();
  } finally {
    rmSync(lock, { recursive: true, force: true });
  }
}

function isBuilt() {
  return existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted;
}

function build() {
  install();
  const made = path.join(root, 'dist', `.console-${process.pid}`);
  rmSync(made, { recursive: true, force: true });
  run(process.execPath, [
    path.join(modules, 'vite', 'bin', 'vite.js'),
    'build',
    '--outDir',
    made,
    '--logLevel',
    'warn',
  ]);
  for (const file of files(made)) compress(file);
  writeFileSync(path.join(made, '.sources'), wanted);
  rmSync(target, { recursive: true, force: true });
  renameSync(made, target);
  console.error('The console is built: it is at /console.');
}

function install() {
  const text = readFileSync(path.join(app, 'package-lock.json'), 'utf8');
  const mark = path.join(modules, '.weir-lock-hash');
  const hash = hashOf([['package-lock.json', text]]);
  if (existsSync(mark) && readFileSync(mark, 'utf8') === hash) return;
  const npm = ['ci', '--no-audit', '--no-fund', '--loglevel=error'];
  run('npm', npm);
  writeFileSync(mark, hash);
}

/** Beside each text: what a browser takes that knows brotli, or gzip. */
function compress(file) {
  if (!/\.(js|css|svg|json)$/.test(file)) return;
  const plain = readFileSync(file);
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: plain.length };
  writeFileSync(`${file}.br`, brotliCompressSync(plain, { params }));
  writeFileSync(`${file}.gz`, gzipSync(plain, { level: 9 }));
}

async function acquire() {
  mkdirSync(path.dirname(lock), { recursive: true });
  for (;;) {
    try {
      mkdirSync(lock);
      return;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
      const age = Date.now() - (statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? 0);
      if (age > longestBuildMs) rmSync(lock, { recursive: true, force: true });
      else await pause(500);
    }
  }
}

/** Every source with its text, in one order. */
function sources() {
  return files(app)
    .filter((file) => !file.endsWith('.gen.d.ts'))
    .sort()
    .map((file) => [path.relative(app, file), readFileSync(file, 'utf8')]);
}

function files(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const place = path.join(folder, entry.name);
    if (entry.name === 'node_modules') return [];
    return entry.isDirectory() ? files(place) : [place];
  });
}

function hashOf(parts) {
  const hash = createHash('sha256');
  for (const [name, text] of parts) hash.update(`${name}\0${text.length}\0${text}`);
  return hash.digest('hex');
}

function run(command, args) {
  const { status, error } = spawnSync(command, args, { cwd: app, stdio: ['ignore', 2, 2] });
  if (status === 0) return;
  console.error(
    `The console could not be built${error ? `: ${error.message}` : '; the lines above say why'}. The gateway serves without it.`,
  );
  rmSync(lock, { recursive: true, force: true });
  process.exit(1);
}
