import type { JsonObject } from '../../core/dialects/canonical/chat-part.ts';
import { parseJsonExactly, writeJson } from '../../core/base/json.ts';

export type { JsonObject };

/** The value when it is a JSON object (no array, no null). */
export function asObject(value: unknown): JsonObject | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as JsonObject)
    : undefined;
}

/** The value when it is an array, else an empty one. */
export function asArray(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The members of a list that are objects. */
export function objectsOf(value: unknown): readonly JsonObject[] {
  return asArray(value).flatMap((one): readonly JsonObject[] => {
    const object = asObject(one);
    return object === undefined ? [] : [object];
  });
}

/** The value when it is a non-empty string, else undefined. */
export function asText(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** The value when it is a valid count (a finite, non-negative number), else undefined. */
export function asCount(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 && Number.isFinite(value) ? value : undefined;
}

/** The last second of the year 9999: later ones have no form in the times of the wires. */
const lastSecond = 253_402_300_799;

/** Unix time in whole seconds, else undefined; some hosts write milliseconds or anything at all. */
export function asUnixTime(value: unknown): number | undefined {
  const seconds = asCount(value);
  return seconds === undefined || seconds > lastSecond ? undefined : Math.floor(seconds);
}

/** The JSON object of a text; undefined for anything else. */
export function parseObject(text: string): JsonObject | undefined {
  try {
    return asObject(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** Bytes as a Buffer, without a copy. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

/** The JSON object of a text, with integers beyond 2^53 as BigInt; undefined for anything else. */
export function parseExactObject(text: string): JsonObject | undefined {
  return asObject(parseJsonExactly(text));
}

/** The inverse, for any value: BigInts become their digits. `JSON.stringify` throws at them. */
export function stringifyExact(value: unknown): string {
  return writeJson(value);
}
