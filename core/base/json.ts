import { isInteger, parse as parseLossless, stringify as stringifyLossless } from 'lossless-json';

export type JsonValue =
  string | number | bigint | boolean | null | JsonValue[] | { [name: string]: JsonValue };
export type JsonObject = { [name: string]: JsonValue };

/** Whether a value is a JSON object: neither a list nor a single value. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether a content type is JSON, whatever its parameters and letter case. */
export function isJsonType(contentType: string | undefined): boolean {
  return /^application\/(?:[\w.+-]+\+)?json\b/i.test(contentType ?? '');
}

/** Text without characters to escape. */
const plain = /^[ !#-[\]-~]*$/;

/** A JSON string. Most short texts are plain ASCII; testing that is cheaper than escaping. */
export function quote(text: string): string {
  return plain.test(text) ? `"${text}"` : JSON.stringify(text);
}

/** The same within a JSON string, for JSON that is kept as text. */
export function quoteWithin(text: string): string {
  return plain.test(text) ? `\\"${text}\\"` : JSON.stringify(JSON.stringify(text)).slice(1, -1);
}

/** JSON in ASCII only: each UTF-16 unit is escaped by itself. */
export function asciiOnly(json: string): string {
  return json.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** A number of 16 digits or more, where `JSON.parse` may round. May also match inside a string; that only costs time. */
const longNumber = /(?:^|[:[,\s])-?\d{16,}/;
/** Sixteen digits written out: V8 then examines one character of sixteen, with `\d{16}` every one. */
const sixteenDigits = new RegExp('\\d'.repeat(16));

/** Parses JSON and keeps the digits of integers beyond 2^53 (as BigInt). Undefined for invalid JSON. */
export function parseJson(text: string): JsonValue | undefined {
  return (mayHoldLongNumber(text) ? parseExactly(text) : undefined) ?? parsePlainly(text);
}

/** The same, but undefined for a document with long numbers that is nested too deeply to keep their digits. */
export function parseJsonExactly(text: string): JsonValue | undefined {
  return mayHoldLongNumber(text) ? parseExactly(text) : parsePlainly(text);
}

/** False for a document whose numbers `JSON.parse` reads exactly. */
function mayHoldLongNumber(text: string): boolean {
  return sixteenDigits.test(text) && longNumber.test(text);
}

/** Inverse of `parseJson`: BigInts become their digits. */
export function writeJson(value: unknown): string {
  try {
    // Many times faster, and throws at a BigInt.
    return JSON.stringify(value);
  } catch {
    return stringifyLossless(value) ?? 'null';
  }
}

/** Undefined also for a document too deep for its recursion: guards must still see the rest of the document. */
function parseExactly(text: string): JsonValue | undefined {
  try {
    return parseLossless(text, null, {
      parseNumber,
      onDuplicateKey: ({ newValue }) => newValue,
    }) as JsonValue;
  } catch {
    return undefined;
  }
}

function parsePlainly(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}

function parseNumber(digits: string): number | bigint {
  const value = Number(digits);
  return isInteger(digits) && !Number.isSafeInteger(value) ? BigInt(digits) : value;
}

/** One segment of a JSON pointer, escaped. */
function escapeSegment(segment: string | number): string {
  return String(segment).replaceAll('~', '~0').replaceAll('/', '~1');
}

/** A JSON pointer one level deeper: `childPointer('/providers', 'a/b')` is `/providers/a~1b`. */
export function childPointer(parent: string, segment: string | number): string {
  return `${parent}/${escapeSegment(segment)}`;
}

/** The segments of a JSON pointer, unescaped; none for the root (the empty pointer). */
export function pointerSegments(pointer: string): string[] {
  if (pointer === '') return [];
  return pointer
    .slice(1)
    .split('/')
    .map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** Pointer of the parent; the root's own is the root. */
export function parentPointer(pointer: string): string {
  return pointer.slice(0, Math.max(0, pointer.lastIndexOf('/')));
}

/** A mistake at a place of a JSON value. */
export interface Mistake {
  /** JSON pointer into the value: `/users/3/id`; empty for the value itself. */
  readonly path: string;
  /** Predicate about the place, without its name: `must be below credit_limit`. */
  readonly message: string;
}
