// The files that put Weir into containers and services. No container engine is needed: what can be told from the
// files themselves is checked here, and by `docker compose config` and `systemd-analyze verify` where they are.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { checkCompose } from './check-compose.ts';
import { checkDockerfile } from './check-dockerfile.ts';
import { checkUnit } from './check-unit.ts';
import { importsOf, type Source } from './read-sources.ts';
import { runtimeFlags } from './runtime-flags.mjs';

/** `server.drain_delay_ms` and `server.shutdown_timeout_ms` by default, and the closing of journal and stores after them. */
const stopSeconds = 50;
const gatewayConfig = 'deploy/config/gateway.config.yaml';

/** Everything that is wrong with the deployment files; `sources` are those of the project. */
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

/** What runs `main.ts` and goes into what is made of it, which it must not find changed. */
const runner = ['scripts/run.mjs', 'scripts/built-sources.mjs', 'package-lock.json'];

/** What main.ts reaches by imports and by `new URL('./x', import.meta.url)`; migrations as a whole; what runs it. */
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

/** Values for every variable of the example, so that nothing is missing. */
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
    // Where Node is elsewhere the unit is still right for the place that it names.
    (line) => line !== '' && !/is not executable: No such file|Failed to (connect|prepare)/.test(line),
  );
}

/** The configuration that compose mounts, as `weir check` sees it. */
function checkConfiguration(example: string): string[] {
  const env = { ...process.env, ...filled(example) };
  const args = ['--import', 'tsx', 'main.ts', 'check', gatewayConfig];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', env });
  return status === 0 ? [] : `${stdout}${stderr}`.trim().split('\n');
}

/** What a tool prints when it does not accept a file. */
function problemsOf(command: string, args: readonly string[]): string[] {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  return status === 0 ? [] : `${stdout}${stderr}`.trim().split('\n');
}
