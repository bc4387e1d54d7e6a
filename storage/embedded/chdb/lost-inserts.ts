import { readdir, readFile, truncate } from 'node:fs/promises';
import path from 'node:path';
import { processIdentity } from '../data-lock.ts';

/** `<partition>_<first block>_<last block>_<level>`, and the version of a mutation. */
const partName = /^([^_]+)_(\d+)_(\d+)_\d+(?:_\d+)?$/;

/** Blocks of a partition. */
interface Part {
  readonly partition: string;
  readonly first: number;
  readonly last: number;
}

/**
 * Lets inserts be repeated whose rows an engine lost when it was killed. For each part the engine writes the token of the
 * insert into the table's deduplication log, then moves the part into its place (`MergeTreeSink::finishDelayedChunk` of
 * ClickHouse). Killed in between, it has the token without the rows, and ignores the insert when it comes again. This
 * removes such a token: the last one of a table, when neither its part is there nor one that it was merged into. Call it
 * before the engine opens the folder; a folder that another process has open stays as it is.
 */
export async function forgetLostInserts(directory: string): Promise<void> {
  if (await isOpen(directory)) return;
  const store = path.join(directory, 'store');
  for (const group of await namesIn(store))
    for (const table of await namesIn(path.join(store, group)))
      await forgetLostInsert(path.join(store, group, table));
}

/** Whether the process that the engine has noted in the folder, for as long as it has it open, still lives. */
async function isOpen(directory: string): Promise<boolean> {
  const status = await readFile(path.join(directory, 'status'), 'utf8').catch(() => '');
  const pid = Number(/^PID: (\d+)$/m.exec(status)?.[1] ?? 0);
  // In a container this process often has the number of its predecessor.
  return pid > 0 && pid !== process.pid && (await processIdentity(pid)) !== undefined;
}

async function forgetLostInsert(table: string): Promise<void> {
  const logs = path.join(table, 'deduplication_logs');
  const numbers = (await namesIn(logs)).flatMap(
    (name) => /^deduplication_log_(\d+)\.txt$/.exec(name)?.[1] ?? [],
  );
  // A log that is full is followed by an empty one, before the part is moved.
  for (const number of numbers.sort((a, b) => Number(b) - Number(a))) {
    const file = path.join(logs, `deduplication_log_${number}.txt`);
    const text = await readFile(file, 'latin1');
    const lines = text.split('\n').slice(0, -1);
    const [operation, name = ''] = lines.at(-1)?.split('\t') ?? [];
    if (operation === undefined) continue;
    const part = parsePart(name);
    if (operation !== '1' || part === undefined || (await hasPart(table, part))) return;
    // A part of several inserts has a line for each.
    const kept = lines.slice(0, lines.findLastIndex((line) => line.split('\t')[1] !== name) + 1);
    await truncate(
      file,
      kept.reduce((sum, line) => sum + line.length + 1, 0),
    );
    return;
  }
}

async function hasPart(table: string, { partition, first, last }: Part): Promise<boolean> {
  const parts = (await namesIn(table)).flatMap((name) => parsePart(name) ?? []);
  return parts.some((one) => one.partition === partition && one.first <= first && one.last >= last);
}

function parsePart(name: string): Part | undefined {
  const [, partition, first, last] = partName.exec(name) ?? [];
  return partition === undefined ? undefined : { partition, first: Number(first), last: Number(last) };
}

/** The names in a folder; none where there is no folder. */
async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return [];
    throw error;
  }
}
