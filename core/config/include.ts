import { dirname, join, relative, resolve } from 'node:path';
import type { ConfigFile, ConfigNode, MapEntry, MapNode, NodePlace } from './config-node.ts';
import { maxConfigFileBytes, type ReadFile, readText, globs } from './read-file.ts';
import { parseYaml } from './parse-yaml.ts';
import { isError, placeText, type Problem, problemAtNode } from './problem.ts';
import { childPointer } from '../base/json.ts';

const kinds = { map: 'an object', list: 'a list', scalar: 'a single value' } as const;

function isNullNode(node: ConfigNode): boolean {
  return node.kind === 'scalar' && node.value === null;
}

/**
 * Merges two files into one configuration: keys are merged, lists appended, an empty value is replaced. Two different
 * values for one key are a problem that names both places; the first one stays.
 */
function mergeNodes(
  first: ConfigNode,
  second: ConfigNode,
  { pointer, problems }: { pointer: string; problems: Problem[] },
): ConfigNode {
  if (isNullNode(second)) return first;
  if (isNullNode(first)) return second;
  if (first.kind === 'list' && second.kind === 'list')
    return { ...first, items: [...first.items, ...second.items] };
  if (first.kind === 'map' && second.kind === 'map') {
    const entries = new Map<string, MapEntry>(first.entries);
    for (const [key, entry] of second.entries) {
      const present = entries.get(key);
      const merged =
        present === undefined
          ? entry
          : {
              key: present.key,
              node: mergeNodes(present.node, entry.node, { pointer: childPointer(pointer, key), problems }),
            };
      entries.set(key, merged);
    }
    return { ...first, entries };
  }
  if (first.kind === 'scalar' && second.kind === 'scalar' && first.value === second.value) return first;
  const difference =
    first.kind === second.kind
      ? `has another value at ${placeText(first.place)}`
      : `is ${kinds[second.kind]} here and ${kinds[first.kind]} at ${placeText(first.place)}`;
  problems.push(problemAtNode(second.place, pointer, `this key ${difference}; keep one of them`));
  return first;
}

/** Bounds over all includes together. */
const maxFiles = 100;
const maxPatterns = 100;

/** A file with its text. */
export interface ReadConfigFile extends ConfigFile {
  readonly text: string;
}

/** Content of the main file and its includes. */
interface GatheredConfig {
  /** Absent when a file could not be read or parsed; `problems` has the reason. */
  readonly root: MapNode | undefined;
  /** In the order of reading, the main one first. */
  readonly read: readonly ReadConfigFile[];
  /** Absolute names of all requested files, including unreadable ones. */
  readonly wanted: readonly string[];
  /** Absolute patterns of includes: a new matching file belongs to the configuration. */
  readonly globs: readonly string[];
  readonly problems: readonly Problem[];
}

/** Reads the main file and its includes, each file once, and merges them. */
export async function gatherConfig(main: string, readFile?: ReadFile): Promise<GatheredConfig> {
  const gathering = new Gathering(readFile);
  const root = await gathering.file({ path: resolve(main), name: main }, []);
  const { problems } = gathering;
  const broken = problems.some(isError);
  return {
    root: broken || root?.kind !== 'map' ? undefined : root,
    read: gathering.read,
    wanted: [...gathering.wanted],
    globs: [...gathering.globs],
    problems,
  };
}

class Gathering {
  readonly read: ReadConfigFile[] = [];
  readonly wanted = new Set<string>();
  readonly globs = new Set<string>();
  readonly problems: Problem[] = [];
  readonly #readFile: ReadFile | undefined;

  constructor(readFile: ReadFile | undefined) {
    this.#readFile = readFile;
  }

