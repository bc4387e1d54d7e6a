/** One instruction of a Dockerfile: continued lines joined, comments removed. */
export interface Instruction {
  /** 1-based. */
  readonly line: number;
  /** In capitals. */
  readonly keyword: string;
  /** `--from=x` as `from` → `x`. */
  readonly flags: ReadonlyMap<string, string>;
  /** The text after the flags. */
  readonly rest: string;
}

/** Reads the instructions. Reports no faults: `dockerfile-utils` does. */
export function readDockerfile(text: string): Instruction[] {
  const found: Instruction[] = [];
  let start = 0;
  let open = '';
  text.split('\n').forEach((raw, index) => {
    if (/^\s*(#|$)/.test(raw)) return;
    if (open === '') start = index + 1;
    open += raw.replace(/\\\s*$/, ' ');
    if (/\\\s*$/.test(raw)) return;
    const [, keyword = '', flags = '', rest = ''] =
      /^\s*(\S+)\s*((?:--[a-z-]+(?:=\S+)?\s+)*)(.*)$/i.exec(open) ?? [];
    const pairs = [...flags.matchAll(/--([a-z-]+)(?:=(\S+))?/gi)];
    found.push({
      line: start,
      keyword: keyword.toUpperCase(),
      flags: new Map(pairs.map(([, name = '', value = '']) => [name, value])),
      rest: rest.trim(),
    });
    open = '';
  });
  return found;
}

/** The words of an instruction in exec form (`["a", "b"]`); undefined in any other form. */
export function execForm(text: string): string[] | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && value.every((word) => typeof word === 'string') ? value : undefined;
  } catch {
    return undefined;
  }
}

/** True when `.dockerignore` excludes a path (from the root, forward slashes) from the build. */
export function isIgnored(patterns: string, path: string): boolean {
  const parts = path.split('/');
  const candidates = parts.map((_, index) => parts.slice(0, index + 1).join('/'));
  let ignored = false;
  for (const raw of patterns.split('\n')) {
    const line = raw.trim();
    if (line === '' || line.startsWith('#')) continue;
    const isException = line.startsWith('!');
    const pattern = globExpression(line.slice(isException ? 1 : 0).replace(/^\/|\/$/g, ''));
    if (candidates.some((candidate) => pattern.test(candidate))) ignored = !isException;
  }
  return ignored;
}

/** `*` and `?` within one name, `**` across names. */
export function globExpression(glob: string): RegExp {
  const pieces = glob.split(/(\*\*\/?|\*|\?)/).map((piece) => {
    if (piece === '**/') return '(?:.*/)?';
    if (piece === '**') return '.*';
    if (piece === '*') return '[^/]*';
    if (piece === '?') return '[^/]';
    return piece.replace(/[.+^${}()|[\]\\]/g, '\\$&');
  });
  return new RegExp(`^${pieces.join('')}$`);
}
