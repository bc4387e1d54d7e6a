import type { HeaderList } from '../../core/ports/header-list.ts';
import type { FileStore, JobStore, NewId } from './stores.ts';
import { invalid, maxAnswerTokens, MockProblem } from './answer.ts';
import { isJsonObject } from '../../core/base/json.ts';

/** Headers that hold a credential. */
export const secretHeaders = { areCarried: carriesSecret, masked: maskedHeaders };

/** Faults that a request asks for. */
export const faultRules = { parse: parseFaults, ofModel: faultsInModel, withoutFailures, hasFailure };

/** Reads members of a request body, and refuses those of a wrong kind. */
export const fields = {
  member,
  requiredText,
  requiredModel,
  optionalText,
  optionalInteger,
  optionalBoolean,
  textList,
  textOfContent,
  pageLimit,
  missing,
  wrongType,
};

/** A received request body. */
export interface ReceivedBody {
  /** The bytes, undefined when there are more than `maxHeldBytes`. */
  readonly held: Buffer | undefined;
  readonly size: number;
  /** SHA-256 of all bytes, in hex. */
  digest(): string;
}

/** State that the endpoints of one mock provider share. */
export interface MockContext {
  readonly newId: NewId;
  /** Wall clock in whole seconds since the epoch. */
  nowSeconds(): number;
  readonly files: FileStore;
  readonly jobs: JobStore;
}

/** One request in the form for endpoints. */
export interface MockRequest {
  readonly method: string;
  /** Raw path, without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: HeaderList;
  readonly body: ReceivedBody;
  /** The JSON body; empty for endpoints that read none. */
  readonly json: JsonObject;
  /** The variable segments of the path, decoded, in order. */
  readonly params: readonly string[];
  readonly faults: Faults;
}

const secretName = /key|token|secret|password|credential|cookie|signature|(^|[-_.])auth/i;

/** True for the name of a header or query parameter that may carry a credential. */
function carriesSecret(name: string): boolean {
  return secretName.test(name);
}

/** Headers by lower-case name, in order; values that may be credentials are `***`. */
function maskedHeaders(headers: HeaderList): [string, string][] {
  const masked: [string, string][] = [];
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = (headers[i] as string).toLowerCase();
    masked.push([name, carriesSecret(name) ? '***' : (headers[i + 1] as string)]);
  }
  return masked;
}

const maxModelLength = 256;

/** A JSON object with unchecked members. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** The member, or undefined when it is missing or null (OpenAI treats the two alike). */
function member(body: JsonObject, name: string): unknown {
  const value = Object.hasOwn(body, name) ? body[name] : undefined;
  return value === null ? undefined : value;
}

/** A required text; throws a 400 with its name. */
function requiredText(body: JsonObject, name: string): string {
  const value = member(body, name);
  if (value === undefined) throw missing(name);
  if (typeof value !== 'string') throw wrongType(name, 'a string', value);
  return value;
}

/** Name of the model, which every chunk of an answer repeats: at most 256 characters, else a 400. */
function requiredModel(body: JsonObject): string {
  const model = requiredText(body, 'model');
  if (model.length > maxModelLength) {
    throw invalid('model', `Invalid 'model': at most ${maxModelLength} characters.`);
  }
  return model;
}

/** An optional text; throws a 400 for another type. */
function optionalText(body: JsonObject, name: string): string | undefined {
  return member(body, name) === undefined ? undefined : requiredText(body, name);
}

/** An integer within bounds, or undefined when it is missing; throws a 400 with its name. */
function optionalInteger(
  body: JsonObject,
  name: string,
  minimum: number,
  maximum: number,
): number | undefined {
  const value = member(body, name);
  if (value === undefined) return undefined;
  if (typeof value !== 'number' || !Number.isInteger(value)) throw wrongType(name, 'an integer', value);
  if (value < minimum || value > maximum) {
    throw invalid(name, `Invalid '${name}': expected ${minimum} to ${maximum}, but got ${value} instead.`);
  }
  return value;
}

