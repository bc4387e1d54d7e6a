// A configuration of another gateway as it was written: its values, and the place of each.
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { isAlias, isMap, isScalar, isSeq, LineCounter, type Document, parseDocument } from 'yaml';
import { childPointer, isJsonObject, type JsonObject } from '../../core/base/json.ts';
import { scanYaml } from '../../core/base/scan-yaml.ts';

/** Reads the files to import. */
export const importSources = { read: readSource, readAll: readSources, objectOf, textOf };

/** Keys and indices from the root of a document to a value. */
export type SourcePath = readonly (string | number)[];

/** Place of a value, or of its key where it has one. Lines and columns count from 1. */
export interface SourcePlace {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** JSON pointer. */
  readonly pointer: string;
}

/** Largest file to import, in bytes. */
const maxBytes = 4 * 1024 * 1024;
const maxNesting = 64;
const maxAliases = 1000;

/** One file, read. */
export class Source {
  /** As it is named in reports: the path as it was given. */
  readonly file: string;
  readonly value: unknown;
  readonly #document: Document;
  readonly #lines: LineCounter;

  /** Throws a sentence with the place when the text is neither YAML nor JSON. */
  constructor(text: string, file: string) {
    this.file = file;
    this.#lines = new LineCounter();
    if (scanYaml(text, maxNesting).tooDeepAt !== undefined)
      throw new Error(`${file}: lists and objects are nested in more than ${maxNesting} levels.`);
    // Other gateways read YAML 1.1: `80_000` is a number, `<<` merges. Dates stay texts.
    this.#document = parseDocument(text, {
      version: '1.1',
      merge: true,
      uniqueKeys: false,
      prettyErrors: false,
      lineCounter: this.#lines,
      customTags: (tags) =>
        tags.filter((tag) => typeof tag === 'string' || tag.tag !== 'tag:yaml.org,2002:timestamp'),
    });
    const [fault] = this.#document.errors;
    if (fault !== undefined) {
      const { line, col } = this.#lines.linePos(fault.pos[0]);
      throw new Error(`${file}:${line}:${col}: this is neither YAML nor JSON: ${fault.message}`);
    }
    this.value = this.#document.toJS({ maxAliasCount: maxAliases });
  }

  /** The place of a value; of the nearest one around it when it has no text of its own. */
  place(at: SourcePath): SourcePlace {
    let node: unknown = this.#document.contents;
    let offset = 0;
    let pointer = '';
    for (const step of at) pointer = childPointer(pointer, step);
    for (const step of at) {
      const parent = isAlias(node) ? node.resolve(this.#document) : node;
      if (isMap(parent)) {
        const pair = parent.items.findLast(({ key }) => isScalar(key) && String(key.value) === String(step));
        if (pair === undefined) break;
        offset = offsetOf(pair.key) ?? offset;
        node = pair.value;
      } else if (isSeq(parent)) {
        node = parent.items[Number(step)];
        offset = offsetOf(node) ?? offset;
      } else break;
    }
    const { line, col } = this.#lines.linePos(offset);
    return { file: this.file, line: Math.max(1, line), column: Math.max(1, col), pointer };
  }
}

function offsetOf(node: unknown): number | undefined {
  return isScalar(node) || isMap(node) || isSeq(node) || isAlias(node) ? node.range?.[0] : undefined;
}

/** Reads one file. Rejects with a sentence when it cannot be read, is too large, or is neither YAML nor JSON. */
async function readSource(file: string): Promise<Source> {
  const shown = path.relative('', file) || file;
  const { size } = await stat(file).catch(() => {
    throw new Error(`${shown} cannot be read: there is no such file.`);
  });
  if (size > maxBytes) throw new Error(`${shown} has ${size} bytes; ${maxBytes} is the most.`);
  return new Source(await readFile(file, 'utf8'), shown);
}

/** Most files of a folder. */
const maxFiles = 500;

/** Reads one file, or every JSON and YAML file of a folder, by name. Rejects as `readSource` does. */
async function readSources(place: string): Promise<Source[]> {
  const isFolder = await stat(place).then(
    (found) => found.isDirectory(),
    () => false,
  );
  if (!isFolder) return [await readSource(place)];
  const names = (await readdir(place)).filter((name) => /\.(json|ya?ml)$/.test(name)).sort();
  if (names.length === 0 || names.length > maxFiles)
    throw new Error(`${place} holds ${names.length} JSON and YAML files; it needs 1 to ${maxFiles}.`);
  return Promise.all(names.map((name) => readSource(path.join(place, name))));
}

/** An object, or an empty one for anything else. */
function objectOf(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

/** A text, number or boolean as text; empty for anything else. */
function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : '';
}
