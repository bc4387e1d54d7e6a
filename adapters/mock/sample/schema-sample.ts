import { isObject, type JsonObject } from '../json-value.ts';
import { samplePattern } from './pattern-sample.ts';

const maxLength = 400;

const formats: Readonly<Record<string, string>> = {
  'date-time': '2025-01-01T00:00:00Z',
  date: '2025-01-01',
  time: '00:00:00Z',
  duration: 'P1D',
  email: 'mock@example.com',
  'idn-email': 'mock@example.com',
  hostname: 'example.com',
  'idn-hostname': 'example.com',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  uri: 'https://example.com/',
  'uri-reference': '/mock',
  iri: 'https://example.com/',
  uuid: '00000000-0000-4000-8000-000000000000',
  'json-pointer': '/mock',
  regex: 'mock',
};

/**
 * A text that satisfies `format`, or `pattern`, and the lengths of a string schema; `variant` distinguishes texts of
 * one list.
 */
function sampleText(schema: JsonObject, variant: number): string {
  const format = typeof schema['format'] === 'string' ? formats[schema['format']] : undefined;
  if (format !== undefined) return format;
  const least = bound(schema['minLength'], 0);
  const most = bound(schema['maxLength'], maxLength);
  if (typeof schema['pattern'] === 'string') {
    const matching = sampleOfLength(schema['pattern'], least);
    if (matching !== undefined) return matching;
  }
  const word = variant === 0 ? 'mock' : `mock${variant}`;
  // The end is kept: it holds the number that distinguishes variants.
  const padded = word.padStart(least, 'm');
  return padded.slice(Math.max(0, padded.length - most));
}

function sampleOfLength(pattern: string, least: number): string | undefined {
  for (let repeats = 0; repeats <= maxLength; repeats = repeats * 2 + 1) {
    const text = samplePattern(pattern, repeats);
    if (text === undefined || text.length >= least) return text;
  }
  return undefined;
}

function bound(value: unknown, fallback: number): number {
  return typeof value === 'number' && value >= 0 ? Math.min(value, maxLength) : fallback;
}

const maxValues = 1000;
const maxDepth = 32;
/** From this depth on, a choice takes an alternative that ends, so that recursive schemas terminate. */
const endingDepth = 6;

/**
 * The smallest value that satisfies a JSON Schema: required properties, fewest items, the number nearest to zero.
 * Bounded (1000 values, 32 levels); a schema that requires more, or contradicts itself, gets the nearest value.
 */
export function sampleOf(schema: unknown): unknown {
  return new Sampler(schema).value(schema, 0, 0);
}

class Sampler {
  readonly #root: unknown;
  #left = maxValues;

  constructor(root: unknown) {
    this.#root = root;
  }

  value(schema: unknown, depth: number, variant: number): unknown {
    this.#left -= 1;
    if (this.#left < 0 || depth > maxDepth) return null;
    if (!isObject(schema)) return 'mock';
    const flat = this.#flat(schema, depth);
    if (Object.hasOwn(flat, 'const')) return flat['const'];
    const { enum: values } = flat;
    if (Array.isArray(values) && values.length > 0) return values[Math.min(variant, values.length - 1)];
    switch (typeOf(flat)) {
      case 'object':
        return this.#object(flat, depth);
      case 'array':
        return this.#array(flat, depth);
      case 'integer':
        return sampleNumber(flat, true, variant);
      case 'number':
        return sampleNumber(flat, false, variant);
      case 'boolean':
        return variant % 2 === 1;
      case 'null':
        return null;
      default:
        return sampleText(flat, variant);
    }
  }

  #object(schema: JsonObject, depth: number): JsonObject {
    const properties = isObject(schema['properties']) ? schema['properties'] : {};
    const names = new Set<string>();
    for (const name of listOf(schema['required'])) if (typeof name === 'string') names.add(name);
    const least = typeof schema['minProperties'] === 'number' ? schema['minProperties'] : 0;
    for (const name of Object.keys(properties)) if (names.size < least) names.add(name);
    for (let i = 0; names.size < least && i < maxValues; i++) names.add(`mock${i}`);
    const entries: [string, unknown][] = [];
    for (const name of names) {
      if (this.#left <= 0) break;
      const described = Object.hasOwn(properties, name) ? properties[name] : schema['additionalProperties'];
      entries.push([name, this.value(described, depth + 1, 0)]);
    }
    return Object.fromEntries(entries);
  }

  #array(schema: JsonObject, depth: number): unknown[] {
    const first = listOf(schema['prefixItems']);
    const least = typeof schema['minItems'] === 'number' ? schema['minItems'] : 0;
    const items: unknown[] = [];
    for (let i = 0; i < least && this.#left > 0; i++) {
      const described = i < first.length ? first[i] : schema['items'];
      items.push(this.value(described, depth + 1, schema['uniqueItems'] === true ? i : 0));
    }
    return items;
  }

