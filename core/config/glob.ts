import { readdir } from 'node:fs/promises';
import { basename, dirname, join, sep } from 'node:path';

/** Bounds of one expansion: what is beyond them is not looked at. */
const maxDirectories = 1000;
const maxMatches = 1000;
const maxDepth = 16;

/** True for a pattern: `*` (any characters but `/`), `?` (one of them), `**` (any number of directories). */
export function isGlob(path: string): boolean {
  return /[*?]/.test(path);
}

/** The directory of a pattern that holds no wildcard itself: where looking for matches begins. */
export function globBase(pattern: string): string {
  let base = pattern;
  while (isGlob(base)) base = dirname(base);
  return base;
}

/** Only the latest `*` has to take more when the rest does not fit: what an earlier one took stays right. */
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

/** Hidden files match only a pattern that begins with a dot itself: editors keep their copies under such names. */
function matches(name: string, segment: string): boolean {
  return (segment.startsWith('.') || !name.startsWith('.')) && fits([...name], [...segment]);
}

/** The files that match an absolute pattern, sorted. A directory that cannot be read has no matches. */
export async function expandGlob(pattern: string): Promise<string[]> {
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
          // A linked directory is followed when the pattern names its level; `**` does not, it could go round.
          if (entry.isDirectory() || entry.isSymbolicLink()) await visit(path, below, depth + 1);
        } else if (!entry.isDirectory()) found.add(path);
      }
    }
  };
  await visit(base, segments, 0);
  return [...found].sort();
}

/** True when something of this name in `directory` could change what the pattern matches. */
export function globConcerns(pattern: string, directory: string, name: string): boolean {
  if (dirname(pattern) !== directory) return directory.startsWith(globBase(pattern));
  const last = basename(pattern);
  return last === '**' || matches(name, last);
}
