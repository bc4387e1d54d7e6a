import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  type YAMLError,
} from 'yaml';
import type { ConfigFile, ConfigNode, MapEntry, NodePlace, ScalarNode } from './config-node.ts';
import { childPointer } from '../base/json.ts';
import { scanYaml } from '../base/scan-yaml.ts';
import { placeText, type Problem, problemAtNode } from './problem.ts';

/** Deepest nesting of lists and objects. The parser's own limit is the stack, and exceeding it aborts the process. */
export const maxNesting = 64;
/** Upper bound of values in one file, including those repeated by aliases. */
const maxValues = 50_000;

const tooDeep = `lists and objects are nested too deeply; at most ${maxNesting} levels are allowed`;
const unquoted = 'a value with "${…}" must be in quotes when it stands within "{ }" or "[ ]"';

/** Sentences for the parser's codes; others keep the parser's own message. */
const sentences: Readonly<Record<string, string>> = {
  TAB_AS_INDENT: 'a tab is used as indentation, which YAML forbids; use spaces',
  MULTIPLE_DOCS:
    'the file holds several documents; keep one, and remove the line "---" (use include for more files)',
  BLOCK_AS_IMPLICIT_KEY:
    'a value begins a new object on the line of its key; put the value in quotes if it contains ": ", or move it to its own line, indented',
  MULTILINE_IMPLICIT_KEY:
    'a key stretches over several lines; check the indentation and the colon after the key',
  BAD_INDENT: 'the indentation does not fit what stands around it; align it with its neighbours',
  BAD_SCALAR_START: 'a value cannot begin with this character unless it is in quotes; put it in quotes',
  KEY_OVER_1024_CHARS: 'a key is longer than 1024 characters; is a colon or a quote missing before it?',
  RESOURCE_EXHAUSTION: tooDeep,
  UNEXPECTED_TOKEN: 'this cannot stand here; check the quotes, brackets and indentation just before it',
};

/** Parsed text. `root` is absent for an empty file or invalid YAML. */
interface ParsedYaml {
  readonly root: ConfigNode | undefined;
  readonly problems: readonly Problem[];
}

/**
 * Parses one YAML 1.2 document of at most `most` values, keeping places; reports every problem at once. Never throws.
 */
export function parseYaml(text: string, file: ConfigFile, most = maxValues): ParsedYaml {
  const lines = lineCounterOf(text);
  const placeAt = (offset: number): NodePlace => {
    const { line, col } = lines.linePos(offset);
    return { file, line, column: col };
  };
  const { tooDeepAt, unquotedPlaceholders } = scanYaml(text, maxNesting);
  if (tooDeepAt !== undefined) return failedParse([problemAtNode(placeAt(tooDeepAt), '', tooDeep)]);
  if (unquotedPlaceholders.length > 0)
    return failedParse(unquotedPlaceholders.map((offset) => problemAtNode(placeAt(offset), '', unquoted)));
  const document = parseDocument(text, {
    version: '1.2',
    strict: true,
    // The builder checks this and can name both places.
    uniqueKeys: false,
    prettyErrors: false,
    resolveKnownTags: false,
    // 'silent' would also hide a second document.
    logLevel: 'error',
  });
  const problems = withoutFollowingErrors([...document.errors, ...document.warnings]).map((error) =>
    problemAtNode(placeAt(error.pos[0]), '', sentenceFor(error)),
  );
  if (document.directives?.yaml.explicit === true && document.directives.yaml.version !== '1.2')
    problems.push(
      problemAtNode(placeAt(0), '', 'only YAML 1.2 is understood; remove the %YAML line or write 1.2'),
    );
  if (problems.length > 0 || document.contents === null) return { root: undefined, problems };
  const builder = new TreeBuilder(placeAt, problems, most);
  const root = builder.build(document);
  return { root: problems.length > 0 ? undefined : root, problems };
}

function failedParse(problems: readonly Problem[]): ParsedYaml {
  return { root: undefined, problems };
}

/** After the first of these errors the parser is out of step and reports every further word. */
function withoutFollowingErrors(errors: readonly YAMLError[]): YAMLError[] {
  const exhausted = errors.find(({ code }) => code === 'RESOURCE_EXHAUSTION');
  if (exhausted !== undefined) return [exhausted];
  const first = errors.find(({ code }) => code === 'UNEXPECTED_TOKEN');
  return errors.filter((error) => error.code !== 'UNEXPECTED_TOKEN' || error === first);
}

function lineCounterOf(text: string): LineCounter {
  const lines = new LineCounter();
  lines.addNewLine(0);
  for (let index = text.indexOf('\n'); index !== -1; index = text.indexOf('\n', index + 1))
    lines.addNewLine(index + 1);
  return lines;
}

function sentenceFor(error: YAMLError): string {
  if (error.code === 'TAG_RESOLVE_FAILED') return 'tags ("!…") are not supported; write the plain value';
  return sentences[error.code] ?? `this is not valid YAML: ${error.message}`;
}

