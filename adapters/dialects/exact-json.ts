import { isInteger, parse, stringify } from 'lossless-json';
import { asObject, type JsonObject } from './json-reading.ts';

/** An integer of sixteen digits or more, where `JSON.parse` may round. May match inside a string; that only costs time. */
const longNumber = /[:[,\s]-?\d{16,}/;

/** The JSON object that a text holds, with integers beyond 2^53 as BigInt; undefined for anything else. */
export function parseExactObject(text: string): JsonObject | undefined {
  try {
    if (!longNumber.test(text)) return asObject(JSON.parse(text));
    return asObject(
      parse(text, null, { parseNumber: exactNumber, onDuplicateKey: ({ newValue }) => newValue }),
    );
  } catch {
    return undefined;
  }
}

/** The inverse: BigInts become the digits that they were. */
export function stringifyExact(value: JsonObject): string {
  try {
    // Many times faster, and throws at a BigInt.
    return JSON.stringify(value);
  } catch {
    return stringify(value) ?? 'null';
  }
}

function exactNumber(digits: string): number | bigint {
  const value = Number(digits);
  return isInteger(digits) && !Number.isSafeInteger(value) ? BigInt(digits) : value;
}
