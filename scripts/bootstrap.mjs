// Plain JavaScript on purpose: it runs before anything is installed. `npm start`, `npm test`, `npm run check`, `npm run
// bench`, `npm run docs`, `npm run fuzz`, `npm run soak`, `npm run seed:demo` and their `:deno` variants use it; each first installs from
// the lock file when node_modules is missing or stale.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleModules, isBundled, runEnvironment } from './bundle-modules.mjs';
import { denoArguments, denoProgram } from './deno-command.mjs';
import { runtimeFlags } from './runtime-flags.mjs';
import { supervise } from './supervise.mjs';
import {
  fileOfGroup,
  filesAlone,
  groups,
  newerNodes,
  runnerArguments,
  runOfSuite,
  suites,
} from './test-groups.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const modules = path.join(root, 'node_modules');
const stamp = path.join(modules, '.weir-lock-hash');

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(`Weir needs Node 20.19 or newer; this is ${process.versions.node}.`);
  process.exit(1);
}

/** Environment of tests with `--bounded`. */
const bounded = { WEIR_PROPERTY_RUNS: '4', WEIR_TEST_BOUNDED: '1' };

const [command, ...rest] = process.argv.slice(2);
// A serving gateway needs no packages of tests, checks and benchmarks.
install(command === 'start' ? ['--omit=dev'] : []);
if (!isBundled()) await bundleModules();
const tsx = ['--import', 'tsx'];
const serving = { restart: true, options: { cwd: root, env: { ...process.env, ...runEnvironment } } };
if (command === 'start' || command === 'start:deno') buildConsole();
if (command === 'start')
  supervise(process.execPath, [...runtimeFlags, 'scripts/run.mjs', 'start', ...rest], serving);
else if (command === 'start:deno')
  supervise(deno(), [...denoArguments, 'main.ts', 'start', ...rest], serving);
else if (command === 'test') test(rest.length > 0 ? rest : allTests());
else if (command === 'test:node') testOnNewerNodes(rest);
else if (command === 'test:chaos' && rest.every((word) => !word.endsWith('.test.ts')))
  run([...tsx, 'scripts/chaos.ts', ...rest]);
else if (command?.startsWith('test:') && Object.hasOwn(suites, command.slice('test:'.length))) {
  const suite = command.slice('test:'.length);
  const isBounded = rest[0] === '--bounded';
  const env = {
    ...(isBounded && bounded),
    ...process.env,
    ...(suite === 'deno' && { WEIR_TEST_RUNTIME: 'deno' }),
  };
  test(rest.length > 0 && !isBounded ? rest : runOfSuite(suite, isBounded), env, suite);
} else if (command === 'check') run([...tsx, 'scripts/check.ts', ...rest]);
else if (command === 'check:deployment') run([...tsx, 'scripts/check-deployment.ts', ...rest]);
else if (command === 'docs') run([...tsx, 'scripts/docs.ts', ...rest]);
else if (command === 'bench') run(['scripts/bench.mjs', ...rest]);
else if (command === 'fuzz') run([...tsx, 'scripts/fuzz.ts', ...rest]);
else if (command === 'soak') run([...tsx, 'scripts/soak/main.ts', ...rest]);
else if (command === 'seed:demo') run([...tsx, 'scripts/seed-demo.ts', ...rest]);
else
  fail(
    `Unknown command "${command}". Use start, start:deno, test, test:node, ${Object.keys(suites)
      .map((suite) => `test:${suite}`)
      .join(', ')}, check, check:deployment, bench, fuzz, soak or seed:demo.`,
  );

/** The gateway serves meanwhile, and has the processor first. */
function buildConsole() {
  const child = spawn(process.execPath, ['scripts/build-console.mjs'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
  });
  child.once('spawn', () => os.setPriority(child.pid, os.constants.priority.PRIORITY_LOW));
  child.once('error', (error) => console.error(`The console cannot be built: ${error.message}`));
  process.once('exit', () => child.kill());
  child.unref();
}

/** Installed packages may be more than these: a start after the tests installs nothing. */
function install(omitted) {
  const lock = createHash('sha256')
    .update(readFileSync(path.join(root, 'package-lock.json')))
    .digest('hex');
  const wanted = [lock, ...omitted].join(' ');
  const installed = existsSync(stamp) ? readFileSync(stamp, 'utf8') : '';
  if (installed === lock || installed === wanted) return;
  console.error('Installing dependencies from the lock file (once) …');
  // Without warnings: npm also checks the engines of packages that are not installed.
  const done = spawnSync('npm', ['ci', ...omitted, '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
  });
  if (done.status !== 0) fail('The installation failed; the lines above say why.');
  writeFileSync(stamp, wanted);
}

/** The files of `npm test`: its groups, and every file that is alone. */
function allTests() {
  return [...Object.keys(groups).map(fileOfGroup), ...filesAlone()];
}

function deno() {
  return (
    denoProgram() ??
    fail('Deno is not here: the package "deno" is not installed, or has none for this system.')
  );
}

function test(files, env = process.env, suite = undefined) {
  // A window of a browser takes a core.
  const isBrowser =
    suite === 'browser' || files.every((file) => suites.browser.test(file.replaceAll('\\', '/')));
  run([...runnerArguments, ...(isBrowser ? ['--test-concurrency=2'] : []), ...files], { env });
}

/** Tests on each newer release of Node, one after the other; fails at the end when one of them had a failure. */
function testOnNewerNodes(files) {
  const isBounded = files[0] === '--bounded';
  const failed = Object.entries(newerNodes).flatMap(([release, boundedFiles]) => {
    const ran = isBounded ? boundedFiles : files.length > 0 ? files : allTests();
    const bin = nodeOf(release);
    console.error(`Tests on Node ${release} …`);
    const done = spawnSync(path.join(bin, 'node'), [...runnerArguments, ...ran], {
      cwd: root,
      stdio: 'inherit',
      env: {
        ...(isBounded && bounded),
        ...process.env,
        ...runEnvironment,
        PATH: `${bin}${path.delimiter}${process.env.PATH}`,
      },
    });
    return done.status === 0 ? [] : [release];
  });
  if (failed.length > 0) fail(`Tests failed on Node ${failed.join(' and ')}.`);
}

/** The folder of a release's program, which npm's package `node` brings. */
function nodeOf(release) {
  const folder = path.join(modules, '.cache', `node-${release}`);
  const bin = path.join(folder, 'node_modules', 'node', 'bin');
  if (existsSync(path.join(bin, 'node'))) return bin;
  mkdirSync(folder, { recursive: true });
  const options = ['--prefix', folder, '--no-audit', '--no-fund', '--loglevel=error'];
  const done = spawnSync('npm', ['install', ...options, `node@${release}`], { stdio: ['ignore', 2, 2] });
  if (done.status !== 0) fail(`Node ${release} could not be installed; the lines above say why.`);
  return bin;
}

/** Runs a child process, forwards signals, and ends with its exit status. */
function run(args, { env = process.env } = {}) {
  supervise(process.execPath, args, {
    restart: false,
    options: { cwd: root, env: { ...env, ...runEnvironment } },
  });
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
