import { parseJsonExactly, writeJson } from '../../core/base/json.ts';
import { asObject, type JsonObject } from './json-reading.ts';

/** The JSON object that a text holds, with integers beyond 2^53 as BigInt; undefined for anything else. */
export function parseExactObject(text: string): JsonObject | undefined {
  return asObject(parseJsonExactly(text));
}

/** The inverse: BigInts become the digits that they were. */
export function stringifyExact(value: JsonObject): string {
  return writeJson(value);
}
