import { isInteger, parse } from 'lossless-json';
import { mayHoldLongNumber, writeJson } from '../../core/pipeline/parse-json.ts';
import { asObject, type JsonObject } from './json-reading.ts';

/** The JSON object that a text holds, with integers beyond 2^53 as BigInt; undefined for anything else. */
export function parseExactObject(text: string): JsonObject | undefined {
  try {
    if (!mayHoldLongNumber(text)) return asObject(JSON.parse(text));
    return asObject(
      parse(text, null, { parseNumber: exactNumber, onDuplicateKey: ({ newValue }) => newValue }),
    );
  } catch {
    return undefined;
  }
}

/** The inverse: BigInts become the digits that they were. */
export function stringifyExact(value: JsonObject): string {
  return writeJson(value);
}

function exactNumber(digits: string): number | bigint {
  const value = Number(digits);
  return isInteger(digits) && !Number.isSafeInteger(value) ? BigInt(digits) : value;
}
