// Composition root: `weir doctor`.
import { readFile, stat } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { createRequire } from 'node:module';
import { totalmem } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { createLog } from '../adapters/telemetry/line-log.ts';
import { alignColumns } from '../core/administration/cli/in-columns.ts';
import { loadConfig } from '../core/config/load-config.ts';
import type { GatewayConfig } from '../core/config/schema.ts';
import { formatProblem } from '../core/config/problem.ts';
import { messageOf } from '../core/errors/gateway-error.ts';
import { systemClock as clock } from '../core/ports/clock.ts';
import { connectClickHouse } from '../storage/clickhouse/create-analytics.ts';
import { serverOptions } from '../storage/clickhouse/open-server.ts';
import { analyticsErrors } from '../storage/clickhouse/store-errors.ts';
import { dataFolderHolder } from '../storage/embedded/data-lock.ts';
import { diskFault } from '../storage/embedded/disk-fault.ts';
import { privateFolders } from '../storage/embedded/own-folder.ts';
import { diskRoom } from '../storage/journal/disk-room.ts';
import { databaseErrors } from '../storage/postgres/database.ts';
import { clientSettings } from '../storage/postgres/open-database.ts';
import { postgresPlace } from '../storage/postgres/postgres-address.ts';
import { openRedis } from '../storage/redis/open-redis.ts';
import { keyFileName } from '../storage/secrets/key-file.ts';

/** A check and its finding. */
interface Finding {
  readonly name: string;
  /** `warn`: it works, and will be regretted; `bad`: a start fails, or a part does not work. */
  readonly state: 'ok' | 'warn' | 'bad';
  readonly says: string;
  /** The command or the setting that mends it. */
  readonly remedy?: string;
}

/** Options of `weir doctor`. */
interface DoctorOptions {
  readonly data: string;
  readonly port: number | undefined;
  readonly json: boolean;
  readonly environment: Readonly<Record<string, string | undefined>>;
  print(line: string): void;
}

/** Milliseconds that another machine's clock may differ: windows of limits and tokens are compared with it. */
const mostSkewMs = 2000;
const fewFiles = 4096;
const mebibyte = 1024 * 1024;
const littleMemory = 768 * mebibyte;
const littleDisk = 2048 * mebibyte;
const storeTimeoutMs = 5000;

/** The findings say what the parts would log. */
const silent = createLog({ level: 'error', format: 'text', write: () => undefined, clock });

/** `weir doctor`: looks at what a start needs and changes nothing; returns the exit code, 1 when something is bad. */
export async function doctor(file: string, options: DoctorOptions): Promise<number> {
  const { json, print } = options;
  const data = path.resolve(options.data);
  const loaded = await loadConfig(file, { env: options.environment });
  const shown = path.relative('', file) || file;
  const findings: Finding[] = [runtime(), await openFiles(), await memory()];
  if (!loaded.ok) {
    const [first] = loaded.problems;
    const says = `${loaded.problems.length} mistakes; the first: ${first === undefined ? '' : formatProblem(first)}`;
    findings.push(bad('configuration', says, `weir check ${shown}`));
  } else {
    const { config } = loaded;
    findings.push(ok('configuration', `${shown} can be read; "weir check" looks at its plugins`));
    const folder = path.dirname(file);
    findings.push(
      ...(await Promise.all([
        port(config, options),
        dataFolder(data),
        ...(existsSync(data) ? [disk(data)] : []),
        secretKey(config, data, options.environment),
        analytics(config, folder),
        resources(config, folder),
        ...redis(config),
      ])),
    );
  }
  const faults = findings.filter(({ state }) => state === 'bad').length;
  if (json) print(JSON.stringify({ findings, bad: faults }, null, 2));
  else {
    const marks = { ok: 'ok', warn: 'WARN', bad: 'BAD' };
    const lines = alignColumns(findings.map(({ state, name, says }) => [marks[state], name, says]));
    findings.forEach(({ remedy }, index) => {
      print(lines[index] ?? '');
      if (remedy !== undefined) print(`      → ${remedy}`);
    });
    print(
      faults === 0
        ? '\nNothing is in the way of a start.'
        : `\n${faults} of ${findings.length} have to be mended.`,
    );
  }
  return faults === 0 ? 0 : 1;
}

const ok = (name: string, says: string): Finding => ({ name, state: 'ok', says });
const warn = (name: string, says: string, remedy: string): Finding => ({ name, state: 'warn', says, remedy });
const bad = (name: string, says: string, remedy: string): Finding => ({ name, state: 'bad', says, remedy });

function runtime(): Finding {
  const deno = (globalThis as { Deno?: { version: { deno: string } } }).Deno;
  if (deno !== undefined) return ok('runtime', `Deno ${deno.version.deno}`);
  const { node } = process.versions;
  const [major = 0, minor = 0] = node.split('.').map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return ok('runtime', `Node ${node}`);
  const remedy = 'npm install --global node@22, or use your system’s package';
  return bad('runtime', `Node ${node} is older than 20.19`, remedy);
}

