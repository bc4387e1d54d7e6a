import { isJsonObject, parseJson, writeJson } from '../../core/base/json.ts';
import type {
  ContextKey,
  JsonObject,
  JsonPath,
  JsonValue,
  Replacement,
  RequestContext,
  SubjectText,
} from '../../core/pipeline/plugin.ts';
import type { ToolCall, ToolResult } from '../../core/pipeline/tool-calls.ts';
import { ContextSubject, type Judged } from './subjects.ts';

/** What checks keep of one call, from its arguments to its result. */
export type KeptOfCall = Map<ContextKey<unknown>, unknown>;

/** One call of a tool with the request that holds it. */
interface JudgedCall {
  readonly context: RequestContext;
  readonly call: ToolCall;
  readonly kept: KeptOfCall;
}

abstract class ToolSubject extends ContextSubject {
  abstract readonly json: JsonValue;
  readonly service = 'mcp';
  protected readonly judged: JudgedCall;
  #texts: { readonly of: JsonValue; readonly found: JsonTexts } | undefined;

  constructor(judged: JudgedCall) {
    super(judged.context);
    this.judged = judged;
  }

  get provider(): string {
    return this.judged.call.server;
  }

  get model(): string {
    return this.judged.call.tool;
  }

  get jsonText(): string {
    return writeJson(this.json);
  }

  get texts(): readonly SubjectText[] {
    return this.found.texts;
  }

  setTexts(change: (text: SubjectText) => string): void {
    const before = this.json;
    const after = this.found.with(this.texts.map(change));
    if (after !== before) this.put(this.consistent(before, after));
  }

  set(path: JsonPath, value: JsonValue): void {
    this.put(withValue(this.json, path, value));
  }

  replaceAll(replacements: readonly Replacement[]): void {
    for (const { path, value } of replacements) this.set(path, value);
  }

  /** Kept for this call: another one of the same request has its own. */
  override once<T>(key: ContextKey<T>, make: () => T): T {
    const { kept } = this.judged;
    if (!kept.has(key)) kept.set(key, make());
    return kept.get(key) as T;
  }

  hold(): void {
    // A call is held for as long as its request; the bodies of both are counted already.
  }

  protected get found(): JsonTexts {
    const { json } = this;
    if (this.#texts?.of !== json) this.#texts = { of: json, found: new JsonTexts(json, this.form) };
    return this.#texts.found;
  }

  protected abstract readonly form: { readonly shape: Shape; readonly role: string };
  /** Takes over another JSON. */
  protected abstract put(json: JsonValue): void;
  /** The JSON after a change of its texts, with the same change wherever a part repeats another one. */
  protected abstract consistent(before: JsonValue, after: JsonValue): JsonValue;
}

/** Arguments of a call, before it is sent. */
export class ArgumentsSubject extends ToolSubject implements Judged {
  readonly phase = 'input';
  protected readonly form = { shape: 'whole', role: 'user' } as const;

  get json(): JsonObject {
    return this.judged.call.arguments;
  }

  get text(): string {
    return this.found.joined;
  }

  get request(): Judged['request'] {
    return this;
  }

  protected put(json: JsonValue): void {
    if (!isJsonObject(json)) throw new Error('The arguments of a tool call must stay a JSON object.');
    this.judged.call.arguments = json;
  }

  protected consistent(_before: JsonValue, after: JsonValue): JsonValue {
    return after;
  }
}

/** The whole result of a call, before the client gets it. */
export class ResultSubject extends ToolSubject implements Judged {
  readonly phase = 'output';
  protected readonly form = { shape: 'result', role: 'tool' } as const;
  readonly #held: ToolResult;

  constructor(judged: JudgedCall, held: ToolResult) {
    super(judged);
    this.#held = held;
  }

  get json(): JsonValue {
    return this.#held.result;
  }

  /** The texts of its content, in their order; without any, the structured content as JSON. */
  get text(): string {
    const { json } = this;
    if (!isJsonObject(json)) return this.found.joined;
    const texts = partsOf(json).flatMap((part) => textOf(part) ?? textOf(part['resource']) ?? []);
    const { structuredContent } = json;
    if (texts.length > 0 || structuredContent === undefined) return texts.join('\n');
    return writeJson(structuredContent);
  }

  get request(): Judged['request'] {
    return new ArgumentsSubject(this.judged);
  }

