/** A real PostgreSQL server for tests: on loopback, with a folder of its own. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { freePort } from './free-port.ts';
import { eventually } from './process-kit.ts';
import { certificate, certificateKey } from './test-certificate.ts';

const required = process.env['WEIR_REQUIRE_SERVERS'] === '1';
const binaries = findBinaries();
const absence =
  binaries === undefined ? 'PostgreSQL 15 or newer is not installed (Debian package postgresql)' : false;

/** Why suites that need the server are skipped; false when it is there, or when WEIR_REQUIRE_SERVERS=1 forbids skipping. */
export const postgresMissing: string | false = required ? false : absence;

/** One server. Its superuser `weir` has the password `a secret/word`. */
export interface PostgresServer {
  readonly port: number;
  /** `postgres://weir:…@127.0.0.1:PORT/postgres`, of the superuser. */
  readonly url: string;
  /** Hangs the processes: they take connections and answer nothing. */
  pause(): void;
  resume(): void;
  /** Ends the server at once, as a crash would. */
  kill(): Promise<void>;
  /** Starts it again on the same port, with what was committed. */
  start(): Promise<void>;
  /** Ends the server and deletes its folder. */
  stop(): Promise<void>;
}

/** The password of `PostgresServer`, which an address has to escape. */
const postgresPassword = 'a secret/word';

const alive = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of alive) signalAll(child, 'SIGKILL');
});

/** Starts a server, with TLS when asked for. Fails with its output when it does not come up. */
export async function startPostgres({
  tls = false,
}: { readonly tls?: boolean } = {}): Promise<PostgresServer> {
  if (binaries === undefined)
    throw new Error(`${String(absence)}, and WEIR_REQUIRE_SERVERS=1 lets no suite be skipped.`);
  const owner = serverUser();
  const folder = mkdtempSync(path.join(os.tmpdir(), 'weir-postgres-'));
  const data = path.join(folder, 'data');
  chmodSync(folder, 0o755);
  if (owner.uid !== undefined) chownSync(folder, owner.uid, owner.gid ?? owner.uid);
  const port = await freePort();
  createCluster(path.join(binaries, 'initdb'), data, owner);
  const args = tls ? tlsArguments(folder, owner) : [];
  const program = path.join(binaries, 'postgres');
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    const fixed = ['-D', data, '-p', String(port), '-c', 'listen_addresses=127.0.0.1'];
    const fast = ['-c', 'unix_socket_directories=', '-c', 'shared_buffers=16MB', '-c', 'max_connections=40'];
    const started = spawn(program, [...fixed, ...fast, ...args], {
      ...owner,
      cwd: folder,
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    child = started;
    alive.add(started);
    started.once('exit', () => alive.delete(started));
    started.once('error', () => alive.delete(started));
    let output = '';
    started.stderr?.setEncoding('utf8').on('data', (text: string) => (output += text));
    await eventually(
      () => (output.includes('ready to accept connections') ? true : undefined),
      () => `a PostgreSQL server on port ${port}; it said:\n${output}`,
    );
  }

  async function kill(): Promise<void> {
    if (child === undefined || !alive.has(child)) return;
    const ended = once(child, 'exit');
    const killed = signalAll(child, 'SIGKILL');
    await ended;
    // Those that outlive the first one for a moment hold its memory, and the next server would refuse to start.
    await eventually(
      () => isGone(killed) || undefined,
      () => 'the end of every process of the server',
    );
    // What a killed server leaves says that it still runs.
    rmSync(path.join(data, 'postmaster.pid'), { force: true });
  }

  async function stop(): Promise<void> {
    await kill();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }

  await start().catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  const url = `postgres://weir:${encodeURIComponent(postgresPassword)}@127.0.0.1:${port}/postgres`;
  return {
    port,
    url,
    kill,
    start,
    stop,
    pause: () => signalAll(child, 'SIGSTOP'),
    resume: () => signalAll(child, 'SIGCONT'),
  };
}

interface Owner {
  readonly uid?: number;
  readonly gid?: number;
}

/** The server refuses to run as root, so there it runs as the user that its package made. */
function serverUser(): Owner {
  if (process.getuid?.() !== 0) return {};
  const [uid, gid] = ['-u', '-g'].map((flag) =>
    Number(spawnSync('id', [flag, 'postgres'], { encoding: 'utf8' }).stdout.trim()),
  ) as [number, number];
  if (!(uid > 0)) throw new Error('PostgreSQL does not run as root, and there is no user "postgres".');
  return { uid, gid };
}

/** The server refuses a key that others could read. */
function tlsArguments(folder: string, { uid, gid }: Owner): string[] {
  const files = { ssl_cert_file: certificate, ssl_key_file: certificateKey };
  const named = Object.entries(files).flatMap(([setting, text]) => {
    const file = path.join(folder, setting);
    writeFileSync(file, text, { mode: 0o600 });
    if (uid !== undefined) chownSync(file, uid, gid ?? uid);
    return ['-c', `${setting}=${file}`];
  });
  return ['-c', 'ssl=on', ...named];
}

function createCluster(initdb: string, data: string, owner: Owner): void {
  const args = ['-D', data, '-U', 'weir', '-E', 'UTF8', '--locale=C', '-A', 'scram-sha-256', '--no-sync'];
  const passwordFile = `${data}.password`;
  writeFileSync(passwordFile, postgresPassword);
  const made = spawnSync(initdb, [...args, `--pwfile=${passwordFile}`], {
    ...owner,
    encoding: 'utf8',
    cwd: '/',
  });
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}${made.error?.message ?? ''}`);
}

/** Its processes listen to signals each for itself; together they are a group. Returns whom it signalled. */
function signalAll(child: ChildProcess | undefined, signal: NodeJS.Signals): readonly number[] {
  if (child?.pid === undefined || !alive.has(child)) return [];
  const children = spawnSync('ps', ['-o', 'pid=', '--ppid', String(child.pid)], { encoding: 'utf8' });
  const pids = [child.pid, ...children.stdout.split('\n').map(Number)].filter((pid) => pid > 0);
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch {
      // It ended a moment ago.
    }
  }
  return pids;
}

/** True when each of them has ended, whether or not somebody has taken notice of it. */
function isGone(pids: readonly number[]): boolean {
  const found = spawnSync('ps', ['-o', 'stat=', '-p', pids.join(',')], { encoding: 'utf8' });
  return found.stdout.split('\n').every((state) => state === '' || state.startsWith('Z'));
}

function findBinaries(): string | undefined {
  const versions = '/usr/lib/postgresql';
  const installed = existsSync(versions) ? readdirSync(versions).sort().reverse() : [];
  const folders = [
    ...(process.env['PATH'] ?? '').split(path.delimiter),
    ...installed.map((name) => path.join(versions, name, 'bin')),
  ];
  return folders.find(
    (folder) => existsSync(path.join(folder, 'postgres')) && existsSync(path.join(folder, 'initdb')),
  );
}