/** Each connection is an open file. */
async function openFiles(): Promise<Finding> {
  const name = 'open files';
  const text = await readFile('/proc/self/limits', 'utf8').catch(() => '');
  const limit = /^Max open files\s+(\d+|unlimited)/m.exec(text)?.[1];
  if (limit === undefined) return ok(name, 'this system does not say its limit');
  if (limit === 'unlimited' || Number(limit) >= fewFiles) return ok(name, `at most ${limit}`);
  const says = `at most ${limit}: about ${Math.floor(Number(limit) / 2)} requests at once`;
  return warn(name, says, 'ulimit -n 65536 before the start, or LimitNOFILE=65536 in its systemd unit');
}

async function memory(): Promise<Finding> {
  const ofGroup = await readFile('/sys/fs/cgroup/memory.max', 'utf8').catch(() => 'max');
  const bytes = Math.min(totalmem(), Number(ofGroup.trim()) || Number.POSITIVE_INFINITY);
  const says = `${Math.floor(bytes / mebibyte)} MiB`;
  if (bytes >= littleMemory) return ok('memory', says);
  const remedy =
    'give it 1 GiB, or set storage.analytics.url to "none:" or to a server, so that no engine runs here';
  return warn('memory', `${says}: the embedded engines alone may take more`, remedy);
}

function port({ server }: GatewayConfig, { port: named }: DoctorOptions): Promise<Finding> {
  const wanted = named ?? server.port;
  const place = `${server.host}:${wanted}`;
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', (error: NodeJS.ErrnoException) => {
      const remedies: Readonly<Record<string, string>> = {
        EADDRINUSE: `ss -ltnp 'sport = :${wanted}' names the program; end it, or take another port (--port, PORT)`,
        EACCES: `setcap cap_net_bind_service=+ep ${process.execPath}, or take a port above 1023`,
        EADDRNOTAVAIL: `set server.host to an address of this machine`,
      };
      const remedy = remedies[error.code ?? ''] ?? 'set server.host and server.port';
      resolve(bad('port', `${place} cannot be listened on (${error.code ?? error.message})`, remedy));
    });
    probe.listen({ host: server.host, port: wanted }, () =>
      probe.close(() => resolve(ok('port', `${place} is free`))),
    );
  });
}

/** Whether the data folder can be written to, and who uses it. */
async function dataFolder(data: string): Promise<Finding> {
  const name = 'data folder';
  const shown = path.relative('', data) || data;
  const exists = existsSync(data);
  const fault = (await privateFolders.fault(data)) ?? (exists ? await diskFault(data) : undefined);
  if (fault !== undefined) return bad(name, fault, 'name another folder (--data, WEIR_DATA)');
  if (!exists) return ok(name, `${shown} will be made by the first start`);
  const holder = await dataFolderHolder(data);
  if (holder === undefined) return ok(name, `${shown} can be written to`);
  const says = `${shown} is in use by process ${holder.pid}${holder.near ? '' : ` on ${holder.host}`}`;
  return warn(name, says, 'a second gateway needs a folder of its own (--data)');
}

async function disk(data: string): Promise<Finding> {
  const { free } = await diskRoom.under(data);
  const says = `${Math.floor(free / mebibyte)} MiB are free for ${path.relative('', data) || data}`;
  if (free >= littleDisk) return ok('disk', says);
  return warn('disk', says, 'free some, or set retention and storage.journal to less');
}

/** Other gateways on the same store need the same key. */
async function secretKey(
  { storage }: GatewayConfig,
  data: string,
  environment: DoctorOptions['environment'],
): Promise<Finding> {
  const name = 'secret key';
  if (environment['WEIR_SECRET_KEY']) return ok(name, 'from WEIR_SECRET_KEY');
  const file = path.join(data, keyFileName);
  const shown = path.relative('', file) || file;
  const mode = await stat(file).then(
    ({ mode: bits }) => bits & 0o077,
    () => undefined,
  );
  if (mode !== undefined && mode !== 0)
    return bad(name, `${shown} can be read by others`, `chmod 600 ${shown}`);
  if (!/^(none|pglite):/.test(storage.resources.url)) {
    const says = 'only in this data folder, and secrets are in a store that other gateways may share';
    return warn(name, says, `export WEIR_SECRET_KEY="$(cat ${shown})" everywhere`);
  }
  return ok(name, mode === undefined ? `${shown} will be made by the first start` : shown);
}