  protected put(json: JsonValue): void {
    this.#held.result = json;
  }

  /** Servers repeat the structured content as the JSON text of a part, for older clients. */
  protected consistent(before: JsonValue, after: JsonValue): JsonValue {
    if (!isJsonObject(before) || !isJsonObject(after)) return after;
    const structured = before['structuredContent'];
    const fresh = after['structuredContent'];
    if (structured === undefined || fresh === undefined) return after;
    const written = writeJson(structured);
    const repeats = partsOf(before).map((part) => {
      const text = textOf(part);
      return text !== undefined && writeJson(parseJson(text)) === written;
    });
    if (!repeats.includes(true)) return after;
    const parts = partsOf(after);
    const repeated = parts.map((part, index) =>
      repeats[index] === true ? parseJson(textOf(part) ?? '') : undefined,
    );
    const merged = repeated.reduce<JsonValue>(
      (all, one) => (one === undefined ? all : mergeChanges(structured, one, all)),
      fresh,
    );
    const content = parts.map((part, index) => {
      const one = repeated[index];
      // A text that is no JSON any more stays as the check has changed it.
      return one === undefined || isSame(one, merged) ? part : { ...part, text: writeJson(merged) };
    });
    return { ...after, content, structuredContent: merged };
  }
}

/** The parts of a result's content. */
function partsOf(result: JsonObject): readonly JsonObject[] {
  const { content } = result;
  return Array.isArray(content) ? content.map((part) => (isJsonObject(part) ? part : {})) : [];
}

function textOf(part: JsonValue | undefined): string | undefined {
  if (!isJsonObject(part)) return undefined;
  const { text } = part;
  return typeof text === 'string' ? text : undefined;
}

/** A copy of the document with another value at the place, whose parent must exist. */
function withValue(json: JsonValue, [step, ...rest]: JsonPath, value: JsonValue): JsonValue {
  if (step === undefined) return value;
  if (Array.isArray(json) && typeof step === 'number' && step <= json.length) {
    const copy = [...json];
    copy[step] = withValue(json[step] ?? null, rest, value);
    return copy;
  }
  if (!isJsonObject(json) || (rest.length > 0 && !Object.hasOwn(json, step)))
    throw new RangeError(
      `There is no place ${[step, ...rest].join('/').slice(0, 128)} in the JSON of the call.`,
    );
  const changed = withValue(json[step] ?? null, rest, value);
  return Object.fromEntries([...Object.entries(json).filter(([name]) => name !== step), [step, changed]]);
}

/** The texts within the JSON of tool calls, and the JSON with other texts in their places. */

/** Deepest part whose strings are texts of their own; a deeper one is one text, as JSON. */
const deepest = 200;

/**
 * The judged parts of a value. `whole`: every string, every name of a member and every number. `text`: a string. `word`: a
 * string that is no word of the protocol. `base64`: a string that is none. `none`: nothing. The others are objects and
 * lists of the protocol, whose own names and numbers are not judged. A value of another type than its shape says is
 * judged as a whole.
 */
type Shape = 'whole' | 'text' | 'word' | 'base64' | 'none' | keyof typeof members;

/** Shapes of the members that the protocol knows; every other member is judged as a whole, and so is its name. */
const members = {
  result: {
    content: 'blocks',
    structuredContent: 'whole',
    isError: 'none',
    task: 'task',
    _meta: 'meta',
  },
  blocks: {},
  block: {
    type: 'word',
    text: 'text',
    data: 'base64',
    mimeType: 'word',
    resource: 'resource',
    uri: 'text',
    name: 'text',
    title: 'text',
    description: 'text',
    size: 'none',
    annotations: 'annotations',
    _meta: 'meta',
  },
  resource: { uri: 'text', text: 'text', blob: 'base64', mimeType: 'word', _meta: 'meta' },
  annotations: { audience: 'words', priority: 'none', lastModified: 'word' },
  words: {},
  task: {
    taskId: 'none',
    status: 'word',
    statusMessage: 'text',
    createdAt: 'word',
    lastUpdatedAt: 'word',
    ttl: 'none',
    pollInterval: 'none',
  },
  meta: { 'io.modelcontextprotocol/related-task': 'related' },
  related: { taskId: 'none' },
} as const satisfies Readonly<Record<string, Readonly<Record<string, string>>>>;

/** Shapes of the elements of lists. */
const elements: Readonly<Partial<Record<Shape, Shape>>> = { blocks: 'block', words: 'word' };

/** Kinds, media types, times, roles and states. */
const protocolWord =
  /^(?:text|image|audio|resource|resource_link|user|assistant|working|input_required|completed|failed|cancelled|[a-z]{1,20}\/[a-z][a-z.+-]{0,80}|\d{4}-\d\d-\d\dT[\d:.]{1,20}(?:Z|[+-][\d:]{1,5}))$/;
const base64Text = /^[A-Za-z0-9+/_-]*={0,2}$/;
/** Identifiers of the protocol: changing one would break the call. */
const identifier = /^[\w.:-]{0,128}$/;

/** The strings, names and numbers of a document as a walk meets them; each returns what takes its place. */
interface Leaves {
  string(text: string, path: JsonPath): string;
  name(name: string): string;
  number(value: number | bigint): JsonValue;
  /** A part that is nested too deeply for the walk. */
  deep(part: JsonValue, path: JsonPath): JsonValue;
}

/** The texts of one document. Its names and numbers are one more text, a JSON list of each of them. */
export class JsonTexts {
  readonly texts: readonly SubjectText[];
  readonly #json: JsonValue;
  readonly #shape: Shape;
  readonly #strings: number;
  readonly #names: readonly string[];
  readonly #numbers: readonly (number | bigint)[];

