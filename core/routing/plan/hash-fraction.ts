import { sha256 } from '../../base/sha256.ts';
import type { FieldPath } from './field-path.ts';

/** Longer keys are kept as their digest, which bounds the memory of whoever remembers them. */
const longestKey = 128;

/**
 * A number of at least 0 and below 1 that depends on the text and the salt alone: the same in every process, runtime
 * and release, for people's assignments hang on it. Well mixed, but no cryptography: somebody who chooses his own text
 * can choose his number.
 */
export function hashFraction(text: string, salt = 0): number {
  let low = 0xdeadbeef ^ salt;
  let high = 0x41c6ce57 ^ salt;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    low = Math.imul(low ^ unit, 0x9e3779b1);
    high = Math.imul(high ^ unit, 0x5f356495);
  }
  const mixedLow = mixed(low ^ Math.imul(high, 0x27d4eb2f));
  const mixedHigh = mixed(high ^ Math.imul(mixedLow, 0x165667b1));
  // 53 bits: as many as a number holds below 1.
  return ((mixedHigh >>> 11) * 4_294_967_296 + (mixedLow >>> 0)) / 9_007_199_254_740_992;
}

/** A salt for `hashFraction`, so that two places that hash the same text do not agree. */
export function saltOf(text: string): number {
  return Math.floor(hashFraction(text) * 4_294_967_296) | 0;
}

/** Every bit of the outcome hangs on every bit of the input (the finalizer of MurmurHash3). */
function mixed(bits: number): number {
  let hash = bits;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}

/**
 * A key that two requests share exactly when the values of these fields are equal, at most 128 characters long.
 * Undefined when the request has none of them.
 */
export function hashOfFields(
  paths: readonly FieldPath[],
  field: (path: FieldPath) => unknown,
): string | undefined {
  let key = '';
  let present = false;
  for (const path of paths) {
    const text = textOf(field(path));
    if (text === undefined) key += '-';
    else {
      present = true;
      // With its length before it, no value can pass for the end of another one.
      key += `${text.length}:${text}`;
    }
  }
  if (!present) return undefined;
  return key.length <= longestKey ? key : sha256(key, 'base64url');
}

/** Numbers and texts of the same digits are one (metadata knows texts alone). */
function textOf(value: unknown): string | undefined {
  if (typeof value === 'string' || value === undefined) return value;
  if (typeof value === 'bigint') return String(value);
  try {
    return JSON.stringify(value, integersAsText);
  } catch {
    // Nested deeper than the stack reaches: no field that anybody could have meant.
    return undefined;
  }
}

function integersAsText(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}