/** Converts the parser's document to nodes with places, within bounds. */
class TreeBuilder {
  readonly #placeAt: (offset: number) => NodePlace;
  readonly #problems: Problem[];
  readonly #most: number;
  readonly #anchors = new Map<string, Node>();
  /** Nodes under construction: an alias to one of them would never end. */
  readonly #open = new Set<Node>();
  #values = 0;

  constructor(placeAt: (offset: number) => NodePlace, problems: Problem[], most: number) {
    this.#placeAt = placeAt;
    this.#problems = problems;
    this.#most = most;
  }

  build(document: Document): ConfigNode {
    return this.#node(document.contents, this.#placeAt(0), '');
  }

  #node(node: unknown, fallback: NodePlace, pointer: string): ConfigNode {
    const empty: ScalarNode = { kind: 'scalar', place: fallback, value: null };
    if (this.#values === this.#most)
      this.#report(
        fallback,
        pointer,
        `the file holds more than ${this.#most} values (aliases count each time)`,
      );
    if (++this.#values > this.#most) return empty;
    if (isAlias(node)) {
      const target = this.#anchors.get(node.source);
      const place = this.#placeOf(node, fallback);
      if (target !== undefined && !this.#open.has(target))
        return { ...this.#node(target, fallback, pointer), place };
      if (target === undefined)
        this.#report(place, pointer, `"*${node.source}" has no anchor; write "&${node.source}" before it`);
      else this.#report(place, pointer, `"*${node.source}" stands within its own anchor and would never end`);
      return empty;
    }
    if (!isMap(node) && !isSeq(node) && !isScalar(node)) return empty;
    if (node.anchor !== undefined) this.#anchors.set(node.anchor, node);
    const place = this.#placeOf(node, fallback);
    if (isScalar(node)) return this.#scalar(node.value, place, { pointer, source: node.source });
    if (this.#open.size >= maxNesting) {
      this.#report(place, pointer, tooDeep);
      return empty;
    }
    this.#open.add(node);
    const built: ConfigNode = isSeq(node)
      ? {
          kind: 'list',
          place,
          items: node.items.map((item, index) => this.#node(item, place, childPointer(pointer, index))),
        }
      : { kind: 'map', place, entries: this.#entries(node.items, place, pointer) };
    this.#open.delete(node);
    return built;
  }

  #entries(
    pairs: readonly { key: unknown; value: unknown }[],
    place: NodePlace,
    pointer: string,
  ): Map<string, MapEntry> {
    const entries = new Map<string, MapEntry>();
    for (const { key, value } of pairs) {
      const at = this.#placeOf(key, place);
      const name = this.#keyName(key, at, pointer);
      if (name === undefined) continue;
      const path = childPointer(pointer, name);
      const first = entries.get(name);
      if (first !== undefined) {
        this.#report(
          at,
          path,
          `the key "${name}" is given twice, first at ${placeText(first.key)}; keep one`,
        );
        continue;
      }
      entries.set(name, { key: at, node: this.#node(value, at, path) });
    }
    return entries;
  }

  #keyName(key: unknown, place: NodePlace, pointer: string): string | undefined {
    if (!isScalar(key) || key.value === null) {
      this.#report(place, pointer, 'a key must be plain text');
      return undefined;
    }
    if (key.anchor !== undefined) this.#anchors.set(key.anchor, key);
    const name = typeof key.value === 'string' ? key.value : key.source;
    if (name === '<<') {
      this.#report(place, pointer, 'merge keys ("<<") are not supported; repeat the keys or use an alias');
      return undefined;
    }
    if (name === '__proto__') {
      this.#report(place, pointer, '"__proto__" cannot be used as a key');
      return undefined;
    }
    return name;
  }

  #scalar(
    value: unknown,
    place: NodePlace,
    { pointer, source }: { pointer: string; source: string | undefined },
  ): ScalarNode {
    if (typeof value === 'number' && !Number.isFinite(value))
      this.#report(place, pointer, 'infinite and undefined numbers cannot be used; write a number');
    else if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value))
      this.#report(
        place,
        pointer,
        'this number is too large to be kept exactly; put it in quotes if it is text',
      );
    const kept =
      value === null || typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
        ? value
        : (source ?? null);
    return { kind: 'scalar', place, value: kept };
  }

  #placeOf(node: unknown, fallback: NodePlace): NodePlace {
    const range = isMap(node) || isSeq(node) || isScalar(node) || isAlias(node) ? node.range : undefined;
    // An absent value (`key:`) has no text of its own; its key is the better place.
    if (!range || (isScalar(node) && node.value === null && node.source === '')) return fallback;
    return this.#placeAt(range[0]);
  }

  #report(place: NodePlace, pointer: string, message: string): void {
    this.#problems.push(problemAtNode(place, pointer, message));
  }
}
