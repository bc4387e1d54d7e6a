import { didYouMean, listWords, quoted } from '../base/did-you-mean.ts';
import { isJsonObject } from '../base/json.ts';

/** Options of an object without unknown keys. */
export const strict = { additionalProperties: false };

/** A section that may be absent: the defaults of its keys fill it. */
export const section = { ...strict, default: {} };

/** A JSON Schema whose keywords are read one by one. */
export type SchemaObject = Readonly<Record<string, unknown>>;

/** A schema as an object; `true` and invalid schemas allow everything, `false` nothing. */
export function schemaObject(schema: unknown): SchemaObject {
  if (isJsonObject(schema)) return schema;
  return schema === false ? { not: {} } : {};
}

/** Value of a keyword with a list of schemas (`anyOf`, `allOf`, …); empty when absent. */
function schemaList(schema: SchemaObject, keyword: string): SchemaObject[] {
  const list = schema[keyword];
  return Array.isArray(list) ? list.map(schemaObject) : [];
}

/** Value of a keyword with schemas by name (`properties`, `$defs`, …); empty when absent. */
export function schemaMap(schema: SchemaObject, keyword: string): Map<string, SchemaObject> {
  const members = schema[keyword];
  if (!isJsonObject(members)) return new Map();
  return new Map(Object.entries(members).map(([name, member]) => [name, schemaObject(member)]));
}

/** Branches of a union: `anyOf` or `oneOf`; empty for other schemas. */
export function unionBranches(schema: SchemaObject): SchemaObject[] {
  const anyOf = schemaList(schema, 'anyOf');
  return anyOf.length > 0 ? anyOf : schemaList(schema, 'oneOf');
}

/** JSON types of a schema; empty without any. */
export function schemaTypes(schema: SchemaObject): string[] {
  const { type } = schema;
  const types: unknown[] = Array.isArray(type) ? type : [type];
  return types.filter((name) => typeof name === 'string');
}

/** Values that `const` or `enum` allow, or undefined without either. */
export function allowedValues(schema: SchemaObject): readonly unknown[] | undefined {
  if ('const' in schema) return [schema.const];
  return Array.isArray(schema.enum) ? schema.enum : undefined;
}

/** Names in `required`. */
export function requiredKeys(schema: SchemaObject): string[] {
  const { required } = schema;
  return Array.isArray(required) ? required.filter((name) => typeof name === 'string') : [];
}

const definitionsOfRoot = new WeakMap<SchemaObject, ReadonlyMap<string, SchemaObject>>();

/** All definitions (`$defs`) of a schema by name, at any depth: typebox nests them. */
export function definitionsWithin(root: SchemaObject): ReadonlyMap<string, SchemaObject> {
  const present = definitionsOfRoot.get(root);
  if (present !== undefined) return present;
  const found = new Map<string, SchemaObject>();
  const seen = new Set<object>();
  const pending: unknown[] = [root];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    if (typeof next !== 'object' || next === null || seen.has(next)) continue;
    seen.add(next);
    if (isJsonObject(next))
      for (const [name, schema] of schemaMap(next, '$defs')) {
        found.set(name, schema);
        if (typeof schema.$id === 'string') found.set(schema.$id, schema);
      }
    const members: unknown[] = Object.values(next);
    for (const member of members) pending.push(member);
  }
  definitionsOfRoot.set(root, found);
  return found;
}

/**
 * Follows `$ref` within the same document: `#`, `#/$defs/Name`, or the `$id` of a definition. Any other reference stays
 * unchanged.
 */
export function resolveReference(schema: SchemaObject, root: SchemaObject): SchemaObject {
  let current = schema;
  // Bounded, because references may form a cycle.
  for (let hops = 0; hops < 16 && typeof current.$ref === 'string'; hops++) {
    if (current.$ref === '#') return root;
    const target = definitionsWithin(root).get(current.$ref.replace('#/$defs/', ''));
    if (target === undefined) return current;
    current = target;
  }
  return current;
}

const longestQuoted = 40;

