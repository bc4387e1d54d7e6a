/** Several gateways on one PostgreSQL server, each a process with a data folder of its own. */
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { freePort } from './free-port.ts';
import { startPostgres, type PostgresServer } from './postgres-server.ts';
import { eventually, startWeir, temporaryFolder, type WeirProcess } from './process-kit.ts';
import { childrenOf, isRunning } from './processes.ts';

/** What the gateways have in common. */
export interface FleetOptions {
  readonly size: number;
  /** Joined with `version`, and with `storage.resources` of the server. */
  readonly configuration: { readonly storage?: object } & Readonly<Record<string, unknown>>;
  /** Joined with the environment. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Gateways that know of each other's changes. */
export interface Fleet {
  /** Those that run now: `start` replaces the entry of a killed one. */
  readonly gateways: readonly WeirProcess[];
  readonly server: PostgresServer;
  /** Ends a gateway with all its workers at once, as the death of its machine would. Linux only. */
  kill(index: number): Promise<void>;
  /** Starts a killed gateway again, on its port and its data folder. */
  start(index: number): Promise<void>;
}

/** Starts the server and the gateways; `stopEverything` ends these, and `server.stop` that. */
export async function startFleet({ size, configuration, env }: FleetOptions): Promise<Fleet> {
  const server = await startPostgres();
  const { storage, ...rest } = configuration;
  const yaml = { version: 1, ...rest, storage: { ...storage, resources: { url: server.url } } };
  const secret = { WEIR_SECRET_KEY: randomBytes(32).toString('base64') };
  const places: { readonly data: string; readonly port: number }[] = [];
  const gateways: WeirProcess[] = [];
  const start = async (index: number): Promise<void> => {
    gateways[index] = await startWeir({ yaml, ...places[index]!, env: { ...secret, ...env } });
  };
  try {
    for (let count = 0; count < size; count += 1)
      places.push({ data: path.join(await temporaryFolder(), 'data'), port: await freePort() });
    // The first one makes the organisation of the store, and the others join it.
    await start(0);
    await Promise.all(places.slice(1).map((_, index) => start(index + 1)));
    return { gateways, server, start, kill: (index) => killWhole(gateways[index]!) };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

async function killWhole({ child, stop }: WeirProcess): Promise<void> {
  const workers = (await childrenOf(child.pid ?? 0)).map(({ pid }) => pid);
  const ended = stop('SIGKILL');
  for (const pid of workers) process.kill(pid, 'SIGKILL');
  await ended;
  await eventually(
    async () => (await Promise.all(workers.map(isRunning))).every((runs) => !runs) || undefined,
    () => 'the end of every worker',
  );
}
