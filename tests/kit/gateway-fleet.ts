/** Several gateways on one PostgreSQL server, each a process with a data folder of its own. */
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { startPostgres, type PostgresServer } from './postgres-server.ts';
import { startWeir, temporaryFolder, type WeirProcess } from './process-kit.ts';

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
  readonly gateways: readonly WeirProcess[];
  readonly server: PostgresServer;
}

/** Starts the server and the gateways; `stopEverything` ends these, and `server.stop` that. */
export async function startFleet({ size, configuration, env }: FleetOptions): Promise<Fleet> {
  const server = await startPostgres();
  const { storage, ...rest } = configuration;
  const yaml = { version: 1, ...rest, storage: { ...storage, resources: { url: server.url } } };
  const secret = { WEIR_SECRET_KEY: randomBytes(32).toString('base64') };
  try {
    const gateways: WeirProcess[] = [];
    for (let count = 0; count < size; count += 1) {
      // The first one makes the organisation of the store, and the others join it.
      const data = path.join(await temporaryFolder(), 'data');
      gateways.push(await startWeir({ yaml, data, env: { ...secret, ...env } }));
    }
    return { gateways, server };
  } catch (error) {
    await server.stop();
    throw error;
  }
}