  constructor(json: JsonValue, { shape, role }: { readonly shape: Shape; readonly role: string }) {
    const texts: SubjectText[] = [];
    const names = new Set<string>();
    const numbers = new Set<number | bigint>();
    const add = (text: string, path: JsonPath, type: SubjectText['type']): void =>
      void texts.push({ role, type, text, path, choice: 0 });
    walk(json, shape, {
      string(text, path) {
        add(text, path, isJsonText(text) ? 'tool-arguments' : 'text');
        return text;
      },
      name(name) {
        names.add(name);
        return name;
      },
      number(value) {
        numbers.add(value);
        return value;
      },
      deep(part, path) {
        add(writeJson(part), path, 'tool-arguments');
        return part;
      },
    });
    this.#json = json;
    this.#shape = shape;
    this.#strings = texts.length;
    this.#names = [...names];
    this.#numbers = [...numbers];
    // On lines of their own, so that no finding spans two of them.
    const others = [...names, ...numbers].map((one) => writeJson(one));
    if (others.length > 0) add(`[${others.join(',\n')}]`, [], 'tool-arguments');
    this.texts = texts;
  }

  /** The strings joined by line feeds, without those that are written another way beside them. */
  get joined(): string {
    return this.texts
      .slice(0, this.#strings)
      .map(({ text }) => text)
      .join('\n');
  }

  /**
   * The document with these texts, one for each of `texts`; the same document where nothing changes. Throws when the list
   * of names and numbers is not one of as many any more.
   */
  with(fresh: readonly string[]): JsonValue {
    if (fresh.every((text, index) => text === this.texts[index]?.text)) return this.#json;
    const { names, numbers } = this.#renamed(fresh[this.#strings]);
    let at = 0;
    return walk(this.#json, this.#shape, {
      string: (text) => fresh[at++] ?? text,
      name: (name) => names.get(name) ?? name,
      number: (value) => numbers.get(value) ?? value,
      deep(part) {
        const known = at++;
        const text = fresh[known] ?? '';
        return text === writeJson(part) ? part : (parseJson(text) ?? text);
      },
    });
  }

  #renamed(text: string | undefined) {
    const names = new Map<string, string>();
    const numbers = new Map<number | bigint, JsonValue>();
    if (text === undefined) return { names, numbers };
    const list = parseJson(text);
    if (!Array.isArray(list) || list.length !== this.#names.length + this.#numbers.length)
      throw new Error('the names and numbers of the JSON cannot be told from their replacement');
    this.#names.forEach((name, index) => {
      const value = list[index];
      names.set(name, typeof value === 'string' ? value : writeJson(value));
    });
    this.#numbers.forEach((value, index) => {
      const replaced = list[this.#names.length + index] ?? value;
      if (replaced !== value) numbers.set(value, replaced);
    });
    return { names, numbers };
  }
}

