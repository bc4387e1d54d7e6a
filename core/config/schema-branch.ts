import { coerceText } from './describe-schema.ts';
import { didYouMean } from '../base/did-you-mean.ts';
import {
  allowedValues,
  isObject,
  requiredKeys,
  resolveReference,
  schemaList,
  schemaMap,
  type SchemaObject,
  schemaTypes,
  unionBranches,
} from './schema-object.ts';

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
    return (isObject(value) ? scoreObject(schema, value) : 1) + extra;
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
