// Composition root: `weir backup` and `weir restore`.
import { existsSync } from 'node:fs';
import { open, readdir, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import pg from 'pg';
import { createLog } from '../adapters/telemetry/line-log.ts';
import type { BackupCommand } from '../core/administration/cli/command-arguments.ts';
import { version } from '../core/administration/cli/arguments.ts';
import { loadConfig } from '../core/config/load-config.ts';
import { formatProblem } from '../core/config/problem.ts';
import type { GatewayConfig } from '../core/config/schema.ts';
import { UndoStack } from '../core/lifecycle/undo-stack.ts';
import { syncFolder, writeDurably } from '../core/base/durable-file.ts';
import { systemClock as clock } from '../core/ports/clock.ts';
import {
  backupLines,
  BackupWriter,
  minPassphraseLength,
  verifyBackup,
  type BackupHead,
} from '../core/administration/transfer/backup-file.ts';
import { dataFolderHolder } from '../storage/embedded/data-lock.ts';
import { checkWritable } from '../storage/embedded/disk-fault.ts';
import { privateFolders } from '../storage/embedded/own-folder.ts';
import { snapshots, SnapshotTooLong } from '../storage/postgres/backup-rows.ts';
import { readMigrations, type Migration } from '../storage/postgres/migrate.ts';
import { clientSettings, openDatabase, type EmbeddedPlace } from '../storage/postgres/open-database.ts';
import { postgresPlace, type PostgresPlace } from '../storage/postgres/postgres-address.ts';
import { keyFileName } from '../storage/secrets/key-file.ts';
import { configFile } from './config-file.ts';
import { resourcePlaces } from './open-resources.ts';

const sealedFiles = ['identity.json', keyFileName] as const;
/**
 * The embedded engine has one session, which the gateway waits for; an engine without an answer for 20 s is replaced.
 */
const longestSnapshotMs = 10_000;
const longestPassphrase = 4096;

type Place = PostgresPlace | EmbeddedPlace;

/** Runs one of the two commands; resolves to its exit code. */
export async function runBackupCommand(command: BackupCommand): Promise<number> {
  const log = createLog({
    level: 'warn',
    format: 'text',
    clock,
    write: (line) => void process.stderr.write(line),
  });
  const opened = new UndoStack({
    clock,
    timeoutMs: 20_000,
    onError: (error) => log.error('A part could not be closed', { error }),
  });
  try {
    const file = configFile(command.config);
    const loaded = await loadConfig(file, { env: process.env });
    if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join('\n'));
    const work = { file, config: loaded.config, data: path.resolve(command.data), log, clock, opened };
    if (command.name === 'backup') await backup(path.resolve(command.out), work);
    else await restore(path.resolve(command.file), work);
    return 0;
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
    return 1;
  } finally {
    await opened.dispose();
  }
}

interface Work {
  readonly file: string;
  readonly config: GatewayConfig;
  /** Absolute. */
  readonly data: string;
  readonly log: ReturnType<typeof createLog>;
  readonly clock: typeof clock;
  readonly opened: UndoStack;
}

async function backup(out: string, work: Work): Promise<void> {
  const passphrase = await readPassphrase();
  const files = await filesOf(work.data);
  const { place, isShared } = await resourcePlaces.storePlace(work);
  const client = await connect(place, work.opened);
  const temporary = `${out}.${process.pid}.tmp`;
  const began = clock.monotonic();
  let writer: BackupWriter | undefined;
  try {
    const handle = await open(temporary, 'w', 0o600);
    try {
      await snapshots.read(
        client,
        async (snapshot) => {
          const about = {
            weir: version,
            created_at: new Date(clock.now()).toISOString(),
            ...snapshot,
          };
          writer = await BackupWriter.begin(about, { files, passphrase }, async (text) => {
            await handle.appendFile(text);
          });
          return writer;
        },
        () => isShared && clock.monotonic() - began > longestSnapshotMs,
      );
      await writer?.end();
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, out);
    await syncFolder(path.dirname(out));
  } catch (error) {
    await rm(temporary, { force: true });
    throw explained(error, out);
  }
  const kept = Object.keys(files).join(' and ');
  console.log(
    `${out}: ${writer?.rows ?? 0} rows of the relational store${kept === '' ? '' : `, ${kept} (sealed)`}.`,
  );
  console.log(
    'Not in it: logs and analytics, the journal, files of exports, waiting jobs, the configuration file.',
  );
  if ((process.env['WEIR_SECRET_KEY'] ?? '') !== '')
    console.log(
      'Nor is the key of WEIR_SECRET_KEY: keep it yourself, without it no stored secret can be read.',
    );
}

