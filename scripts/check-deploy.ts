// The files that deploy Weir in containers and services. No container engine is needed: checks that need only the files
// run here, and `docker compose config` and `systemd-analyze verify` run where they are installed.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { checkCompose } from './check-compose.ts';
import { checkDockerfile } from './check-dockerfile.ts';
import { checkUnit } from './check-unit.ts';
import { importsOf, type Source } from './read-sources.ts';
import { runtimeFlags } from './runtime-flags.mjs';

/** Default of `server.drain_delay_ms` and `server.shutdown_timeout_ms`, plus the closing of journal and stores. */
const stopSeconds = 50;
const gatewayConfig = 'deploy/config/gateway.config.yaml';

/** All faults of the deployment files; `sources` are those of the project. */
export function checkDeploy(sources: readonly Source[]): string[] {
  const dockerfile = readFileSync('Dockerfile', 'utf8');
  const ignore = readFileSync('.dockerignore', 'utf8');
  const text = readFileSync('compose.yaml', 'utf8');
  const example = readFileSync('deploy/.env.example', 'utf8');
  const scripts = ['healthcheck', 'weir', 'supervise', 'runtime-flags'].map((name) => `scripts/${name}.mjs`);
  const needed = [...neededFiles(sources), 'package.json', 'package-lock.json', ...scripts];
  return [
    ...checkDockerfile({ dockerfile, ignore, files: treeFiles(), needed, nodeFlags: runtimeFlags }),
    ...checkCompose({ text, example, exists: existsSync, stopSeconds }),
    ...checkUnit({ text: readFileSync('deploy/weir.service', 'utf8'), stopSeconds, nodeFlags: runtimeFlags }),
    ...composeConfig(example),
    ...verifyUnit(),
    ...checkConfiguration(example),
  ];
}

/** Files that run `main.ts`. The hash of the build includes them, so the image must contain the same ones. */
const runner = ['scripts/run.mjs', 'scripts/built-sources.mjs', 'package-lock.json'];

/**
 * Files that main.ts reaches by imports and by `new URL('./x', import.meta.url)`; migrations as a whole; the runner.
 */
export function neededFiles(sources: readonly Source[]): string[] {
  const byName = new Map(sources.map((source) => [source.file, source]));
  const found = new Set(['main.ts']);
  for (const file of found) {
    const source = byName.get(file);
    if (source === undefined) continue;
    const started = [...source.text.matchAll(/new URL\('(\.[^']+\.ts)', import\.meta\.url\)/g)];
    const names = started.map(([, name = '']) => path.posix.join(path.posix.dirname(file), name));
    for (const name of [...importsOf(source), ...names]) if (byName.has(name)) found.add(name);
  }
  const migrations = ['storage/clickhouse/migrations', 'storage/postgres/migrations'].flatMap((folder) =>
    readdirSync(folder).map((file) => `${folder}/${file}`),
  );
  return [...found, ...migrations, ...runner];
}

function treeFiles(): string[] {
  const left = new Set(['node_modules', 'data', '.git']);
  const walk = (folder: string): string[] =>
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => !left.has(entry.name))
      .flatMap((entry) => {
        const full = path.posix.join(folder, entry.name);
        return entry.isDirectory() ? walk(full) : [full];
      });
  return walk('.');
}

/** Values for every variable of the example, so that none is missing. */
function filled(example: string): Record<string, string> {
  const names = [...example.matchAll(/^(\w+)=(.*)$/gm)];
  return Object.fromEntries(names.map(([, name = '', value = '']) => [name, value || 'wk_0123456789abcdef']));
}

function composeConfig(example: string): string[] {
  if (spawnSync('docker', ['compose', 'version']).status !== 0) return [];
  const folder = mkdtempSync(path.join(tmpdir(), 'weir-check-'));
  try {
    const file = path.join(folder, 'env');
    const lines = Object.entries(filled(example)).map(([name, value]) => `${name}=${value}\n`);
    writeFileSync(file, lines.join(''));
    return problemsOf('docker', ['compose', '--env-file', file, '-f', 'compose.yaml', 'config', '--quiet']);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function verifyUnit(): string[] {
  if (spawnSync('systemd-analyze', ['--version']).status !== 0) return [];
  return problemsOf('systemd-analyze', ['verify', 'deploy/weir.service']).filter(
    // Where Node is elsewhere, the unit is still correct for its own path.
    (line) => line !== '' && !/is not executable: No such file|Failed to (connect|prepare)/.test(line),
  );
}

/** Checks the configuration that compose mounts with `weir check`. */
function checkConfiguration(example: string): string[] {
  const env = { ...process.env, ...filled(example) };
  const args = ['--import', 'tsx', 'main.ts', 'check', gatewayConfig];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', env });
  return status === 0 ? [] : `${stdout}${stderr}`.trim().split('\n');
}

/** Output of a tool that rejects a file. */
function problemsOf(command: string, args: readonly string[]): string[] {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  return status === 0 ? [] : `${stdout}${stderr}`.trim().split('\n');
}
