import { randomUUID } from 'node:crypto';
import { open, readFile, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import type { DirectorySnapshot, DirectorySnapshots } from '../../core/ports/directory.ts';
import type { Log } from '../../core/ports/log.ts';
import type { SecretBox } from '../../core/ports/secret-managers.ts';

/** Format of the lines. A snapshot of another format is ignored, and rewritten once the store answers. */
const format = 1;
/** Characters of JSON in one sealed line, unless one row alone has more. */
const lineLength = 256 * 1024;

/** Options of `keepSnapshots`. */
interface SnapshotsOptions {
  /** The data folder, absolute; this process holds its lock. */
  readonly data: string;
  /** Organisation of the directory: a snapshot of another one is not used. */
  readonly organisationId: string;
  readonly secrets: SecretBox;
  readonly log: Log;
  /** Upper bound of the file in bytes. Default 512 MiB, enough for more than a million keys. */
  readonly maxBytes?: number;
}

interface Head {
  readonly format: number;
  readonly id: string;
  readonly organisationId: string;
  readonly at: number;
}

interface Line {
  readonly rows: readonly unknown[];
  readonly isLast: boolean;
}

/**
 * Keeps snapshots of the directory in the files `directory.snapshot` and `directory.confirmed` of the data folder:
 * every line is sealed together with its position in its snapshot, so that none can be read, changed, removed, or taken
 * from another snapshot.
 */
export function keepSnapshots(options: SnapshotsOptions): DirectorySnapshots {
  const { data, organisationId, secrets, log, maxBytes = 512 * 1024 * 1024 } = options;
  const file = path.join(data, 'directory.snapshot');
  const confirmedFile = path.join(data, 'directory.confirmed');
  /** Id of the snapshot on disk. */
  let current: string | undefined;

  const openLine = <T>(line: string, context: string): T => JSON.parse(secrets.open(line, context)) as T;
  const sealLine = (value: unknown, context: string): string =>
    `${secrets.seal(JSON.stringify(value), context)}\n`;

  async function readSnapshot(): Promise<DirectorySnapshot | undefined> {
    const { size } = await stat(file);
    if (size > maxBytes) throw new Error(`it has more than ${maxBytes} bytes`);
    const [first = '', ...lines] = (await readFile(file, 'utf8')).trimEnd().split('\n');
    const head = openLine<Head>(first, headContext);
    if (head.format !== format)
      throw new Error(`its format is ${head.format}, and this version reads ${format}`);
    if (head.organisationId !== organisationId) throw new Error('it is of another organisation');
    const rows: unknown[] = [];
    let isWhole = false;
    for (const [index, line] of lines.entries()) {
      const { rows: some, isLast } = openLine<Line>(line, lineContext(head.id, index));
      for (const row of some) rows.push(row);
      isWhole = isLast;
    }
    if (!isWhole) throw new Error('its end is missing');
    return { at: Math.max(head.at, await confirmedAt(head.id)), rows };
  }

  /** 0 when this snapshot was never confirmed. */
  async function confirmedAt(id: string): Promise<number> {
    try {
      return openLine<{ at: number }>((await readFile(confirmedFile, 'utf8')).trimEnd(), confirmedContext(id))
        .at;
    } catch {
      return 0;
    }
  }

  return {
    async read() {
      try {
        return await readSnapshot();
      } catch (error) {
        if (!isAbsent(error))
          log.warn(
            'The snapshot of keys and workspaces is not used; it is made anew once their store answers',
            { file, error },
          );
        return undefined;
      }
    },
    async write({ at, rows }) {
      const id = randomUUID();
      await replaceFile(file, async (handle) => {
        const head: Head = { format, id, organisationId, at };
        let bytes = 0;
        const put = async (line: string): Promise<void> => {
          bytes += line.length;
          if (bytes > maxBytes) throw new Error(`The snapshot has more than ${maxBytes} bytes.`);
          await handle.write(line);
        };
        await put(sealLine(head, headContext));
        let index = 0;
        for (const { lines, isLast } of snapshotLines(rows)) {
          // Rows are JSON already: they are joined as text.
          const text = `{"rows":[${lines.join(',')}],"isLast":${isLast}}`;
          await put(`${secrets.seal(text, lineContext(id, index))}\n`);
          index += 1;
        }
      });
      current = id;
    },
    async confirm(at) {
      if (current === undefined) return;
      const text = sealLine({ at }, confirmedContext(current));
      await replaceFile(confirmedFile, (handle) => handle.writeFile(text));
    },
  };
}

const headContext = 'directory-snapshot/head';
const lineContext = (id: string, index: number): string => `directory-snapshot/${id}/${index}`;
const confirmedContext = (id: string): string => `directory-snapshot/${id}/confirmed`;

/** Yields at least one line. */
function* snapshotLines(
  rows: Iterable<unknown>,
): Generator<{ readonly lines: readonly string[]; readonly isLast: boolean }> {
  let lines: string[] = [];
  let length = 0;
  for (const row of rows) {
    const text = JSON.stringify(row);
    if (length > 0 && length + text.length > lineLength) {
      yield { lines, isLast: false };
      lines = [];
      length = 0;
    }
    lines.push(text);
    length += text.length;
  }
  yield { lines, isLast: true };
}

/** Atomic, readable by this user alone, and synced before it gets its name. */
async function replaceFile(file: string, write: (handle: FileHandle) => Promise<void>): Promise<void> {
  const temporary = `${file}.new`;
  const handle = await open(temporary, 'w', 0o600);
  try {
    try {
      await write(handle);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

function isAbsent(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}
