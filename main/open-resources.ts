// Composition root: the relational store of a configuration.
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { GatewayConfig } from '../core/config/schema.ts';
import type { UndoStack } from '../core/lifecycle/undo-stack.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Log } from '../core/ports/log.ts';
import { dataFolderHolder, lockData } from '../storage/embedded/data-lock.ts';
import { privateFolders } from '../storage/embedded/own-folder.ts';
import { startPglite, type EmbeddedPglite } from '../storage/embedded/start-pglite.ts';
import type { Database } from '../storage/postgres/database.ts';
import { type EmbeddedPlace, openDatabase } from '../storage/postgres/open-database.ts';
import { type PostgresPlace, postgresPlace } from '../storage/postgres/postgres-address.ts';
import { startVacuum } from '../storage/postgres/vacuum.ts';
import { openDatabaseWhenReachable } from '../storage/postgres/waiting-database.ts';

/** Where the records are. */
export const resourcePlaces = { embeddedFolder, storePlace, openEmbedded, requireStore };

/** Replicas that start for the first time at the same moment migrate the schema one after the other. */
const newFolderPatienceMs = 60_000;

/** Options of `openResources`. */
interface ResourcesOptions {
  readonly config: Pick<GatewayConfig, 'storage'>;
  /** The configuration's file: relative paths in it start from its folder. */
  readonly file: string;
  /** The data folder, absolute. */
  readonly data: string;
  readonly log: Log;
  readonly clock: Clock;
  readonly opened: UndoStack;
  /** Called with the embedded engine when it runs. */
  readonly started?: (engine: Pick<EmbeddedPglite, 'trouble'>) => void;
  /**
   * True for a gateway, which starts without an unavailable server and maintains the embedded engine. Default false,
   * for a command: it waits half a minute for the server, and then fails.
   */
  readonly serves?: boolean;
  /**
   * True for a new data folder: the store decides its organisation, so that the wait for an opening store is longer.
   * Default false.
   */
  readonly isNew?: boolean;
}

/**
 * Opens the relational store of the configuration and migrates its schema; undefined for `none:`. Resources to close
 * are added to `opened`. Throws one sentence with the remedy.
 */
export async function openResources(options: ResourcesOptions): Promise<Database | undefined> {
  const { config, file, data, log, clock, opened, serves = false, isNew = false } = options;
  const settings = config.storage.resources;
  if (settings.url === 'none:') return undefined;
  if (settings.url.startsWith('pglite:')) {
    const directory = embeddedFolder(settings.url, data);
    if (directory !== embeddedFolder('pglite:', data)) await privateFolders.closeToOthers(directory, log);
    const startTimeoutMs = config.storage.engine_start_ms;
    const engine = await startPglite({ directory, log, clock, startTimeoutMs });
    opened.push(() => engine.close());
    options.started?.(engine);
    const database = closedWith(opened, await openDatabase({ place: engine, log, clock }));
    if (serves) opened.push(startVacuum({ database, log, clock }));
    return database;
  }
  const place = await postgresPlace(settings, path.dirname(file));
  if (!serves) return closedWith(opened, await openDatabase({ place, log, clock }));
  // Waiting happens here, so that it can continue after the start.
  const open = (): Promise<Database> => openDatabase({ place, log, clock, patienceMs: 0 });
  const openingPatienceMs = isNew ? newFolderPatienceMs : undefined;
  const parts = { label: place.label, open, log, clock, openingPatienceMs };
  return closedWith(opened, await openDatabaseWhenReachable(parts));
}

/** The folder of the embedded store for a URL such as `pglite:` or `pglite:DIR`. */
function embeddedFolder(url: string, data: string): string {
  const named = url.slice('pglite:'.length);
  return named === '' ? path.join(data, 'resources') : path.resolve(named);
}

function closedWith(opened: UndoStack, database: Database): Database {
  opened.push(() => database.close());
  return database;
}

/** Where a command finds a store. */
type StoreWork = Pick<ResourcesOptions, 'config' | 'file' | 'data' | 'log' | 'clock' | 'opened'>;

/**
 * The store of a data folder for a command that reads: that of the gateway that runs there, or one opened for the command;
 * shared when a gateway uses the same session. Throws one sentence with the remedy when there is none, or when it cannot be
 * reached.
 */
async function storePlace(
  work: StoreWork,
): Promise<{ readonly place: PostgresPlace | EmbeddedPlace; readonly isShared: boolean }> {
  const { config, file, data } = work;
  const { url } = config.storage.resources;
  requireStore(url);
  if (!url.startsWith('pglite:'))
    return { place: await postgresPlace(config.storage.resources, path.dirname(file)), isShared: false };
  const directory = embeddedFolder(url, data);
  if (!existsSync(directory))
    throw new Error(`There is no store at ${directory}. Name its data folder (--data, WEIR_DATA).`);
  if ((await dataFolderHolder(data)) === undefined)
    return { place: await openEmbedded(directory, work), isShared: false };
  const socketFolder = path.join(directory, '.run');
  if (existsSync(path.join(socketFolder, '.s.PGSQL.5432')))
    return { place: { socketFolder, replace: () => undefined }, isShared: true };
  throw new Error(
    `A gateway runs on ${data}, and its store cannot be reached from here (the path of the folder is too long for a socket, or it is starting). Stop it, or move the folder to a shorter path.`,
  );
}

/** Locks the data folder, and starts the embedded engine on its store; both end with `opened`. */
async function openEmbedded(
  directory: string,
  { data, log, clock, opened }: Omit<StoreWork, 'config' | 'file'>,
): Promise<EmbeddedPlace> {
  const lock = await lockData(data, { clock });
  opened.push(() => lock.release());
  const engine = await startPglite({ directory, log, clock });
  opened.push(() => engine.close());
  return engine;
}

/** Throws when the URL names no store. */
function requireStore(url: string): void {
  if (url === 'none:')
    throw new Error('There is no store: storage.resources.url is "none:". Name one there.');
}
