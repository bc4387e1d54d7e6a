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
import { isSame, JsonTexts, mergeChanges, type Shape } from './tool-texts.ts';

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
