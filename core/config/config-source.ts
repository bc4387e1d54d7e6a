import { createHash } from 'node:crypto';
import { dirname, relative } from 'node:path';
import type { ConfigNode, MapEntry, NodePlace, Origin } from './config-node.ts';
import type { ReadConfigFile } from './include.ts';
import { spellingOf } from './describe-schema.ts';
import { pointerSegments } from '../base/json.ts';

/** A place in the configuration. */
export interface Place {
  /** Display name, for messages. */
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** Source of a configuration: places for messages, files for the watcher, a digest for its version. */
export interface ConfigSource {
  /**
   * Place of a key or value by JSON pointer, in its file. Either spelling of a key works; a pointer to nothing gives
   * the nearest existing parent. An item of a list has no key: the place of its value is given. Default part: `value`.
   */
  locate(pointer: string, part?: 'key' | 'value'): Place;
  /** Placeholders of a text that contains variables; undefined for a literal one. */
  origin(pointer: string): Origin | undefined;
  /** Absolute path of the file with this value. */
  fileOf(pointer: string): string;
  /**
   * Entries to watch, all absolute: YAML files that were read or requested, the main one first, then `${file:…}`
   * inputs, then the patterns of includes (`*`, `?`, `**`), since a new matching file belongs to the configuration.
   */
  readonly files: readonly string[];
  /**
   * SHA-256, in hex, over the YAML texts as written and their names relative to the main file. Excludes the content of
   * variables and `${file:…}` inputs: a digest is logged, and a short secret could be guessed from it. A rotated secret
   * is therefore a reload with an unchanged digest.
   */
  readonly digest: string;
}

interface Found {
  readonly node: ConfigNode;
  /** Undefined for the root and for items of lists. */
  readonly key: NodePlace | undefined;
  /** False for the nearest parent of a pointer to nothing. */
  readonly exact: boolean;
}

function entryOf(entries: ReadonlyMap<string, MapEntry>, key: string): MapEntry | undefined {
  const exact = entries.get(key);
  if (exact !== undefined) return exact;
  const spelling = spellingOf(key);
  for (const [written, entry] of entries) if (spellingOf(written) === spelling) return entry;
  return undefined;
}

function find(root: ConfigNode, pointer: string): Found {
  let found: Found = { node: root, key: undefined, exact: true };
  for (const segment of pointerSegments(pointer)) {
    const { node } = found;
    if (node.kind === 'map') {
      const entry = entryOf(node.entries, segment);
      if (entry === undefined) return { ...found, exact: false };
      found = { node: entry.node, key: entry.key, exact: true };
    } else {
      const item = node.kind === 'list' && /^\d+$/.test(segment) ? node.items[Number(segment)] : undefined;
      if (item === undefined) return { ...found, exact: false };
      found = { node: item, key: undefined, exact: true };
    }
  }
  return found;
}

/** Digest as `ConfigSource` describes it. */
export function digestOf(files: readonly ReadConfigFile[]): string {
  const base = dirname(files[0]?.path ?? '');
  const parts = files.map((file) => [relative(base, file.path), file.text]);
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

/** The source of a parsed and interpolated tree. */
export function createSource(
  root: ConfigNode,
  read: { readonly files: readonly string[]; readonly digest: string },
): ConfigSource {
  return {
    locate(pointer, part = 'value') {
      const found = find(root, pointer);
      // For a missing value, the key of its parent shows where to add it.
      const place = part === 'key' || !found.exact ? (found.key ?? found.node.place) : found.node.place;
      return { file: place.file.name, line: place.line, column: place.column };
    },
    origin(pointer) {
      const { node, exact } = find(root, pointer);
      return exact && node.kind === 'scalar' ? node.origin : undefined;
    },
    fileOf(pointer) {
      return find(root, pointer).node.place.file.path;
    },
    files: read.files,
    digest: read.digest,
  };
}
