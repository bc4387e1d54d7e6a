/** The blocks of code in the documents: of the README, of docs and of the folders below it. */
import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const root = new URL('../../', import.meta.url);

/** A fenced block. */
export interface Sample {
  /** `docs/cache.md:12`, its first line. */
  readonly place: string;
  readonly document: string;
  /** `yaml`, `ts`, `json`, `sh` …; empty when the fence names none. */
  readonly language: string;
  readonly text: string;
}

/** The blocks of a document, in their order; `document` is its path below the root. */
export async function samplesOf(document: string): Promise<readonly Sample[]> {
  const lines = (await readFile(new URL(document, root), 'utf8')).split('\n');
  const samples: Sample[] = [];
  let open: { indent: string; language: string; at: number } | undefined;
  lines.forEach((line, at) => {
    const [, indent = '', language = ''] = /^(\s*)```(\w*)\s*$/.exec(line) ?? [];
    if (!/^\s*```/.test(line)) return;
    if (open === undefined) {
      open = { indent, language, at };
      return;
    }
    const { indent: depth, language: of, at: begin } = open;
    const text = lines.slice(begin + 1, at).map((one) => one.slice(depth.length));
    samples.push({ place: `${document}:${begin + 2}`, document, language: of, text: text.join('\n') });
    open = undefined;
  });
  if (open !== undefined) throw new Error(`${document} has a block of code that does not end.`);
  return samples;
}

/** Paths of all documents for users, below the root. */
export async function documents(): Promise<readonly string[]> {
  const found = await readdir(fileURLToPath(new URL('docs/', root)), { recursive: true });
  const pages = found.filter((name) => name.endsWith('.md') && !/(^|\/)(node_modules|site)\//.test(name));
  return ['README.md', ...pages.sort().map((name) => `docs/${name.replaceAll('\\', '/')}`)];
}