/** Page size of a query; throws a 400 with the parameter's name. */
function pageLimit(
  query: URLSearchParams,
  name: string,
  { fallback, most }: { readonly fallback: number; readonly most: number },
): number {
  const asked = query.get(name);
  const limit = asked === null ? fallback : /^\d{1,5}$/.test(asked) ? Number(asked) : NaN;
  if (limit >= 1 && limit <= most) return limit;
  throw invalid(name, `Invalid '${name}': expected an integer from 1 to ${most}.`);
}

/** A boolean, `fallback` when it is missing; throws a 400 for another type. */
function optionalBoolean(body: JsonObject, name: string, fallback: boolean): boolean {
  const value = member(body, name);
  if (value === undefined) return fallback;
  if (typeof value !== 'boolean') throw wrongType(name, 'a boolean', value);
  return value;
}

/** A text or a list of at most `most` texts, always as a list; throws a 400 with its name. */
function textList(body: JsonObject, name: string, most: number): readonly string[] {
  const value = member(body, name);
  if (value === undefined) return [];
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (list.length > most) {
    throw invalid(name, `Invalid '${name}': at most ${most} items, but got ${list.length} instead.`);
  }
  return list.map((item, index) => {
    if (typeof item !== 'string') {
      throw wrongType(Array.isArray(value) ? `${name}[${index}]` : name, 'a string', item);
    }
    return item;
  });
}

/** The text of a message's content: a string, or the text parts of a list joined by line breaks. */
function textOfContent(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  const texts = content.map((part: unknown) => {
    if (!isJsonObject(part)) return '';
    return typeof part['text'] === 'string' ? part['text'] : '';
  });
  return texts.filter((text) => text !== '').join('\n');
}

/** A 400 for a missing parameter. */
function missing(name: string): Error {
  return invalid(name, `Missing required parameter: '${name}'.`, 'missing_required_parameter');
}

/** A 400 for a parameter of the wrong type. */
function wrongType(name: string, expected: string, value: unknown): Error {
  const got = value === null ? 'null' : Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`;
  return invalid(
    name,
    `Invalid type for '${name}': expected ${expected}, but got ${got} instead.`,
    'invalid_type',
  );
}

const maxKeys = 256;

/**
 * Decides by counting, never by chance, which requests of a series fail: with a rate of 0.25 the 4th, 8th, 12th … Keeps
 * counts for the 256 most recently used series.
 */
export class FailCounter {
  readonly #counts = new Map<string, number>();

  /** True when the next request of the series `key` fails. */
  next(key: string, rate: number): boolean {
    const count = this.#counts.get(key) ?? 0;
    this.#counts.delete(key);
    this.#counts.set(key, count + 1);
    if (this.#counts.size > maxKeys) {
      const oldest = this.#counts.keys().next();
      if (!oldest.done) this.#counts.delete(oldest.value);
    }
    return share(count + 1, rate) > share(count, rate);
  }
}

/** Number of failures among `count` requests; the tiny addend keeps 10 × 0.1 from being less than 1. */
function share(count: number, rate: number): number {
  return Math.floor(count * rate + 1e-9);
}

/** Type of a fault's value. */
type FaultWord =
  | { readonly kind: 'integer'; readonly minimum: number; readonly maximum: number }
  | { readonly kind: 'share' }
  | { readonly kind: 'flag' }
  | { readonly kind: 'choice'; readonly values: readonly string[] };

const integer = (minimum: number, maximum: number) => ({ kind: 'integer', minimum, maximum }) as const;
const flag = { kind: 'flag' } as const;

/** Upper bound of chunks that a fault can count to. */
const lastChunk = 100_000;

/**
 * Every fault of the mock provider, in YAML, in a header or in a model's name; `docs/mock-provider.md` explains each.
 */
export const faultWords = {
  // Form of the answer
  tokens: integer(1, maxAnswerTokens),
  chunk_tokens: integer(1, 10_000),
  tool_calls: integer(1, 16),
  refusal: flag,
  usage: { kind: 'choice', values: ['none'] },
  encoding: { kind: 'choice', values: ['gzip', 'br'] },
  echo_headers: flag,
  // Timing
  latency_ms: integer(0, 600_000),
  chunk_latency_ms: integer(0, 60_000),
  // Failures
  status: integer(400, 599),
  retry_after: integer(0, 86_400),
  reset_before_head: flag,
  stall_before_head: flag,
  reset_after_chunks: integer(0, lastChunk),
  stall_after_chunks: integer(0, lastChunk),
  error_after_chunks: integer(0, lastChunk),
  malformed_after_chunks: integer(0, lastChunk),
  content_length_mismatch: flag,
  no_done: flag,
  fail_rate: { kind: 'share' },
} as const satisfies Record<string, FaultWord>;

type FaultName = keyof typeof faultWords;

type FaultValue<W> = W extends { kind: 'choice'; values: readonly (infer V)[] }
  ? V
  : W extends { kind: 'flag' }
    ? true
    : number;

/** The faults of one request, by name. */
export type Faults = { readonly [K in FaultName]?: FaultValue<(typeof faultWords)[K]> };

/** Faults that make a request fail; `fail_rate` limits them to a share of requests. */
const failureWords: readonly FaultName[] = [
  'status',
  'retry_after',
  'reset_before_head',
  'stall_before_head',
  'reset_after_chunks',
  'stall_after_chunks',
  'error_after_chunks',
  'malformed_after_chunks',
  'content_length_mismatch',
  'no_done',
];

const modelWithFaults = /^mock(?:-[a-z0-9.-]+)?:(.*)$/is;

/** Source of a text with faults, for its error. */
type FaultSource = 'base_url' | 'x-mock-faults' | 'model';

/**
 * Parses `latency_ms=200,status=503` (also separated by `&`, as in a base URL's query). Throws a 400 with the known
 * faults for an unknown one, and with the allowed values for a value out of bounds.
 */
function parseFaults(text: string, source: FaultSource): Faults {
  const found: Record<string, number | string | true> = {};
  for (const part of text.split(/[&,]/)) {
    const [word = '', value = ''] = splitOnce(part.trim(), '=');
    if (word === '' && value === '') continue;
    if (!Object.hasOwn(faultWords, word)) {
      const known = Object.keys(faultWords).join(', ');
      throw refused(source, `knows no fault \`${word.slice(0, 60)}\`. Known: ${known}.`);
    }
    found[word] = readValue(word as FaultName, value, source);
  }
  return found;
}

