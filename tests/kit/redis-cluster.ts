/** A real Redis cluster for tests, on loopback. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { Redis, type RedisOptions } from 'ioredis';
import { freePort } from './free-port.ts';
import { eventually } from './process-kit.ts';
import { type RedisServer, startRedis } from './redis-server.ts';

/** Servers that share the slots of one cluster. */
export interface RedisCluster {
  /** `redis+cluster://127.0.0.1:PORT,…` with the primaries of the start. */
  readonly url: string;
  /** The primaries of the start, in the order of their slots, then the replicas in the same order. */
  readonly servers: readonly RedisServer[];
  /** The server that keeps this key. */
  serverOf(key: string): Promise<RedisServer>;
  /** Asks a server, over a connection that the cluster keeps. */
  ask(server: RedisServer, ...command: [string, ...(string | number)[]]): Promise<unknown>;
  /** Adds an empty primary. */
  grow(): Promise<RedisServer>;
  /** Moves a slot in the steps of `redis-cli --cluster reshard`, one key at a time. */
  moveSlot(slot: number, to: RedisServer, options?: MoveOptions): Promise<void>;
  stop(): Promise<void>;
}

/** Options of `moveSlot`. */
interface MoveOptions {
  /** Runs after each step: the marks on both servers, each moved key, the end. */
  afterStep?(): Promise<void>;
}

/** Options of `startRedisCluster`. */
interface ClusterOptions {
  /** Primaries, and as many replicas. Default 3 and none. */
  readonly primaries?: number;
  readonly hasReplicas?: boolean;
  /** More arguments of each server. */
  readonly args?: (port: number) => readonly string[];
  /** How the kit itself connects. */
  readonly connect?: RedisOptions;
  /** Arguments of `redis-cli` for the same. */
  readonly cli?: readonly string[];
}

/** Starts a cluster of three, without replicas. */
export async function startRedisCluster(options: ClusterOptions = {}): Promise<RedisCluster> {
  const { primaries = 3, hasReplicas = false, args = () => [], connect = {}, cli = [] } = options;
  const servers: RedisServer[] = [];
  const buses: number[] = [];
  const clients = new Map<RedisServer, Redis>();
  const stop = async (): Promise<void> => {
    for (const client of clients.values()) client.disconnect();
    await Promise.all(servers.map((server) => server.stop()));
  };

  const ask: RedisCluster['ask'] = (server, ...command) => {
    let client = clients.get(server);
    if (client === undefined) {
      client = new Redis({ port: server.port, host: '127.0.0.1', ...connect });
      client.on('error', () => undefined);
      clients.set(server, client);
    }
    return client.call(...command);
  };

  async function start(): Promise<RedisServer> {
    const bus = await freePort();
    const server = await startRedis((port) => [
      ...['--cluster-enabled', 'yes', '--cluster-port', String(bus), '--cluster-node-timeout', '2000'],
      ...['--cluster-require-full-coverage', 'no', ...args(port)],
    ]);
    servers.push(server);
    buses.push(bus);
    return server;
  }

  const idOf = async (server: RedisServer): Promise<string> => String(await ask(server, 'CLUSTER', 'MYID'));

  async function serverOf(key: string): Promise<RedisServer> {
    for (const server of servers) {
      try {
        await ask(server, 'EXISTS', key);
        return server;
      } catch {
        // The key is of another one: MOVED.
      }
    }
    return assert.fail(`no server of the cluster keeps ${key}`);
  }

  async function agreed(): Promise<void> {
    const count = servers.length;
    await eventually(async () => {
      const infos = await Promise.all(servers.map((server) => ask(server, 'CLUSTER', 'INFO')));
      const done = infos.every(
        (info) => String(info).includes('cluster_state:ok') && String(info).includes(`known_nodes:${count}`),
      );
      return done || undefined;
    });
  }

  async function grow(): Promise<RedisServer> {
    const server = await start();
    const [{ port }] = servers as [RedisServer];
    await ask(server, 'CLUSTER', 'MEET', '127.0.0.1', port, buses[0] as number);
    await agreed();
    return server;
  }

  async function moveSlot(
    slot: number,
    to: RedisServer,
    { afterStep = async () => undefined }: MoveOptions = {},
  ): Promise<void> {
    const ranges = (await ask(to, 'CLUSTER', 'SLOTS')) as [number, number, [string, number]][];
    const owner = ranges.find(([first, last]) => first <= slot && slot <= last)?.[2][1];
    const from = servers.find(({ port }) => port === owner) as RedisServer;
    const [fromId, toId] = [await idOf(from), await idOf(to)];
    await ask(to, 'CLUSTER', 'SETSLOT', slot, 'IMPORTING', fromId);
    await ask(from, 'CLUSTER', 'SETSLOT', slot, 'MIGRATING', toId);
    await afterStep();
    for (;;) {
      const [key] = (await ask(from, 'CLUSTER', 'GETKEYSINSLOT', slot, 1)) as string[];
      if (key === undefined) break;
      await ask(from, 'MIGRATE', '127.0.0.1', to.port, key, 0, 5000);
      await afterStep();
    }
    await ask(to, 'CLUSTER', 'SETSLOT', slot, 'NODE', toId);
    await ask(from, 'CLUSTER', 'SETSLOT', slot, 'NODE', toId);
    await afterStep();
  }

  try {
    for (let count = 0; count < primaries * (hasReplicas ? 2 : 1); count += 1) await start();
    const addresses = servers.map(({ port }) => `127.0.0.1:${port}`);
    const replicas = hasReplicas ? ['--cluster-replicas', '1'] : [];
    const create = ['--cluster', 'create', ...addresses, ...replicas, '--cluster-yes'];
    const { status, stdout, stderr } = spawnSync('redis-cli', [...cli, ...create], { encoding: 'utf8' });
    assert.equal(status, 0, `${stdout}${stderr}`);
    await agreed();
    if (hasReplicas) await replicated(servers.slice(primaries), ask);
  } catch (error) {
    await stop();
    throw error;
  }
  const named = servers.slice(0, primaries).map(({ port }) => `127.0.0.1:${port}`);
  return { url: `redis+cluster://${named.join()}`, servers, serverOf, ask, grow, moveSlot, stop };
}

/** Waits until replicas have the data of their primaries, and may replace them. */
async function replicated(replicas: readonly RedisServer[], ask: RedisCluster['ask']): Promise<void> {
  for (const replica of replicas) {
    for (;;) {
      const info = String(await ask(replica, 'INFO', 'replication'));
      if (info.includes('role:slave') && info.includes('master_link_status:up')) break;
      await pause(50);
    }
  }
}
