/** Replaces texts with those of a service. */
import { isJsonObject, parseJson, writeJson } from '../../../core/base/json.ts';
import type { CheckSubject, JsonObject } from '../../../core/pipeline/plugin.ts';
import type { Replacement } from './service.ts';
import { findAt, firstAt, valueAt, type Values } from './template.ts';

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
