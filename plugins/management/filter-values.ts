import { withFullStop } from '../../core/errors/full-stop.ts';
import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { RequestFilter } from '../../core/ports/analytics.ts';

const mostValues = 100;
const longestValue = 512;
const mostPairs = 20;

/** A list as clients give it: texts with commas between them, JSON as text, or a list. */
export type ListValue = string | number | readonly (string | number)[];

/** Gathers what is wrong with the parameters of a filter. */
export class FilterMistakes {
  readonly #found: { readonly param: string; readonly message: string }[] = [];

  /** `message` continues a sentence that begins with the parameter, and says what to write. */
  add(param: string, message: string): void {
    this.#found.push({ param, message });
  }

  /** Throws `invalid_request` with all of them. */
  throwIfAny(): void {
    const [first] = this.#found;
    if (first === undefined) return;
    const said = this.#found.map(({ param, message }) => `"${param}" ${message}`).join('; ');
    const errors = this.#found.map(({ param, message }) => ({ path: `/${param}`, message }));
    throw new GatewayError('invalid_request', withFullStop(said), {
      param: first.param,
      extra: { errors },
    });
  }
}

/** The texts of a list: at most 100, each of at most 512 characters. Undefined when it is not there or wrong. */
export function listOf(
  param: string,
  value: ListValue | undefined,
  mistakes: FilterMistakes,
): readonly string[] | undefined {
  if (value === undefined) return undefined;
  const texts = typeof value === 'string' ? textsOf(value) : [value].flat().map(String);
  const wrong = texts === undefined ? 'is no JSON list of texts; write ["one","two"]' : mistakeOf(texts);
  if (wrong === undefined) return [...new Set(texts)];
  mistakes.add(param, wrong);
  return undefined;
}

function mistakeOf(texts: readonly string[]): string | undefined {
  if (texts.length === 0) return 'names nothing; leave it out, or give at least one value';
  if (texts.length > mostValues) return `holds ${texts.length} values; give at most ${mostValues}`;
  const long = texts.findIndex((text) => text.length > longestValue);
  if (long === -1) return undefined;
  return `holds at place ${long + 1} a value of more than ${longestValue} characters; give a shorter one`;
}

/** Undefined for what begins like a JSON list and is no list of texts. */
function textsOf(text: string): readonly string[] | undefined {
  if (!text.trimStart().startsWith('[')) {
    const values = text.split(',').map((value) => value.trim());
    return values.filter((value) => value !== '');
  }
  const list = jsonOf(text);
  return Array.isArray(list) && list.every((value) => typeof value === 'string') ? list : undefined;
}

/** Models of a kind of provider: `openai__gpt-5-mini`. */
export function serviceModelsOf(
  param: string,
  value: ListValue | undefined,
  mistakes: FilterMistakes,
): RequestFilter['serviceModels'] {
  return listOf(param, value, mistakes)?.flatMap((text) => {
    const at = text.indexOf('__');
    if (at > 0 && at + 2 < text.length) return [{ service: text.slice(0, at), model: text.slice(at + 2) }];
    mistakes.add(
      param,
      `"${shown(text)}" lacks a part; write the kind of provider, two underscores, the model`,
    );
    return [];
  });
}

/** Whole numbers from 0 to 599. */
export function statusCodesOf(
  param: string,
  value: ListValue | undefined,
  mistakes: FilterMistakes,
): readonly number[] | undefined {
  return listOf(param, value, mistakes)?.flatMap((text) => {
    if (/^[1-5]?\d{1,2}$/.test(text)) return [Number(text)];
    mistakes.add(param, `"${shown(text)}" is no status code; write numbers like 200,429`);
    return [];
  });
}

/** Texts by name, at most 20, from an object or its JSON. */
export function metadataOf(
  param: string,
  value: string | Readonly<Record<string, string>> | undefined,
  mistakes: FilterMistakes,
): Readonly<Record<string, string>> | undefined {
  if (value === undefined) return undefined;
  const object = typeof value === 'string' ? jsonOf(value) : value;
  const wrong = metadataMistake(object);
  if (wrong === undefined) return object as Readonly<Record<string, string>>;
  mistakes.add(param, wrong);
  return undefined;
}

function metadataMistake(object: unknown): string | undefined {
  if (typeof object !== 'object' || object === null || Array.isArray(object))
    return 'is no JSON object; write {"name":"value"}';
  const pairs = Object.entries(object);
  if (pairs.length === 0) return 'names nothing; leave it out, or give at least one text';
  if (pairs.length > mostPairs) return `holds ${pairs.length} names; give at most ${mostPairs}`;
  for (const [name, text] of pairs) {
    if (typeof text !== 'string') return `holds under "${shown(name)}" no text; write it in quotes`;
    if (name.length > longestValue || text.length > longestValue)
      return `holds more than ${longestValue} characters at "${shown(name)}"; give less`;
  }
  return undefined;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function shown(text: string): string {
  return text.slice(0, 64);
}