function shortText(text: string): string {
  if (text === '') return 'an empty text';
  return text.length <= longestQuoted ? quoted(text) : `a text of ${text.length} characters`;
}

function describeKeys(keys: readonly string[]): string {
  if (keys.length === 0) return 'an empty object';
  const names = listWords(
    keys.map((key) => shortText(key)),
    'and',
    5,
  );
  return keys.length === 1 ? `an object with the key ${names}` : `an object with the keys ${names}`;
}

/** A value in words, bounded in length: `"abc"`, `an empty list`, `nothing`. */
export function describeValue(value: unknown): string {
  if (value === null || value === undefined) return 'nothing';
  if (typeof value === 'string') return shortText(value);
  if (Array.isArray(value))
    return value.length === 0
      ? 'an empty list'
      : `a list of ${value.length} item${value.length === 1 ? '' : 's'}`;
  if (isJsonObject(value)) return describeKeys(Object.keys(value));
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : `a ${typeof value}`;
}

/**
 * Annotation with which a schema describes the expected value, where its keywords would not read well: `Type.String({
 * pattern: '…', 'x-expected': 'a host name' })`.
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

/** `1 to 64 items`, `at least 1 character`, or an empty text without bounds. */
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

/** The expected value in words: `a whole number from 0 to 65535`, `"open", "loopback" or "key"`. */
export function describeSchema(schema: SchemaObject, root: SchemaObject): string {
  return listWords([...new Set(forms(schema, root, 0))], 'or');
}

/**
 * Number or boolean that a text spells, for values from variables; undefined when it spells none. Integers must be
 * exact, booleans are `true` and `false`.
 */
export function coerceText(text: string, type: string): number | boolean | undefined {
  const trimmed = text.trim();
  if (type === 'boolean') return trimmed === 'true' ? true : trimmed === 'false' ? false : undefined;
  const pattern = type === 'integer' ? /^[+-]?\d{1,16}$/ : /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
  if ((type !== 'integer' && type !== 'number') || !pattern.test(trimmed)) return undefined;
  const number = Number(trimmed);
  const usable = type === 'integer' ? Number.isSafeInteger(number) : Number.isFinite(number);
  return usable ? number : undefined;
}

/**
 * Spellings of existing clients and their documentation for a key that has another name here, in snake_case. The one
 * table of aliases, for the gateway's own keys and for plugin options.
 */
const variants: ReadonlyMap<string, string> = new Map([
  ['strict_openai_compliance', 'strict_open_ai_compliance'],
  ['use_retry_after_header', 'use_retry_after_headers'],
]);

const plainStyle = /^[a-z][A-Za-z0-9_]*$/;

/**
 * Normal form of a key's spellings: `maxSizeBytes`, `max_size_bytes` and known variants give the same text. A key in
 * another style (`X-Header`, `a.b`) stays unchanged.
 */
export function spellingOf(key: string): string {
  if (!plainStyle.test(key)) return key;
  const snake = key
    .replace(/([A-Z]+)([A-Z][a-z])/g, '$1_$2')
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase();
  return variants.get(snake) ?? snake;
}

/** Cached spellings of schema keys. */
const spellingsOfKnown = new Map<string, string>();

const maxRemembered = 10_000;

function spellingOfKnown(key: string): string {
  const present = spellingsOfKnown.get(key);
  if (present !== undefined) return present;
  const spelling = spellingOf(key);
  if (spellingsOfKnown.size < maxRemembered) spellingsOfKnown.set(key, spelling);
  return spelling;
}

/** The matching key of `known`: the same, or the one with the same spelling in another style. */
export function knownKey(written: string, known: ReadonlySet<string>): string | undefined {
  if (known.has(written)) return written;
  const spelling = spellingOf(written);
  for (const key of known) if (spellingOfKnown(key) === spelling) return key;
  return undefined;
}

/** Context for choosing a branch of a union, apart from the value. */
interface BranchContext {
  /** The whole schema, in which references resolve. */
  readonly root: SchemaObject;
  /** True for a text from a variable, which may stand for a number or boolean. */
  readonly coercible: boolean;
}

