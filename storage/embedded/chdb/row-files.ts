import { constants } from 'node:fs';
import { open, realpath, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join, resolve, sep } from 'node:path';
import { EngineError } from './engine-config.ts';
import type { BodyReader } from './http-request.ts';

/** Rows that an insert reads from a file instead of its body: a path, and bytes from `from` to `end` (exclusive). */
interface RowRange {
  readonly path: string;
  readonly from: number;
  readonly end: number;
}

/** Keys of the query string that name such rows. */
export const rowRangeKeys = ['weir_rows_file', 'weir_rows_from', 'weir_rows_end'] as const;

/** Reads the range in a query string; undefined when there is none. Throws an `EngineError` for an incomplete one. */
export function readRowRange(search: URLSearchParams): RowRange | undefined {
  const [path, ...places] = rowRangeKeys.map((key) => search.get(key));
  const [from = NaN, end = NaN] = places.map((text) => (/^\d{1,15}$/.test(text ?? '') ? Number(text) : NaN));
  if (typeof path !== 'string' && places.every((text) => text === null)) return undefined;
  if (typeof path === 'string' && path !== '' && from < end) return { path, from, end };
  throw new EngineError(
    36,
    'BAD_ARGUMENTS',
    'Rows in a file need its path and a byte range that is not empty.',
  );
}

/** Reads rows only from files below given folders, within the bounds of request bodies. */
export class RowFiles {
  readonly #folders: readonly string[];
  readonly #bodies: BodyReader;

  /** The folders may be created later. */
  constructor(folders: readonly string[], bodies: BodyReader) {
    this.#folders = folders;
    this.#bodies = bodies;
  }

  /**
   * Reads the whole range and keeps its bytes counted until `use` has settled. Throws an `EngineError`: 497 for a path
   * outside the folders, 107 for a file that is missing or too short, the error of a body beyond a bound.
   */
  async withRows<R>(range: RowRange, use: (rows: Buffer) => Promise<R>): Promise<R> {
    const path = await this.#permitted(range.path);
    return this.#bodies.withRoom(range.end - range.from, async () => use(await readRange(path, range)));
  }

  /** Links are resolved before the check, so that none leads out of a folder. */
  async #permitted(named: string): Promise<string> {
    const folders = await Promise.all(this.#folders.map(realPath));
    const path = join(await realPath(dirname(named)), basename(named));
    if (folders.some((folder) => path.startsWith(folder + sep))) return path;
    throw new EngineError(497, 'ACCESS_DENIED', 'Rows are read from the folders of the journal only.');
  }
}

/** The path itself when it does not exist yet. */
function realPath(path: string): Promise<string> {
  return realpath(path).catch(() => resolve(path));
}

async function readRange(path: string, { from, end }: RowRange): Promise<Buffer> {
  let file: FileHandle;
  try {
    file = await open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0));
  } catch {
    throw gone();
  }
  try {
    const status = await file.stat();
    if (!status.isFile() || status.size < end) throw gone();
    const rows = Buffer.allocUnsafeSlow(end - from);
    for (let length = 0; length < rows.length;) {
      const { bytesRead } = await file.read(rows, length, rows.length - length, from + length);
      if (bytesRead === 0) throw gone();
      length += bytesRead;
    }
    return rows;
  } finally {
    await file.close();
  }
}

function gone(): EngineError {
  return new EngineError(107, 'FILE_DOESNT_EXIST', 'The file of rows is missing or too short.');
}
