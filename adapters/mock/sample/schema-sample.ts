import { type JsonObject } from '../request.ts';
import { isJsonObject } from '../../../core/base/json.ts';

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
    if (!isJsonObject(schema)) return 'mock';
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
    const properties = isJsonObject(schema['properties']) ? schema['properties'] : {};
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
      else if (isJsonObject(found) && Object.hasOwn(found, name)) found = found[name];
      else return {};
    }
    return found;
  }
}

/** The first alternative, or at depth one that ends: preferably `null`, then one without a reference. */
function alternative(alternatives: readonly unknown[], depth: number): unknown {
  if (depth < endingDepth) return alternatives[0];
  const objects = alternatives.filter(isJsonObject);
  return (
    objects.find((schema) => schema['type'] === 'null') ??
    objects.find((schema) => schema['$ref'] === undefined) ??
    alternatives[0]
  );
}

/** Merges both schemas; the second wins in conflicts. */
function merged(first: JsonObject, second: unknown): JsonObject {
  if (!isJsonObject(second)) return first;
  const kept = Object.fromEntries(Object.entries(first).filter(([, value]) => value !== undefined));
  const both: Record<string, unknown> = { ...kept, ...second };
  if (isJsonObject(kept['properties']) && isJsonObject(second['properties'])) {
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

const maxPatternLength = 400;
const maxPatternDepth = 20;

interface CodeRange {
  readonly from: number;
  readonly to: number;
}

const digits: readonly CodeRange[] = [{ from: 48, to: 57 }];
const wordCharacters: readonly CodeRange[] = [
  { from: 97, to: 122 },
  { from: 65, to: 90 },
  ...digits,
  { from: 95, to: 95 },
];
const spaces: readonly CodeRange[] = [
  { from: 32, to: 32 },
  { from: 9, to: 13 },
];
const escapedClasses: Readonly<Record<string, readonly CodeRange[]>> = {
  d: digits,
  w: wordCharacters,
  s: spaces,
};
/** A character outside the class, for a lone `\\D`, `\\W` or `\\S`. */
const escapedComplements: Readonly<Record<string, string>> = { D: 'a', W: '-', S: 'a' };
const controlEscapes: Readonly<Record<string, string>> = {
  n: '\n',
  r: '\r',
  t: '\t',
  f: '\f',
  v: '\v',
  '0': '\0',
};

/** The pattern uses unsupported syntax (look-around, back references, `\p{…}`). */
class UnknownSyntax extends Error {}

/**
 * A short text that matches a regular expression, built from the pattern itself: the expression is never run, so a
 * hostile one costs nothing. `repeats` is the number of repetitions of an open-ended part (`+`, `*`, `{2,}`). Undefined
 * for a pattern with look-around, back references or other unsupported syntax.
 */
export function samplePattern(pattern: string, repeats: number): string | undefined {
  try {
    return new PatternReader(pattern, repeats).read();
  } catch (error) {
    if (error instanceof UnknownSyntax) return undefined;
    throw error;
  }
}

class PatternReader {
  readonly #pattern: string;
  readonly #repeats: number;
  #at = 0;
  #depth = 0;

  constructor(pattern: string, repeats: number) {
    this.#pattern = pattern;
    this.#repeats = repeats;
  }

  read(): string {
    const text = this.#alternatives();
    if (this.#at < this.#pattern.length) throw new UnknownSyntax();
    return text;
  }

  /** The first alternative; the others are skipped. */
  #alternatives(): string {
    const first = this.#sequence();
    while (this.#peek() === '|') {
      this.#at += 1;
      this.#sequence();
    }
    return first;
  }

  #sequence(): string {
    let text = '';
    for (let next = this.#peek(); next !== '' && next !== '|' && next !== ')'; next = this.#peek()) {
      if (next === '^' || next === '$') {
        this.#at += 1;
        continue;
      }
      const atom = this.#atom();
      const count = this.#quantifier();
      if (atom.length * count + text.length > maxPatternLength) throw new UnknownSyntax();
      text += atom.repeat(count);
    }
    return text;
  }

  #atom(): string {
    const character = this.#take();
    if (character === '(') return this.#group();
    if (character === '[') return this.#characterClass();
    if (character === '.') return 'a';
    if (character === '\\') return this.#escape();
    if ('*+?{'.includes(character)) throw new UnknownSyntax();
    return character;
  }

  #group(): string {
    if (this.#peek() === '?') {
      if (this.#pattern[this.#at + 1] !== ':') throw new UnknownSyntax();
      this.#at += 2;
    }
    this.#depth += 1;
    if (this.#depth > maxPatternDepth) throw new UnknownSyntax();
    const text = this.#alternatives();
    if (this.#take() !== ')') throw new UnknownSyntax();
    this.#depth -= 1;
    return text;
  }

  #escape(): string {
    const letter = this.#peek();
    const first = escapedClasses[letter]?.[0];
    const outside = escapedComplements[letter];
    if (first === undefined && outside === undefined) return this.#escapedCharacter();
    this.#at += 1;
    return outside ?? String.fromCodePoint((first as CodeRange).from);
  }

  #escapedCharacter(): string {
    const letter = this.#take();
    const control = controlEscapes[letter];
    if (control !== undefined) return control;
    if (letter === 'x' || letter === 'u') {
      const hex = this.#pattern.slice(this.#at, this.#at + (letter === 'x' ? 2 : 4));
      if (!/^[0-9a-fA-F]+$/.test(hex)) throw new UnknownSyntax();
      this.#at += hex.length;
      return String.fromCharCode(parseInt(hex, 16));
    }
    if (/[a-zA-Z0-9]/.test(letter)) throw new UnknownSyntax();
    return letter;
  }

  #characterClass(): string {
    const negated = this.#peek() === '^';
    if (negated) this.#at += 1;
    const ranges: CodeRange[] = [];
    while (this.#peek() !== ']') ranges.push(...this.#classItem());
    this.#at += 1;
    if (!negated) {
      const first = ranges[0];
      if (first === undefined) throw new UnknownSyntax();
      return String.fromCodePoint(first.from);
    }
    for (let code = 32; code < 127; code++) {
      // Letters before punctuation: people read the sample.
      const candidate = 32 + ((code - 32 + 65) % 95);
      if (!ranges.some((range) => candidate >= range.from && candidate <= range.to)) {
        return String.fromCodePoint(candidate);
      }
    }
    throw new UnknownSyntax();
  }

  #classItem(): readonly CodeRange[] {
    const known = this.#peek() === '\\' ? escapedClasses[this.#pattern[this.#at + 1] ?? ''] : undefined;
    if (known !== undefined) {
      this.#at += 2;
      return known;
    }
    const from = this.#classCharacter();
    const next = this.#pattern[this.#at + 1];
    if (this.#peek() !== '-' || next === undefined || next === ']') return [{ from, to: from }];
    this.#at += 1;
    const to = this.#classCharacter();
    if (to < from) throw new UnknownSyntax();
    return [{ from, to }];
  }

  #classCharacter(): number {
    const character = this.#take();
    return (character === '\\' ? this.#escapedCharacter() : character).codePointAt(0) as number;
  }

  #quantifier(): number {
    const [least, most] = this.#bounds();
    if (this.#peek() === '?') this.#at += 1;
    if (least > maxPatternLength) throw new UnknownSyntax();
    return Math.max(least, Math.min(this.#repeats, most));
  }

  #bounds(): [least: number, most: number] {
    const sign = this.#peek();
    if (sign === '*' || sign === '+') {
      this.#at += 1;
      return [sign === '+' ? 1 : 0, Infinity];
    }
    if (sign === '?') {
      this.#at += 1;
      return [0, 0];
    }
    if (sign !== '{') return [1, 1];
    const end = this.#pattern.indexOf('}', this.#at);
    const found = end < 0 ? null : /^(\d{1,6})(,?)(\d{0,6})$/.exec(this.#pattern.slice(this.#at + 1, end));
    if (found === null) throw new UnknownSyntax();
    this.#at = end + 1;
    const least = Number(found[1]);
    if (found[2] === '') return [least, least];
    return [least, found[3] === '' ? Infinity : Number(found[3])];
  }

  #peek(): string {
    return this.#pattern[this.#at] ?? '';
  }

  #take(): string {
    const code = this.#pattern.codePointAt(this.#at);
    if (code === undefined) throw new UnknownSyntax();
    const character = String.fromCodePoint(code);
    this.#at += character.length;
    return character;
  }
}
