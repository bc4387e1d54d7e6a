/** Shared by the checks of several files: schema pieces, and functions that look at a text or change one. */
import { isJsonObject, parseJson, writeJson } from '../../../core/base/json.ts';
import {
  type CheckSubject,
  type JsonObject,
  type JsonValue,
  type OptionFault,
  type SubjectText,
  Type,
} from '../../../core/pipeline/plugin.ts';

/** Regular expressions of checks. */
export const expressions = { of: expressionOf, faults: expressionFaults, compiled: compiledOf };

/** Unknown parameters are refused. */
export const strict = { additionalProperties: false } as const;

/** The parameter `not`. */
export const Not = Type.Optional(
  Type.Boolean({
    default: false,
    description: 'Fail where the check would pass, and pass where it would fail.',
  }),
);

/** The parameter `timeout` of checks that wait for a server. */
export const Timeout = (usual: number) =>
  Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 60_000,
      default: usual,
      description: 'Longest wait for the server, in milliseconds.',
    }),
  );

/** How many of several things must be there. */
export type Operator = 'any' | 'all' | 'none';

/** The parameter `operator`. */
export const OperatorOf = (things: string, usual: Operator) =>
  Type.Optional(
    Type.Union([Type.Literal('any'), Type.Literal('all'), Type.Literal('none')], {
      default: usual,
      description: `Pass when any, all or none of the ${things} are present.`,
    }),
  );

/** Whether the found count satisfies the operator. */
export function holdsFor(operator: Operator, found: number, asked: number): boolean {
  if (operator === 'none') return found === 0;
  return operator === 'any' ? found > 0 : found === asked;
}

/** Steps that one expression of an operator may expand to. */
export const mostSteps = 2000;

/** Flags of JavaScript that RE2 has, too; `d`, `g` and `u` do not change these checks. */
const slashed = /^\/([^]+)\/([dgimsuvy]*)$/;
const flagsInRe2 = /[ims]/g;

/** An expression in RE2's syntax; `/x/i` becomes `(?i)x`. Reports unsupported flags as a fault. */
function expressionOf(rule: string): { readonly source: string; readonly fault?: string } {
  const [, source, flags] = slashed.exec(rule) ?? [];
  if (source === undefined || flags === undefined) return { source: rule };
  const unknown = flags.replace(/[dgimsu]/g, '');
  if (unknown !== '')
    return { source, fault: `has the flag "${unknown[0]}", and only d, g, i, m, s and u are known` };
  const kept = [...new Set(flags.match(flagsInRe2) ?? [])].join('');
  return { source: kept === '' ? source : `(?${kept})${source}` };
}

/** Faults of an expression, as faults of a parameter. */
function expressionFaults(
  path: string,
  rule: string,
  compile: (source: string) => unknown,
): readonly OptionFault[] {
  const { source, fault } = expressionOf(rule);
  const compiled = fault ?? compile(source);
  return typeof compiled === 'string' ? [{ path, message: compiled }] : [];
}

/** Compiles an expression that `check` has accepted. */
function compiledOf<T extends object>(rule: string, compile: (source: string) => T | string): T {
  const { source, fault } = expressionOf(rule);
  const compiled = fault ?? compile(source);
  if (typeof compiled === 'string') throw new Error(`The expression ${compiled}.`);
  return compiled;
}

/**
 * The forms of a text that a check looks at. Strings within the arguments of a tool call may be escaped (`\u0040`):
 * where there is an escape, the check also looks at each of them unescaped.
 */
export function viewsOf({ type, text }: SubjectText): readonly string[] {
  if (type !== 'tool-arguments' || !text.includes('\\')) return [text];
  const json = parseJson(text);
  return json === undefined ? [text] : [text, ...leavesOf(json)];
}

/** Keys and scalars of a document, without recursion: it may be deep. */
function leavesOf(json: JsonValue): readonly string[] {
  const leaves: string[] = [];
  const open: JsonValue[] = [json];
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    if (typeof value === 'string') leaves.push(value);
    else if (Array.isArray(value)) for (const one of value) open.push(one);
    else if (isJsonObject(value)) {
      for (const [key, one] of Object.entries(value)) {
        leaves.push(key);
        open.push(one);
      }
    }
  }
  return leaves;
}

/** All views of all texts that are not empty. */
export function viewsOfAll({ texts }: CheckSubject): readonly string[] {
  const views: string[] = [];
  for (const text of texts) {
    if (text.text === '') continue;
    if (text.type === 'tool-arguments') views.push(...viewsOf(text));
    else views.push(text.text);
  }
  return views;
}

/** Deepest arguments of a tool call whose strings are changed one by one. */
const deepest = 200;

/**
 * Replaces the texts. Of the arguments of a tool call only strings, keys and numbers are changed, so that they stay JSON;
 * a number that changes becomes a string. Arguments that are not JSON are changed as a text. Where something is found that
 * no receiver would read (the first of two members of one name), they are written anew without it.
 */
export function changeTexts(subject: CheckSubject, change: (text: string) => string): void {
  subject.setTexts(({ type, text }) => {
    if (type !== 'tool-arguments') return change(text);
    const json = parseJson(text);
    if (json === undefined) return change(text);
    const changed = changedJson(json, change, 0);
    if (changed !== json) return writeJson(changed);
    return change(text) === text ? text : writeJson(json);
  });
}

/** The same value where nothing changes. */
function changedJson(json: JsonValue, change: (text: string) => string, depth: number): JsonValue {
  if (typeof json === 'string') return change(json);
  if (typeof json === 'number' || typeof json === 'bigint') {
    const digits = String(json);
    const changed = change(digits);
    return changed === digits ? json : changed;
  }
  if (typeof json !== 'object' || json === null) return json;
  // Deeper than usual arguments: changed as a text, so that no string is missed.
  if (depth > deepest) return change(writeJson(json));
  if (Array.isArray(json)) {
    const list = json.map((one) => changedJson(one, change, depth + 1));
    return list.every((one, index) => one === json[index]) ? json : list;
  }
  let isSame = true;
  const entries = Object.entries(json).map(([key, value]): [string, JsonValue] => {
    const entry: [string, JsonValue] = [change(key), changedJson(value, change, depth + 1)];
    isSame &&= entry[0] === key && entry[1] === value;
    return entry;
  });
  return isSame ? json : Object.fromEntries(entries);
}

/** Runs `ask` for each, `mostAtOnce` at once; results in the given order. */
export async function inTurns<T, R>(
  all: readonly T[],
  ask: (one: T) => R | Promise<R>,
  mostAtOnce: number,
): Promise<readonly R[]> {
  const results: R[] = [];
  let next = 0;
  const run = async (): Promise<void> => {
    for (let index = next++; index < all.length; index = next++) results[index] = await ask(all[index] as T);
  };
  await Promise.all(Array.from({ length: mostAtOnce }, run));
  return results;
}

/** The texts of a request as messages: those of one message are joined. */
export function messagesOf(texts: CheckSubject['texts']): JsonObject[] {
  const messages: { role: string; content: string; at: string }[] = [];
  for (const { role, text, path } of texts) {
    const at = path.slice(0, 2).join('/');
    const last = messages.at(-1);
    if (last?.at === at) last.content += `\n${text}`;
    else messages.push({ role, content: text, at });
  }
  return messages.map(({ role, content }) => ({ role, content }));
}

/** A threshold from 0 to 1. */
export const Threshold = (description: string, usual?: number) =>
  Type.Optional(
    Type.Number({ minimum: 0, maximum: 1, description, ...(usual !== undefined && { default: usual }) }),
  );
