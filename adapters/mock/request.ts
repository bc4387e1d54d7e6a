import type { HeaderList } from '../../core/ports/header-list.ts';
import type { Faults } from './faults.ts';
import type { FileStore, JobStore, NewId } from './stores.ts';
import { invalid } from './answer.ts';
import { isJsonObject } from '../../core/base/json.ts';

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
export function carriesSecret(name: string): boolean {
  return secretName.test(name);
}

/** Headers by lower-case name, in order; values that may be credentials are `***`. */
export function maskedHeaders(headers: HeaderList): [string, string][] {
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
export function member(body: JsonObject, name: string): unknown {
  const value = Object.hasOwn(body, name) ? body[name] : undefined;
  return value === null ? undefined : value;
}

/** A required text; throws a 400 with its name. */
export function requiredText(body: JsonObject, name: string): string {
  const value = member(body, name);
  if (value === undefined) throw missing(name);
  if (typeof value !== 'string') throw wrongType(name, 'a string', value);
  return value;
}

/** Name of the model, which every chunk of an answer repeats: at most 256 characters, else a 400. */
export function requiredModel(body: JsonObject): string {
  const model = requiredText(body, 'model');
  if (model.length > maxModelLength) {
    throw invalid('model', `Invalid 'model': at most ${maxModelLength} characters.`);
  }
  return model;
}

/** An optional text; throws a 400 for another type. */
export function optionalText(body: JsonObject, name: string): string | undefined {
  return member(body, name) === undefined ? undefined : requiredText(body, name);
}

/** An integer within bounds, or undefined when it is missing; throws a 400 with its name. */
export function optionalInteger(
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
export function pageLimit(
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
export function optionalBoolean(body: JsonObject, name: string, fallback: boolean): boolean {
  const value = member(body, name);
  if (value === undefined) return fallback;
  if (typeof value !== 'boolean') throw wrongType(name, 'a boolean', value);
  return value;
}

/** A text or a list of at most `most` texts, always as a list; throws a 400 with its name. */
export function textList(body: JsonObject, name: string, most: number): readonly string[] {
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
export function textOfContent(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  const texts = content.map((part: unknown) => {
    if (!isJsonObject(part)) return '';
    return typeof part['text'] === 'string' ? part['text'] : '';
  });
  return texts.filter((text) => text !== '').join('\n');
}

/** A 400 for a missing parameter. */
export function missing(name: string): Error {
  return invalid(name, `Missing required parameter: '${name}'.`, 'missing_required_parameter');
}

/** A 400 for a parameter of the wrong type. */
export function wrongType(name: string, expected: string, value: unknown): Error {
  const got = value === null ? 'null' : Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`;
  return invalid(
    name,
    `Invalid type for '${name}': expected ${expected}, but got ${got} instead.`,
    'invalid_type',
  );
}