function explained(error: unknown, out: string): unknown {
  if (error instanceof SnapshotTooLong)
    return new Error(
      `The store is too large to be read within ${longestSnapshotMs / 1000} s, for which the gateway cannot write to it. Stop the gateway and repeat the command, or keep the records in PostgreSQL (storage.resources.url).`,
    );
  if (error instanceof Error && 'syscall' in error)
    return new Error(`${out} cannot be written: ${error.message}. Name another file (--out).`, {
      cause: error,
    });
  return error;
}

async function filesOf(data: string): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  for (const name of sealedFiles) {
    const file = path.join(data, name);
    if (existsSync(file)) files[name] = await readFile(file, 'utf8');
  }
  return files;
}

async function connect(place: Place, opened: UndoStack): Promise<pg.Client> {
  const client = new pg.Client(clientSettings(place));
  client.on('error', () => undefined);
  await client.connect();
  opened.push(() => client.end().catch(() => undefined));
  return client;
}

async function restore(file: string, work: Work): Promise<void> {
  const { config, data, log, opened } = work;
  const { url } = config.storage.resources;
  resourcePlaces.requireStore(url);
  await requireEmptyFolder(data);
  if (!existsSync(file)) throw new Error(`There is no file ${file}.`);
  const { head, files, rows } = await verifyBackup(file, await readPassphrase());
  const migrations = migrationsFor(file, head, await readMigrations());
  const isNew = !existsSync(data);
  await privateFolders.own(data);
  await checkWritable(data);
  try {
    const place = url.startsWith('pglite:')
      ? await resourcePlaces.openEmbedded(resourcePlaces.embeddedFolder(url, data), work)
      : await postgresPlace(config.storage.resources, path.dirname(work.file));
    const database = await openDatabase({ place, log, clock, migrations });
    await database.close();
    const client = await connect(place, opened);
    await snapshots.requireEmpty(client);
    const written = await snapshots.write(client, backupLines(file));
    if (written !== rows) throw new Error(`${file} was changed while it was read: take another copy`);
    for (const name of sealedFiles) {
      const text = files[name];
      if (text !== undefined) await writeDurably(path.join(data, name), text);
    }
  } catch (error) {
    await opened.dispose();
    await clear(data, isNew);
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`${file} was not restored, and ${data} is as it was: ${reason.replace(/\.$/, '')}.`, {
      cause: error,
    });
  }
  const kept = sealedFiles.filter((name) => files[name] !== undefined).join(' and ');
  console.log(
    `${data}: ${rows} rows${kept === '' ? '' : `, ${kept}`}, as of ${head.created_at}. Begin with weir start.`,
  );
}

async function requireEmptyFolder(data: string): Promise<void> {
  const names = existsSync(data) ? await readdir(data) : [];
  if ((await dataFolderHolder(data)) !== undefined)
    throw new Error(`A gateway runs on ${data}: name an empty folder (--data, WEIR_DATA).`);
  const found = names.filter((name) => name !== '.run');
  if (found.length === 0) return;
  throw new Error(
    `A backup is restored into an empty folder only, and ${data} holds ${found.slice(0, 3).join(', ')}${found.length > 3 ? ' …' : ''}: move it away, or name another one (--data, WEIR_DATA).`,
  );
}

/** The schema steps of the rows: the next start applies later ones. */
function migrationsFor(file: string, head: BackupHead, known: readonly Migration[]): readonly Migration[] {
  const isKnown = head.migrations.every(({ sha256 }, index) => known[index]?.sha256 === sha256);
  if (isKnown) return known.slice(0, head.migrations.length);
  throw new Error(
    `${file} was made by a version with another schema (weir ${head.weir}, ${head.migrations.at(-1)?.name ?? 'none'}; this is ${version}): restore it with that version, or a newer one.`,
  );
}

async function clear(data: string, isNew: boolean): Promise<void> {
  if (isNew) return rm(data, { recursive: true, force: true });
  for (const name of await readdir(data)) await rm(path.join(data, name), { recursive: true, force: true });
}

async function readPassphrase(): Promise<string> {
  const given = process.env['WEIR_BACKUP_PASSPHRASE'] ?? '';
  const passphrase = given === '' ? await firstLineOfInput() : given;
  if (passphrase.length >= minPassphraseLength) return passphrase;
  throw new Error(
    passphrase === ''
      ? 'There is no passphrase. Set WEIR_BACKUP_PASSPHRASE, or write it to standard input (weir … < FILE).'
      : `The passphrase is shorter than ${minPassphraseLength} characters. Choose a longer one.`,
  );
}

async function firstLineOfInput(): Promise<string> {
  if (process.stdin.isTTY) return '';
  let text = '';
  for await (const chunk of process.stdin.setEncoding('utf8')) {
    text += chunk as string;
    if (text.includes('\n') || text.length > longestPassphrase) break;
  }
  const [line = ''] = text.split(/\r?\n/, 1);
  if (line.length > longestPassphrase)
    throw new Error(`The passphrase is longer than ${longestPassphrase} characters.`);
  return line;
}
