/** Tells whether a path matches. */
export type PathMatch = (path: string) => boolean;

/**
 * Compiles a path pattern of the configuration: `*` is one segment (or, within one, any characters), a `**` segment
 * any number of them, none included. Costs at most segments of the pattern × segments of the path.
 */
export function compilePathPattern(pattern: string): PathMatch {
  const wanted = pattern.slice(1).split('/').map(compileSegment);
  return (path) => matches(wanted, path.slice(1).split('/'));
}

type Segment = '**' | ((segment: string) => boolean);

function compileSegment(segment: string): Segment {
  if (segment === '**') return '**';
  if (segment === '*') return (given) => given !== '';
  if (!segment.includes('*')) return (given) => given === segment;
  const parts = segment.split(/\*+/);
  return (given) => holdsInOrder(given, parts);
}

/** The first part begins it, the last ends it, the others follow each other between: no backtracking is needed. */
function holdsInOrder(given: string, parts: readonly string[]): boolean {
  const first = parts[0] ?? '';
  const last = parts.at(-1) ?? '';
  if (given.length < first.length + last.length || !given.startsWith(first) || !given.endsWith(last))
    return false;
  let at = first.length;
  const end = given.length - last.length;
  for (const part of parts.slice(1, -1)) {
    const found = given.indexOf(part, at);
    if (found === -1 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}

/** Only the latest `**` has to be tried with more segments: what an earlier one took stays right. */
function matches(wanted: readonly Segment[], given: readonly string[]): boolean {
  let at = 0;
  let position = 0;
  let star = -1;
  let taken = 0;
  while (position < given.length) {
    const segment = wanted[at];
    if (segment === '**') {
      star = at++;
      taken = position;
    } else if (segment?.(given[position] as string)) {
      at++;
      position++;
    } else if (star !== -1) {
      at = star + 1;
      position = ++taken;
    } else return false;
  }
  while (wanted[at] === '**') at++;
  return at === wanted.length;
}