  /** The schema with its reference, its `allOf` and one of its alternatives merged in. */
  #flat(schema: JsonObject, depth: number): JsonObject {
    let flat = schema;
    for (let round = 0; round < maxDepth; round++) {
      const { $ref, allOf, anyOf, oneOf, ...rest } = flat;
      if (typeof $ref === 'string') flat = merged({ ...rest, allOf, anyOf, oneOf }, this.#resolve($ref));
      else if (Array.isArray(allOf)) flat = allOf.reduce(merged, { ...rest, anyOf, oneOf });
      else if (Array.isArray(anyOf)) flat = merged({ ...rest, oneOf }, alternative(anyOf, depth));
      else if (Array.isArray(oneOf)) flat = merged(rest, alternative(oneOf, depth));
      else return rest;
    }
    return {};
  }

  #resolve(reference: string): unknown {
    if (!reference.startsWith('#')) return {};
    let found = this.#root;
    for (const part of reference.slice(1).split('/').slice(1)) {
      const name = part.replace(/~1/g, '/').replace(/~0/g, '~');
      if (Array.isArray(found)) found = found[Number(name)];
      else if (isObject(found) && Object.hasOwn(found, name)) found = found[name];
      else return {};
    }
    return found;
  }
}

/** The first alternative, or at depth one that ends: preferably `null`, then one without a reference. */
function alternative(alternatives: readonly unknown[], depth: number): unknown {
  if (depth < endingDepth) return alternatives[0];
  const objects = alternatives.filter(isObject);
  return (
    objects.find((schema) => schema['type'] === 'null') ??
    objects.find((schema) => schema['$ref'] === undefined) ??
    alternatives[0]
  );
}

/** Merges both schemas; the second wins in conflicts. */
function merged(first: JsonObject, second: unknown): JsonObject {
  if (!isObject(second)) return first;
  const kept = Object.fromEntries(Object.entries(first).filter(([, value]) => value !== undefined));
  const both: Record<string, unknown> = { ...kept, ...second };
  if (isObject(kept['properties']) && isObject(second['properties'])) {
    both['properties'] = { ...kept['properties'], ...second['properties'] };
  }
  if (Array.isArray(kept['required']) && Array.isArray(second['required'])) {
    both['required'] = [...(kept['required'] as unknown[]), ...(second['required'] as unknown[])];
  }
  return both;
}

function typeOf(schema: JsonObject): string {
  const { type } = schema;
  if (typeof type === 'string') return type;
  if (Array.isArray(type)) {
    const named = type.find((value: unknown) => value !== 'null') as unknown;
    return typeof named === 'string' ? named : 'null';
  }
  const has = (...names: string[]) => names.some((name) => schema[name] !== undefined);
  if (has('properties', 'required', 'minProperties', 'additionalProperties')) return 'object';
  if (has('items', 'prefixItems', 'minItems')) return 'array';
  if (has('minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf')) return 'number';
  return 'string';
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The number nearest to zero within the schema's bounds; `variant` counts on from there. */
function sampleNumber(schema: JsonObject, whole: boolean, variant: number): number {
  const step = positive(schema['multipleOf']) ?? (whole ? 1 : undefined);
  const { least, most } = bounds(schema, step ?? 0.001);
  if (step === undefined) return Math.min(Math.max(variant, least), most);
  const near = Math.max(least, Math.min(0, most));
  const lowest = near < 0 ? Math.floor(near / step) : Math.ceil(near / step);
  const count = near < 0 ? lowest - variant : lowest + variant;
  return rounded(count * step);
}

function bounds(schema: JsonObject, gap: number): { least: number; most: number } {
  let least = number(schema['minimum']) ?? -Infinity;
  let most = number(schema['maximum']) ?? Infinity;
  const above = number(schema['exclusiveMinimum']);
  const below = number(schema['exclusiveMaximum']);
  // When the bounds are closer than the gap, their middle is used.
  if (above !== undefined) least = Math.max(least, Math.min(above + gap, middle(above, below ?? most)));
  if (below !== undefined) most = Math.min(most, Math.max(below - gap, middle(above ?? least, below)));
  return { least, most };
}

function middle(low: number, high: number): number {
  if (high === Infinity) return Infinity;
  return low === -Infinity ? -Infinity : (low + high) / 2;
}

/** Removes the error of binary fractions (3 × 0.1). */
function rounded(value: number): number {
  return Math.abs(value) < 1e12 ? Number(value.toFixed(9)) : value;
}

function number(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined;
}

function positive(value: unknown): number | undefined {
  return typeof value === 'number' && value > 0 ? value : undefined;
}