async function analytics({ storage }: GatewayConfig, folder: string): Promise<Finding> {
  const name = 'analytics';
  const { url } = storage.analytics;
  if (url === 'none:') return ok(name, 'none: rows stay in the journal');
  if (!url.startsWith('http')) return embeddedEngine();
  const place = { url, username: storage.analytics.username ?? 'default', database: '' };
  try {
    const options = await serverOptions(storage.analytics, folder);
    const client = connectClickHouse({ ...options, log: silent }, 'default', storeTimeoutMs);
    try {
      const asked = clock.now();
      const answer = await client.query({
        query: 'SELECT version() AS version, toUnixTimestamp64Milli(now64(3)) AS now',
        format: 'JSONEachRow',
      });
      const [row] = await answer.json<{ version: string; now: string }>();
      analyticsErrors.checkVersion(row?.version ?? '', place);
      return withClock(ok(name, `ClickHouse ${row?.version ?? ''}`), Number(row?.now), asked);
    } finally {
      await client.close();
    }
  } catch (error) {
    const { reason, remedy } = analyticsErrors.explainStart(error, 'connect', place);
    return bad(name, `the analytics store at ${url} cannot be used: ${reason}`, remedy);
  }
}

/** The engine is a package for some platforms. */
function embeddedEngine(): Finding {
  try {
    createRequire(import.meta.url).resolve('chdb');
    return ok('analytics', 'the embedded engine (chdb) is installed');
  } catch {
    const says = 'the embedded engine (chdb) is not installed; it needs Linux with glibc, or macOS';
    const remedy = 'npm install chdb, or set storage.analytics.url to "none:" or to a server';
    return bad('analytics', says, remedy);
  }
}

async function resources({ storage }: GatewayConfig, folder: string): Promise<Finding> {
  const name = 'resources';
  const { url } = storage.resources;
  if (url === 'none:') return ok(name, 'none: what is administered is in the YAML');
  if (url.startsWith('pglite:')) return ok(name, 'the embedded PostgreSQL (PGlite)');
  let label = 'PostgreSQL';
  try {
    const place = await postgresPlace(storage.resources, folder);
    ({ label } = place);
    const client = new pg.Client({ ...clientSettings(place), query_timeout: storeTimeoutMs });
    client.on('error', () => undefined);
    try {
      await client.connect();
      const asked = clock.now();
      const { rows } = await client.query<{ version: string; now: Date }>(
        `SELECT current_setting('server_version') AS version, clock_timestamp() AS now`,
      );
      const [row] = rows;
      const found = ok(name, `PostgreSQL ${row?.version ?? ''} (${label})`);
      return withClock(found, Number(row?.now), asked);
    } finally {
      await client.end().catch(() => undefined);
    }
  } catch (error) {
    const { reason, remedy } = databaseErrors.explainStart(label, error);
    return bad(name, `the resources store (${label}) cannot be opened: ${reason}`, remedy);
  }
}

/** Each Redis server of the configuration, with what it keeps. */
function redis({ storage }: GatewayConfig): readonly Promise<Finding>[] {
  const kept = new Map<string, string[]>();
  const note = (url: string | undefined, what: string): void => {
    if (url?.startsWith('redis')) kept.set(url, [...(kept.get(url) ?? []), what]);
  };
  note(storage.counters.url, 'counters');
  note(storage.cache.url ?? storage.counters.url, 'cache');
  note(storage.jobs.url, 'jobs');
  return [...kept].map(([url, whats]) => redisServer(url, whats));
}

async function redisServer(url: string, whats: readonly string[]): Promise<Finding> {
  const name = `redis (${whats.join(', ')})`;
  try {
    const connection = await openRedis({ url, log: silent, clock, budgetMs: storeTimeoutMs });
    try {
      await connection.ping();
      const asked = clock.now();
      const [seconds, micros] = await connection.call((client) => client.time());
      // A user without the right to read settings is told nothing of it.
      const policy = await connection
        .call((client) => client.call('CONFIG', 'GET', 'maxmemory-policy') as Promise<string[]>)
        .then(
          ([, value]) => value,
          () => undefined,
        );
      const now = Number(seconds) * 1000 + Number(micros) / 1000;
      const found = withClock(ok(name, 'it answers'), now, asked);
      const mayNotForget = whats.includes('counters') || whats.includes('jobs');
      if (found.state !== 'ok' || policy === undefined || policy === 'noeviction' || !mayNotForget)
        return found;
      const says = `maxmemory-policy is ${policy}: a full server forgets ${whats.join(' and ')}`;
      const remedy =
        'redis-cli CONFIG SET maxmemory-policy noeviction (volatile-lru suffices for a cache alone)';
      return warn(name, says, remedy);
    } finally {
      await connection.close();
    }
  } catch (error) {
    const remedy = 'start the server, or correct storage.counters.url, storage.cache.url or storage.jobs.url';
    return bad(name, messageOf(error), remedy);
  }
}

/** A finding about a server, which becomes a warning when its clock and this one differ. */
function withClock(finding: Finding, theirs: number, asked: number): Finding {
  const skew = theirs - (asked + clock.now()) / 2;
  if (Number.isNaN(skew) || Math.abs(skew) <= mostSkewMs) return finding;
  const says = `${finding.says}; its clock is ${(Math.abs(skew) / 1000).toFixed(1)} s ${skew > 0 ? 'ahead of' : 'behind'} this one`;
  return warn(finding.name, says, 'timedatectl set-ntp true on both machines');
}
