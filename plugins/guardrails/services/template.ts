/** Requests to services as data: JSON with places for the judged texts, parameters and credentials. */
import type { JsonObject, JsonValue } from '../../../core/pipeline/plugin.ts';

/**
 * JSON in which strings have places: `{text}`, `{parameters.recipe}`, `{credentials.apiKey}`. A string that is one place
 * and nothing else becomes the place's value, of any type; a member whose place has no value is left out. `byPhase`
 * chooses by request or answer.
 */
export type Template =
  string | number | boolean | null | readonly Template[] | ByPhase | { readonly [name: string]: Template };

/** One thing for requests, and another for answers. */
interface ByPhase {
  readonly byPhase: { readonly input: Template; readonly output: Template };
}

/** Values for places. */
export type Values = Readonly<Record<string, unknown>>;

const place = /\{([A-Za-z][\w.]*)\}/g;
const onePlace = /^\{([A-Za-z][\w.]*)\}$/;

/** The JSON that a template becomes; undefined where it is one place without a value. */
export function filled(template: Template, values: Values): JsonValue | undefined {
  if (typeof template === 'string') return filledString(template, values);
  if (typeof template !== 'object' || template === null) return template;
  if (isList(template)) {
    const list = template.map((one) => filled(one, values));
    return list.filter((one): one is JsonValue => one !== undefined);
  }
  if (isByPhase(template)) return filled(chosen(template, values), values);
  const object: JsonObject = {};
  for (const [name, member] of Object.entries(template)) {
    const value = filled(member, values);
    if (value !== undefined) object[name] = value;
  }
  return object;
}

/** The same of a template that becomes a text; undefined where a place in it has no value. */
export function filledText(
  template: Template,
  values: Values,
  encode: (value: string) => string = (value) => value,
): string | undefined {
  if (typeof template === 'object' && template !== null && !isList(template) && isByPhase(template))
    return filledText(chosen(template, values), values, encode);
  if (typeof template !== 'string') return undefined;
  let isWhole = true;
  const text = template.replace(place, (_, path: string) => {
    const value = valueAt(values, path);
    if (typeof value !== 'string' && typeof value !== 'number') isWhole = false;
    return encode(String(value));
  });
  return isWhole ? text : undefined;
}

/** The value at a path: members with dots between. */
export function valueAt(values: unknown, path: string): unknown {
  let value = values;
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Readonly<Record<string, unknown>>)[name];
  }
  return value;
}

function filledString(template: string, values: Values): JsonValue | undefined {
  const [, path] = onePlace.exec(template) ?? [];
  if (path === undefined) return filledText(template, values) ?? undefined;
  const value = valueAt(values, path);
  // All values for places are JSON.
  return value as JsonValue | undefined;
}

function chosen({ byPhase }: ByPhase, values: Values): Template {
  return values['phase'] === 'output' ? byPhase.output : byPhase.input;
}

function isList(template: object): template is readonly Template[] {
  return Array.isArray(template);
}

function isByPhase(template: object): template is ByPhase {
  return 'byPhase' in template;
}

/** One place in an answer that a path leads to. */
export interface Found {
  readonly value: unknown;
  /** The member, or the number in the list, that the last `*` of the path stands for; empty without one. */
  readonly key: string;
  /** The value that the last `*` stands for; the whole answer without one. */
  readonly element: unknown;
}

/** Most places that one path leads to. */
const mostFound = 10_000;

/** All places of an answer that a path leads to: members with dots between, `*` for each of a list or object. */
export function findAt(answer: unknown, path: string): readonly Found[] {
  let found: readonly Found[] = [{ value: answer, key: '', element: answer }];
  for (const step of path.split('.')) {
    found = found.flatMap(({ value, key, element }): readonly Found[] => {
      if (typeof value !== 'object' || value === null) return [];
      if (step === '*')
        return Object.entries(value).map(([name, one]: [string, unknown]) => ({
          value: one,
          key: name,
          element: one,
        }));
      const isThere = Object.hasOwn(value, step);
      return isThere ? [{ value: (value as Readonly<Record<string, unknown>>)[step], key, element }] : [];
    });
    if (found.length > mostFound) throw new Error('its answer lists more than can be looked at');
  }
  return found;
}

/** The first of them. */
export function firstAt(answer: unknown, path: string): unknown {
  return findAt(answer, path)[0]?.value;
}
