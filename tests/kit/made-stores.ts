/** Folders of the embedded relational store, made once and kept: making one takes seconds, copying it a moment. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { recordingLog, testClock } from '../../storage/embedded/chdb-fixture.ts';
import { startPglite } from '../../storage/embedded/start-pglite.ts';
import { readMigrations } from '../../storage/postgres/migrate.ts';
import { openDatabase } from '../../storage/postgres/open-database.ts';

const modules = fileURLToPath(new URL('../../node_modules/', import.meta.url));

let emptyStore: Promise<string> | undefined;
let migratedStore: Promise<string> | undefined;

/** Puts an empty database without a schema there. */
export async function copyEmptyStore(directory: string): Promise<void> {
  await cp(await (emptyStore ??= keepEmptyStore()), directory, { recursive: true });
}

/** Puts a database there as a first start leaves it: empty, with every migration. */
export async function copyMigratedStore(directory: string): Promise<void> {
  await cp(await (migratedStore ??= keepMigratedStore()), directory, { recursive: true });
}

async function keepEmptyStore(): Promise<string> {
  return keep('empty-database-', await engineVersion(), async (directory) => {
    await (await startPglite({ directory, log: recordingLog(), clock: testClock })).close();
  });
}

async function keepMigratedStore(): Promise<string> {
  const hash = createHash('sha256').update(await engineVersion());
  for (const { name, sha256 } of await readMigrations()) hash.update(`${name} ${sha256}\n`);
  return keep('migrated-database-', hash.digest('hex').slice(0, 16), async (directory) => {
    await copyEmptyStore(directory);
    const parts = { log: recordingLog(), clock: testClock };
    const engine = await startPglite({ directory, ...parts });
    const database = await openDatabase({ place: engine, ...parts });
    await database.close();
    await engine.close();
  });
}

async function engineVersion(): Promise<string> {
  const manifest = path.join(modules, '@electric-sql', 'pglite', 'package.json');
  return (JSON.parse(await readFile(manifest, 'utf8')) as { version: string }).version;
}

/** The kept folder of this kind and version; made when it is not there, in place of those of other versions. */
async function keep(
  kind: string,
  version: string,
  make: (directory: string) => Promise<void>,
): Promise<string> {
  const folder = path.join(modules, '.weir');
  const kept = path.join(folder, `${kind}${version}`);
  if (existsSync(kept)) return kept;
  await mkdir(folder, { recursive: true });
  const others = (await readdir(folder)).filter((name) => name.startsWith(kind));
  const directory = await mkdtemp(path.join(folder, `making-${kind}`));
  await make(directory);
  // Another process may have been faster.
  await rename(directory, kept).catch(() => rm(directory, { recursive: true, force: true }));
  for (const name of others) await rm(path.join(folder, name), { recursive: true, force: true });
  return kept;
}
