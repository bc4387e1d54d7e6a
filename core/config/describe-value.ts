import { coerceText } from './coerce-text.ts';
import { isObject, schemaTypes, type SchemaObject } from './schema-object.ts';
import { listWords, quoted } from '../base/did-you-mean.ts';

const longestQuoted = 40;

function describeText(text: string): string {
  if (text === '') return 'an empty text';
  return text.length <= longestQuoted ? quoted(text) : `a text of ${text.length} characters`;
}

function describeKeys(keys: readonly string[]): string {
  if (keys.length === 0) return 'an empty object';
  const names = listWords(
    keys.map((key) => describeText(key)),
    'and',
    5,
  );
  return keys.length === 1 ? `an object with the key ${names}` : `an object with the keys ${names}`;
}

/** What a value is, in words, bounded in length: `"abc"`, `an empty list`, `nothing`. */
export function describeValue(value: unknown): string {
  if (value === null || value === undefined) return 'nothing';
  if (typeof value === 'string') return describeText(value);
  if (Array.isArray(value))
    return value.length === 0
      ? 'an empty list'
      : `a list of ${value.length} item${value.length === 1 ? '' : 's'}`;
  if (isObject(value)) return describeKeys(Object.keys(value));
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : `a ${typeof value}`;
}

/** What to do about a value of the wrong type, when that is plain; else an empty text. */
export function typeRemedy(schema: SchemaObject, value: unknown): string {
  const types = schemaTypes(schema);
  if (value === null) return '; give it a value or remove the key';
  if (typeof value === 'string') {
    const spelled = types.find((type) => coerceText(value, type) !== undefined);
    return spelled === undefined ? '' : '; remove the quotes';
  }
  const scalar = typeof value === 'number' || typeof value === 'boolean';
  return scalar && types.includes('string') ? '; put it in quotes' : '';
}
