import { open, readdir, stat } from 'node:fs/promises';
import { basename, dirname, join, sep } from 'node:path';

/** Bounds of one expansion; the rest is ignored. */
const maxDirectories = 1000;
const maxMatches = 1000;
const maxDepth = 16;

/** True for a pattern: `*` (any characters but `/`), `?` (one of them), `**` (any number of directories). */
function isGlob(path: string): boolean {
  return /[*?]/.test(path);
}

/** Directory part of a pattern without wildcards: start of the search. */
function globBase(pattern: string): string {
  let base = pattern;
  while (isGlob(base)) base = dirname(base);
  return base;
}

/** On a mismatch only the latest `*` needs to take more: earlier ones stay correct. */
function fits(name: readonly string[], segment: readonly string[]): boolean {
  let at = 0;
  let position = 0;
  let star = -1;
  let taken = 0;
  while (position < name.length) {
    const wanted = segment[at];
    if (wanted === '*') {
      star = at++;
      taken = position;
    } else if (wanted === '?' || wanted === name[position]) {
      at++;
      position++;
    } else if (star !== -1) {
      at = star + 1;
      position = ++taken;
    } else return false;
  }
  while (segment[at] === '*') at++;
  return at === segment.length;
}

/** Hidden files match only a pattern that begins with a dot: editors keep copies under such names. */
function matches(name: string, segment: string): boolean {
  return (segment.startsWith('.') || !name.startsWith('.')) && fits([...name], [...segment]);
}

/** Files that match an absolute pattern, sorted. An unreadable directory has no matches. */
async function expandGlob(pattern: string): Promise<string[]> {
  const base = globBase(pattern);
  const segments = pattern
    .slice(base.length)
    .split(sep)
    .filter((segment) => segment !== '');
  const found = new Set<string>();
  let directories = 0;
  const visit = async (directory: string, rest: readonly string[], depth: number): Promise<void> => {
    const [segment, ...below] = rest;
    if (segment === undefined || ++directories > maxDirectories || depth > maxDepth) return;
    if (segment === '**') await visit(directory, below, depth);
    const entries = await readdir(directory, { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      if (found.size >= maxMatches) return;
      const path = join(directory, entry.name);
      if (segment === '**') {
        if (entry.isDirectory() && !entry.name.startsWith('.')) await visit(path, rest, depth + 1);
      } else if (matches(entry.name, segment)) {
        if (below.length > 0) {
          // A linked directory is followed when the pattern names its level; `**` does not follow it, because of
          // cycles.
          if (entry.isDirectory() || entry.isSymbolicLink()) await visit(path, below, depth + 1);
        } else if (!entry.isDirectory()) found.add(path);
      }
    }
  };
  await visit(base, segments, 0);
  return [...found].sort();
}

/** True when an entry of this name in `directory` may change the matches of the pattern. */
function globConcerns(pattern: string, directory: string, name: string): boolean {
  if (dirname(pattern) !== directory) return directory.startsWith(globBase(pattern));
  const last = basename(pattern);
  return last === '**' || matches(name, last);
}

/** Reads a whole file. Replaced in tests, and for configurations that are not on disk. */
export type ReadFile = (file: string) => Promise<Uint8Array>;

/** A file's text, or a sentence with the reason for its absence. */
export type ReadResult =
  { readonly ok: true; readonly text: string } | { readonly ok: false; readonly message: string };

/** Largest YAML file, in bytes. */
export const maxConfigFileBytes = 1_048_576;

class UnreadableFile extends Error {}

/** Reads at most `limit` + 1 bytes of a regular file; `readText` refuses a longer one. */
async function readBounded(file: string, limit: number): Promise<Uint8Array> {
  // Before open(): opening a pipe would block.
  const status = await stat(file);
  if (status.isDirectory()) throw new UnreadableFile('is a directory, not a file; name a file in it');
  if (!status.isFile()) throw new UnreadableFile('is not a regular file');
  const handle = await open(file, 'r');
  try {
    const buffer = Buffer.alloc(limit + 1);
    let length = 0;
    while (length < buffer.length) {
      const { bytesRead } = await handle.read(buffer, length, buffer.length - length, null);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    return buffer.subarray(0, length);
  } finally {
    await handle.close();
  }
}

/** The default of `ReadFile`, for a caller that keeps what is read. */
export async function readBytes(file: string): Promise<Uint8Array> {
  return Uint8Array.from(await readBounded(file, maxConfigFileBytes));
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist; create it or correct the name',
  ENOTDIR: 'does not exist: a part of its path is a file, not a directory; correct the path',
  EISDIR: 'is a directory, not a file; name a file in it',
  EACCES: 'cannot be read: permission denied; let the user of the gateway read it',
  EPERM: 'cannot be read: permission denied; let the user of the gateway read it',
  ELOOP: 'is a symbolic link that leads back to itself; correct the link',
  ENAMETOOLONG: 'has a name that is too long; correct the path',
};

/** Reason why a file cannot be read: continues a sentence that begins with its name. */
export function unreadableReason(error: unknown): string {
  if (error instanceof UnreadableFile) return error.message;
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
  return reasons[code] ?? `cannot be read (${code === '' ? 'unknown reason' : code})`;
}

/**
 * Text of a file in UTF-8, without a byte order mark. Never throws: the message of a failure continues a sentence that
 * begins with the file's name.
 */
export async function readText(
  file: string,
  limit: number,
  readFile: ReadFile = (path) => readBounded(path, limit),
): Promise<ReadResult> {
  let bytes: Uint8Array;
  try {
    bytes = await readFile(file);
  } catch (error) {
    return { ok: false, message: unreadableReason(error) };
  }
  if (bytes.length > limit)
    return { ok: false, message: `is larger than ${limit} bytes; is it the right file?` };
  try {
    return { ok: true, text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch {
    return { ok: false, message: 'is not UTF-8 text; save it as UTF-8' };
  }
}

/** Patterns of files (`*`, `?`, `**`): whether a text is one, its files, the folder above them, and what may change them. */
export const globs = { is: isGlob, expand: expandGlob, base: globBase, concerns: globConcerns };
