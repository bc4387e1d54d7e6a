import { isInteger, parse as parseLossless, stringify as stringifyLossless } from 'lossless-json';

export type JsonValue =
  string | number | bigint | boolean | null | JsonValue[] | { [name: string]: JsonValue };
export type JsonObject = { [name: string]: JsonValue };

/** Whether a content type is that of JSON; parameters and case do not matter. */
export function isJsonType(contentType: string | undefined): boolean {
  return /^application\/(?:[\w.+-]+\+)?json\b/i.test(contentType ?? '');
}

/** Text in which nothing needs an escape. */
const plain = /^[ !#-[\]-~]*$/;

/** A JSON string. Nearly every short text is plain ASCII; testing that is cheaper than escaping it. */
export function quote(text: string): string {
  return plain.test(text) ? `"${text}"` : JSON.stringify(text);
}

/** The same as it stands within a JSON string, for JSON that is kept as a text. */
export function quoteWithin(text: string): string {
  return plain.test(text) ? `\\"${text}\\"` : JSON.stringify(JSON.stringify(text)).slice(1, -1);
}

/** JSON in ASCII alone: half of a surrogate pair at a time, as JSON escapes them. */
export function asciiOnly(json: string): string {
  return json.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** A number of 16 digits or more, where `JSON.parse` may round. May also match inside a string; that only costs time. */
const longNumber = /(?:^|[:[,\s])-?\d{16,}/;
/** Its digits alone, written out: V8 then looks at one character of sixteen where `\d{16}` has it look at each. */
const sixteenDigits = new RegExp('\\d'.repeat(16));

/** Parses JSON and keeps the digits of integers beyond 2^53 (as BigInt). Undefined for anything that is no JSON. */
export function parseJson(text: string): JsonValue | undefined {
  return (mayHoldLongNumber(text) ? parseExactly(text) : undefined) ?? parsePlainly(text);
}

/** The same, and undefined for a document with long numbers that is nested too deeply to keep their digits. */
export function parseJsonExactly(text: string): JsonValue | undefined {
  return mayHoldLongNumber(text) ? parseExactly(text) : parsePlainly(text);
}

/** False for a document whose numbers `JSON.parse` reads as they are. */
function mayHoldLongNumber(text: string): boolean {
  return sixteenDigits.test(text) && longNumber.test(text);
}

/** The inverse: BigInts become the digits that they were. */
export function writeJson(value: unknown): string {
  try {
    // Many times faster, and throws at a BigInt.
    return JSON.stringify(value);
  } catch {
    return stringifyLossless(value) ?? 'null';
  }
}

/** Undefined also for what is nested too deeply for its recursion: guards must then see the rest of the document all the same. */
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
