import {
  allowedValues,
  resolveReference,
  schemaList,
  schemaTypes,
  unionBranches,
  type SchemaObject,
} from './schema-object.ts';
import { listWords } from '../base/did-you-mean.ts';

/**
 * Annotation with which a schema says in words what it expects, where its keywords would not read well:
 * `Type.String({ pattern: '…', 'x-expected': 'a host name' })`.
 */
export const expectedKeyword = 'x-expected';

const formats: Readonly<Record<string, string>> = {
  'date-time': 'a date and time such as 2026-01-31T12:00:00Z',
  date: 'a date such as 2026-01-31',
  uri: 'a complete URL',
  email: 'an e-mail address',
  uuid: 'a UUID',
  ipv4: 'an IPv4 address',
  ipv6: 'an IPv6 address',
  regex: 'a regular expression',
};

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined;
}

function describeNumber(schema: SchemaObject, noun: string): string {
  const minimum = numberOf(schema.minimum);
  const maximum = numberOf(schema.maximum);
  const above = numberOf(schema.exclusiveMinimum);
  const below = numberOf(schema.exclusiveMaximum);
  const step = numberOf(schema.multipleOf);
  const conditions = [
    ...(minimum !== undefined && maximum !== undefined
      ? [`from ${minimum} to ${maximum}`]
      : minimum !== undefined
        ? [`of at least ${minimum}`]
        : maximum !== undefined
          ? [`of at most ${maximum}`]
          : []),
    ...(above === undefined ? [] : [`above ${above}`]),
    ...(below === undefined ? [] : [`below ${below}`]),
    ...(step === undefined ? [] : [`that is a multiple of ${step}`]),
  ];
  return [noun, ...conditions].join(' ');
}

/** `1 to 64 items`, `at least 1 character`, or an empty text when nothing is bounded. */
function describeCount(least: unknown, most: unknown, noun: string): string {
  const minimum = numberOf(least) ?? 0;
  const maximum = numberOf(most);
  const plural = (count: number): string => `${count} ${noun}${count === 1 ? '' : 's'}`;
  if (maximum !== undefined && minimum === maximum) return `exactly ${plural(minimum)}`;
  if (maximum !== undefined)
    return minimum > 0 ? `${minimum} to ${plural(maximum)}` : `at most ${plural(maximum)}`;
  return minimum > 0 ? `at least ${plural(minimum)}` : '';
}

function describeText(schema: SchemaObject): string {
  const { pattern, format } = schema;
  const named = typeof format === 'string' ? (formats[format] ?? `text in the format "${format}"`) : 'text';
  const onlyNotEmpty = schema.minLength === 1 && schema.maxLength === undefined;
  const length = onlyNotEmpty
    ? 'that is not empty'
    : describeCount(schema.minLength, schema.maxLength, 'character').replace(/^(?=.)/, 'of ');
  const form = typeof pattern === 'string' ? `that matches ${pattern}` : '';
  return [named, onlyNotEmpty && form !== '' ? '' : length, form].filter((part) => part !== '').join(' ');
}

function describeType(schema: SchemaObject, type: string): string {
  if (type === 'string') return describeText(schema);
  if (type === 'integer') return describeNumber(schema, 'a whole number');
  if (type === 'number') return describeNumber(schema, 'a number');
  if (type === 'boolean') return 'true or false';
  if (type === 'null') return 'nothing';
  const list = type === 'array';
  const count = list
    ? describeCount(schema.minItems, schema.maxItems, 'item')
    : describeCount(schema.minProperties, schema.maxProperties, 'key');
  const noun = list ? 'a list' : 'an object';
  return count === '' ? noun : `${noun} ${list ? 'of' : 'with'} ${count}`;
}

function forms(schema: SchemaObject, root: SchemaObject, depth: number): string[] {
  const resolved = resolveReference(schema, root);
  const expected = resolved[expectedKeyword];
  if (typeof expected === 'string') return [expected];
  const allowed = allowedValues(resolved);
  if (allowed !== undefined) return allowed.map((value) => JSON.stringify(value));
  const branches = unionBranches(resolved);
  if (branches.length > 0 && depth < 8) return branches.flatMap((branch) => forms(branch, root, depth + 1));
  const types = schemaTypes(resolved);
  if (types.length > 0) return types.map((type) => describeType(resolved, type));
  const [first] = schemaList(resolved, 'allOf');
  return first !== undefined && depth < 8 ? forms(first, root, depth + 1) : ['another value'];
}

/** What a schema expects, in words: `a whole number from 0 to 65535`, `"open", "loopback" or "key"`. */
export function describeSchema(schema: SchemaObject, root: SchemaObject): string {
  return listWords([...new Set(forms(schema, root, 0))], 'or');
}
