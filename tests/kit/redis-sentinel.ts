/** A real Redis primary with a replica and sentinels, on loopback. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Redis, type RedisOptions } from 'ioredis';
import { freePort } from './free-port.ts';
import { eventually } from './process-kit.ts';
import { type RedisServer, startRedis } from './redis-server.ts';

/** A primary, its replica, and three sentinels that replace it. */
export interface RedisSentinels {
  /** `127.0.0.1:PORT,…` of the sentinels. */
  readonly sentinels: string;
  /** The primary of the start, then the replica. */
  readonly servers: readonly [RedisServer, RedisServer];
  /** Asks a server. */
  ask(server: RedisServer, ...command: [string, ...(string | number)[]]): Promise<unknown>;
  /** Asks the first sentinel. */
  askSentinel(...command: [string, ...(string | number)[]]): Promise<unknown>;
  stop(): Promise<void>;
}

/** Options of `startRedisSentinels`. */
interface SentinelsOptions {
  /** More arguments of the servers. */
  readonly args?: (port: number) => readonly string[];
  /** More lines in the configuration of each sentinel. `port` is its own, `name` the primary's. */
  readonly lines?: (port: number, name: string) => readonly string[];
  /** How the kit itself connects to servers and sentinels. */
  readonly connect?: RedisOptions;
  readonly connectSentinel?: RedisOptions;
}

/** The name of the primary. */
export const primaryName = 'main';
/** Time without an answer after which the sentinels replace the primary. Milliseconds. */
const downAfterMs = 1000;

/** Starts them; resolves when the sentinels know each other and the replica is in step. */
export async function startRedisSentinels(options: SentinelsOptions = {}): Promise<RedisSentinels> {
  const { args = () => [], lines = (port) => [`port ${port}`], connect = {}, connectSentinel = {} } = options;
  const folder = mkdtempSync(path.join(os.tmpdir(), 'weir-sentinel-'));
  const children: ChildProcess[] = [];
  const servers: RedisServer[] = [];
  const clients = new Map<number, Redis>();
  const killAll = (): void => children.forEach((child) => child.kill('SIGKILL'));
  process.once('exit', killAll);
  const stop = async (): Promise<void> => {
    for (const client of clients.values()) client.disconnect();
    killAll();
    process.off('exit', killAll);
    await Promise.all(servers.map((server) => server.stop()));
    rmSync(folder, { recursive: true, force: true });
  };
  const clientOf = (port: number, more: RedisOptions): Redis => {
    let client = clients.get(port);
    if (client === undefined) {
      client = new Redis({ port, host: '127.0.0.1', ...more });
      client.on('error', () => undefined);
      clients.set(port, client);
    }
    return client;
  };
  const ports: number[] = [];

  function startSentinel(port: number, primary: number): void {
    const file = path.join(folder, `${port}.conf`);
    const text = [
      'bind 127.0.0.1',
      `dir ${folder}`,
      ...lines(port, primaryName),
      `sentinel monitor ${primaryName} 127.0.0.1 ${primary} 2`,
      `sentinel down-after-milliseconds ${primaryName} ${downAfterMs}`,
      `sentinel failover-timeout ${primaryName} 3000`,
    ];
    // Settings of a primary follow its name.
    const sorted = [...text].sort((a, b) => rankOf(a) - rankOf(b));
    writeFileSync(file, `${sorted.join('\n')}\n`);
    children.push(spawn('redis-server', [file, '--sentinel'], { stdio: 'ignore' }));
  }

  const primary = await startRedis(args);
  servers.push(primary);
  const replica = await startRedis((port) => [
    ...args(port),
    '--replicaof',
    '127.0.0.1',
    String(primary.port),
  ]);
  servers.push(replica);
  try {
    await eventually(async () => {
      const info = String(
        await clientOf(replica.port, connect)
          .info('replication')
          .catch(() => ''),
      );
      return info.includes('master_link_status:up') || undefined;
    });
    for (let count = 0; count < 3; count += 1) {
      const port = await freePort();
      ports.push(port);
      startSentinel(port, primary.port);
    }
    await eventually(async () => {
      const known = await Promise.all(
        ports.map((port) =>
          clientOf(port, connectSentinel)
            .call('INFO', 'sentinel')
            .catch(() => ''),
        ),
      );
      return known.every((info) => /slaves=1,sentinels=3/.test(String(info))) || undefined;
    });
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    sentinels: ports.map((port) => `127.0.0.1:${port}`).join(),
    servers: [primary, replica],
    ask: (server, ...command) => clientOf(server.port, connect).call(...command),
    askSentinel: (...command) => clientOf(ports[0] as number, connectSentinel).call(...command),
    stop,
  };
}

function rankOf(line: string): number {
  if (line.startsWith(`sentinel monitor`)) return 1;
  return line.includes(` ${primaryName} `) ? 2 : 0;
}