/** The faults in a model's name: the part after the first colon of `mock:…` or `mock-anything:…`. */
function faultsInModel(model: string): string {
  return modelWithFaults.exec(model)?.[1] ?? '';
}

/** The faults without those that make a request fail. */
function withoutFailures(faults: Faults): Faults {
  const kept: Record<string, unknown> = { ...faults };
  for (const word of failureWords) delete kept[word];
  return kept;
}

/** True when a fault makes the request fail. */
function hasFailure(faults: Faults): boolean {
  return failureWords.some((word) => word !== 'retry_after' && faults[word] !== undefined);
}

function readValue(word: FaultName, value: string, source: FaultSource): number | string | true {
  const rule = faultWords[word];
  const given = `\`${word}=${value.slice(0, 60)}\``;
  switch (rule.kind) {
    case 'flag':
      if (value === '' || value === '1' || value === 'true') return true;
      throw refused(source, `cannot use ${given}: write \`${word}\` alone.`);
    case 'choice':
      if (rule.values.some((allowed) => allowed === value)) return value;
      throw refused(source, `cannot use ${given}: allowed are ${rule.values.join(', ')}.`);
    case 'share': {
      const share = /^(\d|\d?\.\d{1,9}|\d\.)$/.test(value) ? Number(value) : NaN;
      if (share >= 0 && share <= 1) return share;
      throw refused(source, `cannot use ${given}: a number from 0 to 1 is needed.`);
    }
    case 'integer': {
      const number = /^\d{1,9}$/.test(value) ? Number(value) : NaN;
      if (number >= rule.minimum && number <= rule.maximum) return number;
      throw refused(
        source,
        `cannot use ${given}: an integer from ${rule.minimum} to ${rule.maximum} is needed.`,
      );
    }
  }
}

function refused(source: FaultSource, sentence: string): MockProblem {
  const place = {
    base_url: "the provider's base_url",
    'x-mock-faults': 'header x-mock-faults',
    model: "the model's name",
  }[source];
  return new MockProblem(400, `The mock provider, told by ${place}, ${sentence}`, {
    param: source,
    code: 'unknown_fault',
  });
}

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}
