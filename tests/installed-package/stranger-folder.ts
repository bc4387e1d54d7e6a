/** A folder of somebody else's, in which the packed gateway is installed: `npm pack`, and the packages that it depends on. */
import { execFile, spawn, type SpawnOptions } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const commandMs = 240_000;

/** How a command ended. */
interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A gateway that runs; `said` is what it printed. */
interface Serving {
  readonly url: string;
  readonly said: string;
  stop(): Promise<void>;
}

/** The folder. */
export interface StrangerFolder {
  readonly path: string;
  /** The packed file. */
  readonly tarball: string;
  /** Names of the files in the package. */
  readonly packed: readonly string[];
  write(files: Readonly<Record<string, string>>): Promise<void>;
  /** Runs Node; `weir`, `tsc` and `attw` stand for the installed commands. Never rejects. */
  node(...args: readonly string[]): Promise<Ran>;
  /** Starts the gateway on a free port, in the folder or in one below it. */
  start(below?: string): Promise<Serving>;
  /**
   * The same by `npx` with the packed file, in an empty folder, with an empty home and an empty cache of npm: what it needs
   * comes from the registry that npm is set to.
   */
  npx(): Promise<Serving>;
  remove(): Promise<void>;
}

/** Packs the package and installs it in a new folder, with nothing from any registry. Takes some seconds. */
export async function strangerFolder(): Promise<StrangerFolder> {
  const folder = await mkdtemp(path.join(tmpdir(), 'weir-stranger-'));
  const modules = path.join(folder, 'node_modules');
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder], {
    cwd: root,
    maxBuffer: 16_000_000,
  });
  const [{ filename, files }] = JSON.parse(stdout.slice(stdout.indexOf('['))) as [
    { filename: string; files: readonly { readonly path: string }[] },
  ];
  const own = path.join(modules, 'weir-gateway');
  await mkdir(own, { recursive: true });
  await run('tar', ['-xzf', path.join(folder, filename), '--strip-components=1', '-C', own]);
  for (const name of await installed()) {
    await mkdir(path.dirname(path.join(modules, name)), { recursive: true });
    await symlink(path.join(root, 'node_modules', name), path.join(modules, name));
  }
  const programs: Readonly<Record<string, string>> = {
    weir: path.join(own, 'scripts', 'weir.mjs'),
    tsc: path.join(root, 'node_modules', 'typescript', 'bin', 'tsc'),
    attw: path.join(root, 'node_modules', '@arethetypeswrong', 'cli', 'dist', 'index.js'),
  };
  const argsOf = ([first = '', ...rest]: readonly string[]): string[] => [programs[first] ?? first, ...rest];
  const env = { PATH: process.env['PATH'], HOME: folder };
  return {
    path: folder,
    tarball: path.join(folder, filename),
    packed: files.map((file) => file.path),
    async write(texts) {
      for (const [name, text] of Object.entries(texts)) {
        await mkdir(path.dirname(path.join(folder, name)), { recursive: true });
        await writeFile(path.join(folder, name), text);
      }
    },
    async node(...args) {
      const options = { cwd: folder, env, timeout: commandMs, maxBuffer: 16_000_000 };
      const child = run(process.execPath, argsOf(args), options);
      return child.then(
        (out) => ({ code: 0, ...out }),
        ({ code, stdout: said, stderr }: Ran) => ({ code, stdout: said, stderr }),
      );
    },
    async start(below = '') {
      const cwd = path.join(folder, below);
      await mkdir(cwd, { recursive: true });
      return serving(process.execPath, argsOf(['weir', '--port', '0']), { cwd, env });
    },
    async npx() {
      const [home, cwd] = [path.join(folder, 'home'), path.join(folder, 'nowhere')];
      for (const made of [home, cwd]) await mkdir(made);
      // The settings of npm are those that this repository was installed with.
      const { stdout: settings } = await run('npm', ['config', 'get', 'userconfig'], { cwd: root });
      const own = Object.entries(process.env).filter(([name]) => !/^(npm_|WEIR_)/i.test(name));
      const places = {
        HOME: home,
        npm_config_cache: path.join(home, 'cache'),
        npm_config_userconfig: settings.trim(),
      };
      const args = ['--yes', `file:${path.join(folder, filename)}`, '--port', '0'];
      return serving('npx', args, { cwd, env: { ...Object.fromEntries(own), ...places } });
    },
    remove: () => rm(folder, { recursive: true, force: true, maxRetries: 5 }),
  };
}

/** Starts a command that becomes a gateway. Rejects with its output when it ends before it listens. */
async function serving(command: string, args: readonly string[], options: SpawnOptions): Promise<Serving> {
  // In a group of its own, as npx has children.
  const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  const ended = once(child, 'exit');
  let faults = '';
  child.stderr.on('data', (chunk: Buffer) => (faults += chunk.toString()));
  let said = '';
  let url: string | undefined;
  for await (const line of createInterface({ input: child.stdout })) {
    said += `${line}\n`;
    [url] = /http:\/\/127\.0\.0\.1:\d+/.exec(said) ?? [];
    // The last line that it prints.
    if (/\/logs\/<request id>/.test(line)) break;
  }
  if (url === undefined) throw new Error(`It ended before it listened: ${said}${faults}`);
  const stop = async (): Promise<void> => {
    process.kill(-(child.pid as number), 'SIGTERM');
    await ended;
  };
  return { url, said, stop };
}

/** Why nothing can be installed from a registry; false when the one that npm is set to answers. */
export async function registryMissing(): Promise<string | false> {
  const args = ['view', 'yaml', 'version', '--prefer-online', '--fetch-retries=0', '--fetch-timeout=10000'];
  return run('npm', args, { cwd: root, timeout: 30_000 }).then(
    () => false,
    () => 'no package registry answers',
  );
}

/** The packages that `npm install` of this one brings, as the lock file says: none that only tests need. */
async function installed(): Promise<string[]> {
  const lock = JSON.parse(await readFile(path.join(root, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly dev?: boolean; readonly os?: readonly string[] }>>;
  };
  return Object.entries(lock.packages).flatMap(([place, { dev }]) => {
    const [, name] = /^node_modules\/((?:@[^/]+\/)?[^/]+)$/.exec(place) ?? [];
    return name === undefined || dev === true ? [] : [name];
  });
}
