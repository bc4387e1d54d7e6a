/** Requests to services as data: JSON with places for the judged texts, parameters and credentials. */
import type { CheckSubject, JsonObject, JsonValue } from '../../../core/pipeline/plugin.ts';
import { isJsonObject, parseJson, writeJson } from '../../../core/base/json.ts';
import type { Replacement } from './service.ts';

/** Replaces texts with those of a service. */

/** Answers of a service, with the texts that they are about. */
interface Replacing {
  readonly replaces: Replacement;
  readonly subject: CheckSubject;
  /** One for each piece, or one for all texts. */
  readonly answers: readonly unknown[];
  /** The texts that are not empty, in order, each as the pieces in which it was sent. */
  readonly pieces: readonly (readonly string[])[];
  readonly values: Values;
}

interface Replaced {
  readonly isChanged: boolean;
  /** Everything that the service would change was changed. */
  readonly isWhole: boolean;
}

export function replaceTexts(replacing: Replacing): Replaced {
  const { replaces, answers } = replacing;
  if (replaces.kind === 'json') return replaceJson(replacing);
  if (replaces.kind === 'context') return addContext(replacing);
  if (replaces.kind !== 'texts') {
    const texts = replacing.pieces.length;
    const fresh = replacing.pieces.flat().map((piece, index) => newText(piece, answers[index], replaces));
    let at = 0;
    const whole = replacing.pieces.map((pieces) => pieces.map(() => fresh[at++] ?? '').join(''));
    return put(replacing, whole.slice(0, texts));
  }
  const [at = ''] = replaces.at;
  const list = findAt(answers[0], at).map(({ value }) => value);
  const count = list.every((one) => typeof one === 'string') ? list.length : -1;
  const before = replacing.values['texts'] as readonly string[];
  // A list that does not cover every text is used for none.
  return count === before.length
    ? put(replacing, list as readonly string[])
    : { isChanged: false, isWhole: false };
}

/** The new text of one piece. */
function newText(piece: string, answer: unknown, { kind, at, text = '', label = '' }: Replacement): string {
  if (kind === 'text') {
    const found = at.map((one) => firstAt(answer, one)).find((one) => typeof one === 'string');
    return typeof found === 'string' ? found : piece;
  }
  const places = at.flatMap((one) => findAt(answer, one));
  if (kind === 'matches') {
    return places.reduce((whole, { value }) => {
      const match = valueAt(value, text);
      const name = valueAt(value, label);
      if (typeof match !== 'string' || match === '') return whole;
      return whole.replaceAll(match, () => `[${typeof name === 'string' ? name.toUpperCase() : 'REDACTED'}]`);
    }, piece);
  }
  const spans = places.flatMap(({ value }): readonly (readonly [number, number])[] => {
    const pair: readonly unknown[] = Array.isArray(value) ? value : [];
    const [start, end] = pair;
    return typeof start === 'number' && typeof end === 'number' ? [[start, end]] : [];
  });
  return withoutSpans(piece, spans);
}

/** Replaces the spans of a text, which are in code points and may overlap. */
function withoutSpans(text: string, spans: readonly (readonly [number, number])[]): string {
  const points = Array.from(text);
  let redacted = '';
  let at = 0;
  for (const [start, end] of spans.toSorted(([a], [b]) => a - b)) {
    if (end <= at || start >= points.length) continue;
    redacted += `${points.slice(at, Math.max(at, start)).join('')}[REDACTED]`;
    at = end;
  }
  return redacted + points.slice(at).join('');
}

function put({ subject }: Replacing, fresh: readonly string[]): Replaced {
  let at = 0;
  let isChanged = false;
  let isWhole = true;
  subject.setTexts(({ type, text }) => {
    if (text === '') return text;
    const value = fresh[at++] ?? text;
    if (value === text) return text;
    // Arguments of a call must stay JSON for their receiver.
    if (type === 'tool-arguments' && parseJson(text) !== undefined && parseJson(value) === undefined) {
      isWhole = false;
      return text;
    }
    isChanged = true;
    return value;
  });
  return { isChanged, isWhole };
}

/** Replaces top-level members of the JSON whose values differ at the service. */
function replaceJson({ replaces, subject, answers }: Replacing): Replaced {
  const fresh = replaces.at.map((at) => firstAt(answers[0], at)).find(isJsonObject);
  const { json } = subject;
  if (fresh === undefined || !isJsonObject(json)) return { isChanged: false, isWhole: false };
  let isChanged = false;
  for (const [name, value] of Object.entries(fresh)) {
    if (Object.hasOwn(json, name) && writeJson(json[name]) === writeJson(value)) continue;
    subject.set([name], value);
    isChanged = true;
  }
  return { isChanged, isWhole: true };
}

/** Puts the findings behind the first system message, or before everything. */
function addContext({ replaces, subject, answers, values }: Replacing): Replaced {
  const { prefix = '', suffix = '' } = Object(values['parameters']) as { prefix?: string; suffix?: string };
  const found = replaces.at.flatMap((at) => findAt(answers[0], at));
  const { json } = subject;
  if (found.length === 0 || !isJsonObject(json)) return { isChanged: false, isWhole: true };
  const lines = found.map(({ value }, index) => contextOf(value, index, replaces));
  const context = `${prefix}\n${lines.join('\n')}${suffix}`;
  const { messages, prompt } = json;
  if (Array.isArray(messages)) {
    const at = messages.findIndex((one) => isJsonObject(one) && one['role'] === 'system');
    const system = messages[at];
    if (isJsonObject(system) && typeof system['content'] === 'string')
      subject.set(['messages', at, 'content'], system['content'] + context);
    else subject.set(['messages'], [{ role: 'system', content: context }, ...messages]);
    return { isChanged: true, isWhole: true };
  }
  if (typeof prompt !== 'string') return { isChanged: false, isWhole: true };
  subject.set(['prompt'], context + prompt);
  return { isChanged: true, isWhole: true };
}

/** One finding of a search as a model reads it. */
function contextOf(value: unknown, index: number, { text = 'text' }: Replacement): string {
  const { title, url, published_date: date, [text]: said } = Object(value) as JsonObject;
  const dated = typeof date === 'string' ? `Date: ${date}\n` : '';
  return `[${index + 1}] "${shown(title)}"\nURL: ${shown(url)}\n${dated}${shown(said)}\n`;
}

function shown(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

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
