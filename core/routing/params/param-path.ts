/** Further than this no list of a request reaches. */
const maxIndexDigits = 9;

/** A bare name, a quoted one in brackets, an index in brackets, or `[*]`. */
const part = /\.?([^.[\]"]+)|\[("(?:[^"\\]|\\.)*")\]|\[(\d+)\]|\[(\*)\]/y;

/**
 * A path into a request's body: `a`, `a.b`, `tools[0].x`, `tools[*].x` (every item); a name with dots or brackets is
 * quoted: `a["b.c"]`. Undefined for anything else. The name `*` cannot be written.
 */
export function parseParamPath(text: string): (string | number)[] | undefined {
  const path: (string | number)[] = [];
  part.lastIndex = 0;
  while (part.lastIndex < text.length) {
    const isDotted = text.charAt(part.lastIndex) === '.';
    const found = part.exec(text);
    if (found === null) return undefined;
    const [, bare, quoted, index, every] = found;
    // A name is set off by a dot, save the first one.
    if (bare !== undefined && isDotted !== path.length > 0) return undefined;
    const next = every ?? name(bare, quoted) ?? listIndex(index);
    if (next === undefined) return undefined;
    path.push(next);
  }
  return path.length > 0 && typeof path[0] === 'string' && path[0] !== '*' ? path : undefined;
}

function name(bare: string | undefined, quoted: string | undefined): string | undefined {
  const read = bare?.trim() ?? unquoted(quoted);
  return read === '*' ? undefined : read;
}

function unquoted(quoted: string | undefined): string | undefined {
  if (quoted === undefined) return undefined;
  try {
    return String(JSON.parse(quoted));
  } catch {
    return undefined;
  }
}

function listIndex(digits: string | undefined): number | undefined {
  return digits !== undefined && digits.length <= maxIndexDigits ? Number(digits) : undefined;
}
