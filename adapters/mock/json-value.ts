import { invalid } from './answer.ts';

const maxModelLength = 256;

/** A JSON object with unchecked members. */
export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

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
    if (!isObject(part)) return '';
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