/** JSON within a string: a check looks into its strings, and a change leaves it JSON. */
function isJsonText(text: string): boolean {
  if (!/^\s*[[{]/.test(text)) return false;
  const json = parseJson(text);
  return typeof json === 'object' && json !== null;
}

/** The document with the leaves that `leaves` return; the same object where they return what they got. */
function walk(json: JsonValue, shape: Shape, leaves: Leaves): JsonValue {
  const path: (string | number)[] = [];

  function list(values: readonly JsonValue[], of: Shape): JsonValue {
    const changed = values.map((one, index) => {
      path.push(index);
      const value = visit(one, elements[of] ?? of);
      path.pop();
      return value;
    });
    return changed.every((one, index) => one === values[index]) ? (values as JsonValue) : changed;
  }

  function object(from: JsonObject, of: Shape): JsonValue {
    const known: Readonly<Record<string, Shape>> = of in members ? members[of as keyof typeof members] : {};
    let isSame = true;
    const taken = new Set<string>();
    const entries = Object.entries(from).map(([name, one]): [string, JsonValue] => {
      const isKnown = Object.hasOwn(known, name);
      const fresh = isKnown ? name : leaves.name(name);
      path.push(name);
      const value = visit(one, isKnown ? (known[name] ?? 'whole') : 'whole');
      path.pop();
      isSame &&= fresh === name && value === one;
      return [unused(fresh, taken), value];
    });
    return isSame ? from : Object.fromEntries(entries);
  }

  function visit(value: JsonValue, of: Shape): JsonValue {
    const shaped = fitting(value, of);
    if (shaped === 'none') return value;
    if (typeof value === 'string') return leaves.string(value, [...path]);
    if (typeof value === 'number' || typeof value === 'bigint') return leaves.number(value);
    if (typeof value !== 'object' || value === null) return value;
    if (path.length > deepest) return leaves.deep(value, [...path]);
    return Array.isArray(value) ? list(value, shaped) : object(value, shaped);
  }

  return visit(json, shape);
}

/** The shape where the value is of its type, and `whole` otherwise; `none` where nothing of the value is judged. */
function fitting(value: JsonValue, shape: Shape): Shape {
  switch (shape) {
    case 'whole':
      return shape;
    case 'text':
      return typeof value === 'string' ? shape : 'whole';
    case 'word':
      return typeof value === 'string' && protocolWord.test(value) ? 'none' : 'whole';
    case 'base64':
      return typeof value === 'string' && base64Text.test(value) ? 'none' : 'whole';
    case 'none':
      return (typeof value === 'string' && !identifier.test(value)) || typeof value === 'object'
        ? 'whole'
        : shape;
    case 'blocks':
    case 'words':
      return Array.isArray(value) ? shape : 'whole';
    default:
      return typeof value === 'object' && value !== null && !Array.isArray(value) ? shape : 'whole';
  }
}

/** Two names that become the same stay two members. */
function unused(name: string, taken: Set<string>): string {
  let free = name;
  for (let count = 2; taken.has(free); count += 1) free = `${name} (${count})`;
  taken.add(free);
  return free;
}

/**
 * Both changes of one document: a text may repeat another part, and a check has changed each by itself. Where both changed
 * the same place, `other` counts.
 */
function mergeChanges(before: JsonValue, one: JsonValue, other: JsonValue, depth = 0): JsonValue {
  if (isSame(one, before)) return other;
  if (isSame(other, before)) return one;
  if (depth > deepest) return other;
  if (Array.isArray(before) && Array.isArray(one) && Array.isArray(other)) {
    if (one.length !== before.length || other.length !== before.length) return other;
    return before.map((value, index) =>
      mergeChanges(value, one[index] ?? null, other[index] ?? null, depth + 1),
    );
  }
  if (!isJsonObject(before) || !isJsonObject(one) || !isJsonObject(other)) return other;
  const names = Object.entries(before);
  const ones = Object.entries(one);
  const others = Object.entries(other);
  if (ones.length !== names.length || others.length !== names.length) return other;
  return Object.fromEntries(
    names.map(([name, value], index) => {
      const [oneName, oneValue] = ones[index] ?? [name, value];
      const [otherName, otherValue] = others[index] ?? [name, value];
      const merged = otherName === name ? oneName : otherName;
      return [merged, mergeChanges(value, oneValue, otherValue, depth + 1)];
    }),
  );
}

/** Equal as JSON, in the same order. */
function isSame(one: JsonValue | undefined, other: JsonValue | undefined): boolean {
  return one === other || writeJson(one) === writeJson(other);
}