  /** One file with all its includes; `chain` holds the files that led to it. */
  async file(
    file: ConfigFile,
    chain: readonly ConfigFile[],
    from?: NodePlace,
  ): Promise<ConfigNode | undefined> {
    this.wanted.add(file.path);
    const result = await readText(file.path, maxConfigFileBytes, this.#readFile);
    if (!result.ok) {
      this.problems.push(
        from === undefined
          ? problemOfFile(file.name, `the configuration file ${result.message}`)
          : problemAtNode(from, '/include', `the included file ${file.name} ${result.message}`),
      );
      return undefined;
    }
    this.read.push({ ...file, text: result.text });
    const { root, problems } = parseYaml(result.text, file);
    this.problems.push(...problems);
    if (problems.length > 0) return undefined;
    if (root === undefined || (root.kind === 'scalar' && root.value === null)) {
      if (from === undefined)
        this.problems.push(
          problemOfFile(
            file.name,
            'the configuration file is empty; it needs at least "version: 1" and "pipelines"',
          ),
        );
      return undefined;
    }
    if (root.kind !== 'map') {
      this.problems.push(
        problemAtNode(root.place, '', 'the file must hold an object: keys such as "pipelines:"'),
      );
      return undefined;
    }
    return this.#withIncludes(root, [...chain, file]);
  }

  async #withIncludes(root: MapNode, chain: readonly ConfigFile[]): Promise<ConfigNode> {
    const entries = new Map<string, MapEntry>(root.entries);
    const include = entries.get('include');
    entries.delete('include');
    let merged: ConfigNode = { ...root, entries };
    if (include === undefined) return merged;
    for (const { pattern, place } of this.#patterns(include))
      for (const file of await this.#matches(pattern, chain, place)) {
        const included = await this.file(file, chain, place);
        if (included !== undefined)
          merged = mergeNodes(merged, included, { pointer: '', problems: this.problems });
      }
    return merged;
  }

  #patterns({ key, node }: MapEntry): { pattern: string; place: NodePlace }[] {
    if (node.kind !== 'list') {
      this.problems.push(
        problemAtNode(key, '/include', '"include" must be a list of file names or patterns'),
      );
      return [];
    }
    if (node.items.length > maxPatterns) {
      this.problems.push(problemAtNode(key, '/include', `"include" may hold at most ${maxPatterns} entries`));
      return [];
    }
    return node.items.flatMap((item, index) => {
      const path = `/include/${index}`;
      if (item.kind !== 'scalar' || typeof item.value !== 'string' || item.value === '') {
        this.problems.push(
          problemAtNode(item.place, path, 'an include must be the name of a file or a pattern'),
        );
        return [];
      }
      if (item.value.includes('${')) {
        this.problems.push(
          problemAtNode(item.place, path, 'variables are not replaced in "include"; write the path itself'),
        );
        return [];
      }
      return [{ pattern: item.value, place: item.place }];
    });
  }

  /** Files of one include that have not been read yet. */
  async #matches(pattern: string, chain: readonly ConfigFile[], place: NodePlace): Promise<ConfigFile[]> {
    const absolute = resolve(dirname(place.file.path), pattern);
    const glob = globs.is(pattern);
    let paths = [absolute];
    if (glob) {
      this.globs.add(absolute);
      // A pattern excludes the file that contains it.
      paths = (await globs.expand(absolute)).filter((path) => path !== place.file.path);
      if (paths.length === 0)
        this.problems.push({
          ...problemAtNode(
            place,
            '/include',
            `no file matches "${pattern}"; correct the pattern or remove it`,
          ),
          severity: 'warning',
        });
    }
    return paths.flatMap((path) => {
      const name = join(dirname(place.file.name), relative(dirname(place.file.path), path));
      if (chain.some((file) => file.path === path)) {
        const names = [...chain.map((file) => file.name), name].join(' → ');
        this.problems.push(
          problemAtNode(place, '/include', `the includes go round in a circle: ${names}; remove one of them`),
        );
        return [];
      }
      if (this.wanted.has(path)) return [];
      if (this.wanted.size >= maxFiles) {
        this.problems.push(problemAtNode(place, '/include', `more than ${maxFiles} files are included`));
        return [];
      }
      this.wanted.add(path);
      return [{ path, name }];
    });
  }
}

/** A problem of a file as a whole. */
function problemOfFile(file: string, message: string): Problem {
  return { file, line: 0, column: 0, path: '', message };
}
