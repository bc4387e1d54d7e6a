import type { JsonPath, JsonValue, Replacement } from './context.ts';
import { writeJson } from '../base/json.ts';

interface Span {
  /** Offset of the member's first character (its key in an object, its value in an array). */
  readonly start: number;
  readonly valueStart: number;
  readonly end: number;
}

/**
 * Replaces or adds one value in a JSON text and leaves every other character as it is: spacing, key order and
 * digits beyond 2^53 survive. `text` must be valid JSON. An index equal to an array's length appends.
 * Throws a `RangeError` when a parent of the place does not exist. `write`: how the value is written, by default as JSON.
 */
export function setAt(
  text: string,
  path: JsonPath,
  value: JsonValue,
  write: (value: JsonValue) => string = writeJson,
): string {
  const encoded = write(value);
  const last = path[path.length - 1];
  if (last === undefined) return encoded;
  const container = containerAt(text, path);
  if (container === undefined) {
    throw new RangeError(`Cannot set /${path.join('/')}: its parent is missing or is no object or array.`);
  }
  const members = membersNamed(text, container, last);
  const found = members.matches[members.matches.length - 1];
  if (found) return text.slice(0, found.valueStart) + encoded + text.slice(found.end);
  if (typeof last === 'number' && last !== members.count) {
    throw new RangeError(`Cannot set /${path.join('/')}: the array has ${members.count} items.`);
  }
  const member = typeof last === 'number' ? encoded : `${JSON.stringify(last)}:${encoded}`;
  return (
    text.slice(0, members.insertAt) + (members.count > 0 ? ',' : '') + member + text.slice(members.insertAt)
  );
}

/**
 * Replaces several values of a JSON text in one pass, however long they are. Each place must exist and none may lie
 * within another: throws a `RangeError` otherwise.
 */
export function replaceAllAt(
  text: string,
  replacements: readonly Replacement[],
  write: (value: JsonValue) => string = writeJson,
): string {
  const edits = replacements
    .map(({ path, value }) => ({ ...valueAt(text, path), path, value }))
    .sort((a, b) => a.valueStart - b.valueStart);
  const pieces: string[] = [];
  let done = 0;
  for (const { valueStart, end, path, value } of edits) {
    if (valueStart < done) throw new RangeError(`Cannot replace /${path.join('/')}: it is replaced already.`);
    pieces.push(text.slice(done, valueStart), write(value));
    done = end;
  }
  pieces.push(text.slice(done));
  return pieces.join('');
}

function valueAt(text: string, path: JsonPath): Span {
  const last = path[path.length - 1];
  const container = last === undefined ? undefined : containerAt(text, path);
  const matches = container === undefined ? [] : membersNamed(text, container, last ?? '').matches;
  const found = matches[matches.length - 1];
  if (found === undefined) throw new RangeError(`Cannot replace /${path.join('/')}: it is missing.`);
  return found;
}

/** Removes one value from a JSON text, every copy of a repeated key included. A missing place changes nothing. */
export function removeAt(text: string, path: JsonPath): string {
  const last = path[path.length - 1];
  if (last === undefined) return text;
  let result = text;
  for (;;) {
    const container = containerAt(result, path);
    if (container === undefined) return result;
    const match = membersNamed(result, container, last).matches[0];
    if (match === undefined) return result;
    result = cut(result, match);
    if (typeof last === 'number') return result;
  }
}

/** Cuts a member together with the comma that goes with it. */
function cut(text: string, span: Span): string {
  const after = skipSpace(text, span.end);
  if (text[after] === ',') return text.slice(0, span.start) + text.slice(skipSpace(text, after + 1));
  let before = span.start;
  while (before > 0 && isSpace(text.charCodeAt(before - 1))) before--;
  if (text[before - 1] === ',') before--;
  return text.slice(0, before) + text.slice(span.end);
}

/** Offset of the object or array that holds the last step of the path. */
function containerAt(text: string, path: JsonPath): number | undefined {
  let at = skipSpace(text, 0);
  for (let depth = 0; depth < path.length - 1; depth++) {
    if (!holds(text, at, path[depth])) return undefined;
    const matches = membersNamed(text, at, path[depth] as string | number).matches;
    const next = matches[matches.length - 1];
    if (next === undefined) return undefined;
    at = next.valueStart;
  }
  return holds(text, at, path[path.length - 1]) ? at : undefined;
}

function holds(text: string, at: number, step: string | number | undefined): boolean {
  return text[at] === (typeof step === 'number' ? '[' : '{');
}

function membersNamed(text: string, container: number, name: string | number) {
  const isArray = text[container] === '[';
  const matches: Span[] = [];
  let count = 0;
  let at = skipSpace(text, container + 1);
  let insertAt = container + 1;
  while (text[at] !== '}' && text[at] !== ']') {
    const start = at;
    let matched = isArray && count === name;
    if (!isArray) {
      const keyEnd = skipString(text, at);
      matched = sameKey(text, at, keyEnd, name);
      at = skipSpace(text, skipSpace(text, keyEnd) + 1);
    }
    const end = skipValue(text, at);
    if (matched) matches.push({ start, valueStart: at, end });
    count++;
    insertAt = end;
    at = skipSpace(text, end);
    if (text[at] === ',') at = skipSpace(text, at + 1);
  }
  return { matches, count, insertAt };
}

function sameKey(text: string, start: number, end: number, name: string | number): boolean {
  return keyAt(text, start, end) === name;
}

/** The name in the string from `start` to `end`, its quotes included. */
export function keyAt(text: string, start: number, end: number): string {
  const raw = text.slice(start + 1, end - 1);
  return raw.includes('\\') ? String(JSON.parse(text.slice(start, end))) : raw;
}

/** Offset just behind the value that begins at `at`. Iterative: nesting cannot overflow the stack. */
export function skipValue(text: string, at: number): number {
  const first = text[at];
  if (first === '"') return skipString(text, at);
  if (first !== '{' && first !== '[') {
    while (at < text.length && !isDelimiter(text.charCodeAt(at))) at++;
    return at;
  }
  let depth = 0;
  for (; at < text.length; at++) {
    const character = text[at];
    if (character === '"') at = skipString(text, at) - 1;
    else if (character === '{' || character === '[') depth++;
    else if ((character === '}' || character === ']') && --depth === 0) return at + 1;
  }
  return at;
}

/** Offset just behind the string that begins at `at`. */
export function skipString(text: string, at: number): number {
  let end = text.indexOf('"', at + 1);
  while (end !== -1 && isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end === -1 ? text.length : end + 1;
}

function isEscaped(text: string, quote: number): boolean {
  let backslashes = 0;
  while (text[quote - 1 - backslashes] === '\\') backslashes++;
  return backslashes % 2 === 1;
}

/** Offset of the first character from `at` on that is no white space of JSON. */
export function skipSpace(text: string, at: number): number {
  while (isSpace(text.charCodeAt(at))) at++;
  return at;
}

function isSpace(code: number): boolean {
  return code === 32 || code === 10 || code === 13 || code === 9;
}

function isDelimiter(code: number): boolean {
  return code === 44 || code === 125 || code === 93 || isSpace(code);
}