const maxDepth = 16;

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

/** True when the value has a type that the schema names, whatever its other keywords. */
function typeFits(schema: SchemaObject, value: unknown): boolean {
  const types = schemaTypes(schema).map((type) => (type === 'integer' ? 'number' : type));
  const allowed = allowedValues(schema);
  const accepted = types.length > 0 ? types : allowed?.map(typeOf);
  return accepted === undefined || accepted.includes(typeOf(value));
}

function coercions(schema: SchemaObject, text: string): (number | boolean)[] {
  return schemaTypes(schema).flatMap((type) => {
    const value = coerceText(text, type);
    return value === undefined ? [] : [value];
  });
}

function scoreObject(schema: SchemaObject, value: Readonly<Record<string, unknown>>): number {
  const properties = schemaMap(schema, 'properties');
  const known = new Set(properties.keys());
  const present = new Set<string>();
  let score = 1;
  for (const [key, member] of Object.entries(value)) {
    const spelled = knownKey(key, known);
    const name = spelled ?? didYouMean(key, known);
    if (name === undefined) {
      if (known.size > 0) score -= 1;
      continue;
    }
    present.add(name);
    // A misspelled key points to the branch, but less than a correct one.
    score += spelled === undefined ? 0.5 : 1;
    const allowed = allowedValues(properties.get(name) ?? {});
    if (allowed !== undefined) score += allowed.includes(member) ? 10 : -10;
  }
  return score - 2 * requiredKeys(schema).filter((key) => !present.has(key)).length;
}

/** Score of a value: higher fits better, -Infinity for another type. */
function score(branch: SchemaObject, value: unknown, context: BranchContext, depth = 0): number {
  if (depth > maxDepth) return Number.NEGATIVE_INFINITY;
  const schema = resolveReference(branch, context.root);
  const inner = unionBranches(schema).map((each) => score(each, value, context, depth + 1));
  const parts = schemaList(schema, 'allOf').map((each) => score(each, value, context, depth + 1));
  const extra = Math.min(0, ...parts) + (inner.length > 0 ? Math.max(...inner) : 0);
  const allowed = allowedValues(schema);
  if (typeFits(schema, value)) {
    if (allowed !== undefined) return (allowed.includes(value) ? 10 : 0) + extra;
    return (isJsonObject(value) ? scoreObject(schema, value) : 1) + extra;
  }
  if (context.coercible && typeof value === 'string') {
    const spelled = coercions(schema, value);
    if (spelled.length > 0)
      return allowed === undefined || spelled.some((each) => allowed.includes(each)) ? 0.5 : 0;
  }
  return Number.NEGATIVE_INFINITY;
}

/** Most probable branch of a union, or undefined when no branch has the type of the value. */
export function chooseBranch(
  branches: readonly SchemaObject[],
  value: unknown,
  context: BranchContext,
): SchemaObject | undefined {
  let best: SchemaObject | undefined;
  let bestScore = Number.NEGATIVE_INFINITY;
  for (const branch of branches) {
    const points = score(branch, value, context);
    if (points > bestScore) {
      best = branch;
      bestScore = points;
    }
  }
  return best;
}

/**
 * Plain schemas that apply together to a value: the schema itself, its references, all parts of an intersection, and
 * the most probable branch of each union.
 */
export function facetsOf(schema: SchemaObject, value: unknown, context: BranchContext): SchemaObject[] {
  const facets: SchemaObject[] = [];
  const visit = (each: SchemaObject, depth: number): void => {
    if (depth > maxDepth) return;
    const resolved = resolveReference(each, context.root);
    facets.push(resolved);
    for (const part of schemaList(resolved, 'allOf')) visit(part, depth + 1);
    const branches = unionBranches(resolved);
    const branch = branches.length > 0 ? chooseBranch(branches, value, context) : undefined;
    if (branch !== undefined) visit(branch, depth + 1);
  };
  visit(schema, 0);
  return facets;
}
