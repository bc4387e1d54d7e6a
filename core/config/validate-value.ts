import type { TSchema } from 'typebox';
import { compileSchema } from './ajv.ts';
import type { Origin } from './config-node.ts';
import { type Hide, type Issue, unknownKeyIssue } from './issue.ts';
import { childPointer, isJsonObject, parentPointer } from '../base/json.ts';
import {
  coerceText,
  definitionsWithin,
  facetsOf,
  knownKey,
  requiredKeys,
  schemaMap,
  schemaObject,
  type SchemaObject,
  schemaTypes,
} from './describe-schema.ts';
import { quoted } from '../base/did-you-mean.ts';

/** A value normalised to its schema. */
interface Prepared {
  /** Copy with known keys in canonical spelling, without unknown ones, with defaults. */
  readonly value: unknown;
  readonly issues: readonly Issue[];
}

/**
 * Normalises a written value to its schema before validation: keys in either spelling, texts that came whole from a
 * variable as numbers and booleans where the schema asks for them, defaults. Objects are strict even if their schema
 * omits it; one without declared members stays open, except at the top, where it means that there are no options. Stops
 * after `most` issues (default: no bound).
 */
function prepareValue(
  schema: SchemaObject,
  value: unknown,
  origin: (path: string) => Origin | undefined,
  most = Number.POSITIVE_INFINITY,
): Prepared {
  const preparation = new Preparation(schema, origin, most);
  return { value: preparation.walk(schema, value, ''), issues: preparation.issues };
}

/** Keys that the plain schemas of one object declare. */
interface Members {
  readonly known: ReadonlyMap<string, SchemaObject>;
  readonly names: ReadonlySet<string>;
  /** Known keys with a default. */
  readonly defaults: readonly (readonly [name: string, schema: SchemaObject])[];
  readonly patterns: readonly { readonly expression: RegExp; readonly schema: SchemaObject }[];
  /** Schema of all other keys; undefined when they are forbidden. */
  readonly others: SchemaObject | undefined;
}

class Preparation {
  readonly issues: Issue[] = [];
  readonly #root: SchemaObject;
  readonly #origin: (path: string) => Origin | undefined;
  readonly #most: number;

  constructor(root: SchemaObject, origin: (path: string) => Origin | undefined, most: number) {
    this.#root = root;
    this.#origin = origin;
    this.#most = most;
  }

  walk(schema: SchemaObject, value: unknown, path: string): unknown {
    const coercible = typeof value === 'string' && this.#origin(path)?.whole === true;
    const facets = facetsOf(schema, value, { root: this.#root, coercible });
    if (typeof value === 'string') return coercible ? coerce(value, facets) : value;
    if (Array.isArray(value))
      return value.map((item: unknown, index) =>
        this.walk(itemSchema(facets, index), item, childPointer(path, index)),
      );
    return isJsonObject(value) ? this.#object(facets, value, path) : value;
  }

  #object(
    facets: readonly SchemaObject[],
    value: Readonly<Record<string, unknown>>,
    path: string,
  ): Record<string, unknown> {
    const members = membersOf(facets, path === '');
    const known = members.names;
    const present = new Set(Object.keys(value).flatMap((key) => knownKey(key, known) ?? []));
    const result = new Map<string, unknown>();
    const written = new Map<string, string>();
    for (const [key, child] of Object.entries(value)) {
      const name = knownKey(key, known) ?? key;
      const schema = members.known.get(name) ?? matching(members, key) ?? members.others;
      const first = written.get(name);
      if (schema === undefined) {
        // Searching for the probable key is the expensive part.
        if (this.issues.length >= this.#most) continue;
        const issue =
          known.size === 0 && members.patterns.length > 0
            ? badNameIssue(childPointer(path, key), key, members)
            : unknownKeyIssue(childPointer(path, key), key, { known, present });
        this.issues.push(issue);
        // Treated as the probable key, it still identifies the form of the object.
        const meant = issue.suggestion;
        const meantSchema = meant === undefined ? undefined : members.known.get(meant);
        if (meant !== undefined && meantSchema !== undefined && !result.has(meant))
          result.set(meant, this.walk(meantSchema, child, childPointer(path, meant)));
      } else if (first !== undefined)
        this.issues.push({
          path: childPointer(path, key),
          message: `${quoted(first)} and ${quoted(key)} are two spellings of the same key; keep one`,
          part: 'key',
          keyword: 'spelling',
        });
      else {
        written.set(name, key);
        result.set(name, this.walk(schema, child, childPointer(path, name)));
      }
    }
    for (const [name, schema] of members.defaults)
      if (!result.has(name))
        result.set(name, this.walk(schema, structuredClone(schema.default), childPointer(path, name)));
    return Object.fromEntries(result);
  }
}

function coerce(text: string, facets: readonly SchemaObject[]): string | number | boolean {
  const types = facets.flatMap(schemaTypes);
  if (types.includes('string')) return text;
  for (const type of types) {
    const value = coerceText(text, type);
    if (value !== undefined) return value;
  }
  return text;
}

function itemSchema(facets: readonly SchemaObject[], index: number): SchemaObject {
  for (const { prefixItems, items } of facets) {
    const own: unknown = Array.isArray(prefixItems) ? prefixItems[index] : undefined;
    if (own !== undefined) return schemaObject(own);
    if (isJsonObject(items)) return items;
  }
  return {};
}

/** Cache for single plain schemas below the top; schemas are immutable. */
const membersOfSchema = new WeakMap<SchemaObject, Members>();

function membersOf(facets: readonly SchemaObject[], top: boolean): Members {
  const [only] = facets;
  if (top || only === undefined || facets.length > 1) return gatherMembers(facets, top);
  let members = membersOfSchema.get(only);
  if (members === undefined) membersOfSchema.set(only, (members = gatherMembers(facets, top)));
  return members;
}

function gatherMembers(facets: readonly SchemaObject[], top: boolean): Members {
  const known = new Map<string, SchemaObject>();
  const patterns: Members['patterns'][number][] = [];
  let others: SchemaObject | undefined;
  let closed = false;
  for (const facet of facets) {
    for (const [name, schema] of schemaMap(facet, 'properties')) {
      const before = known.get(name);
      known.set(
        name,
        before === undefined
          ? schema
          : { allOf: [before, schema], default: before.default ?? schema.default },
      );
    }
    for (const [source, schema] of schemaMap(facet, 'patternProperties'))
      patterns.push({ expression: new RegExp(source, 'u'), schema });
    const rest = facet.additionalProperties ?? facet.unevaluatedProperties;
    if (rest === false) closed = true;
    else if (rest !== undefined) others = schemaObject(rest);
  }
  const declaresNothing = known.size === 0 && patterns.length === 0;
  const namesType = facets.some((facet) => facet.type === 'object');
  const open = !closed && others === undefined && declaresNothing && !(top && namesType);
  return {
    known,
    names: new Set(known.keys()),
    defaults: [...known].filter(([, schema]) => schema.default !== undefined),
    patterns,
    others: open ? {} : others,
  };
}

function matching({ patterns }: Members, key: string): SchemaObject | undefined {
  return patterns.find(({ expression }) => expression.test(key))?.schema;
}

function badNameIssue(path: string, key: string, { patterns }: Members): Issue {
  const allowed = patterns.map(({ expression }) => expression.source).join(' or ');
  const message = `${quoted(key)} cannot be a name here; names must match ${allowed}`;
  return { path, message, part: 'key', keyword: 'patternProperties' };
}

/** A normalised value, with its issues by their place within the value. */
interface ValidatedValue {
  /** With defaults and canonical key spelling. Valid only without issues. */
  readonly value: unknown;
  readonly issues: readonly Issue[];
}

/** Options of validation. */
interface ValidateOptions {
  /** Placeholders of the text at a place. Default: every text is literal. */
  readonly origin?: (path: string) => Origin | undefined;
  /** Values that messages must not quote. Default: those under a key like `api_key`. */
  readonly hide?: Hide;
  /**
   * Bound of issues, of keys and of values each. Set it for untrusted input, to 1 when that is large: the cost of
   * several grows with the square of their number. Default: all.
   */
  readonly most?: number;
  /**
   * Compile only the schemas of the keys that are written at the top of the value: to compile that of the whole
   * configuration takes ajv a fifth of the CPU of a start. Defaults are then taken for valid, and a mistake in another
   * member's schema is not found. Default false.
   */
  readonly isSlim?: boolean;
}

const noOrigin = (): undefined => undefined;

/**
 * Normalises a value to its schema and validates it; reports every issue at once. Throws an `Error` when the schema
 * itself is wrong.
 */
export function validateValue(
  schema: TSchema,
  value: unknown,
  { origin = noOrigin, hide, most, isSlim = false }: ValidateOptions = {},
): ValidatedValue {
  const prepared = prepareValue(schemaObject(schema), value, origin, most);
  const check = compileSchema(
    isSlim ? slimSchema(schema, value) : schema,
    most === 1 ? {} : most === undefined ? { all: true } : { all: true, most },
  );
  const issues = [...prepared.issues, ...check(prepared.value, hide)];
  // A misspelled required key would be reported twice.
  const meant = new Set(
    issues.flatMap(({ path, suggestion }) =>
      suggestion === undefined ? [] : childPointer(parentPointer(path), suggestion),
    ),
  );
  return {
    value: prepared.value,
    issues: issues.filter(({ missing = [] }) => !missing.some((path) => meant.has(path))),
  };
}

/** The last one that was made of each schema: a reload mostly has the same keys. */
const slimSchemas = new WeakMap<TSchema, { readonly names: string; readonly slim: TSchema }>();

/** The schema, of whose members only those say something that are written or required, or that these refer to. */
function slimSchema(schema: TSchema, written: unknown): TSchema {
  const { properties, ...rest } = schemaObject(schema);
  const members = schemaMap({ properties }, 'properties');
  if (!isJsonObject(written) || members.size === 0) return schema;
  const known = new Set(members.keys());
  const kept = new Set(requiredKeys(rest));
  for (const key of Object.keys(written)) kept.add(knownKey(key, known) ?? key);
  const texts = [rest, ...[...members].filter(([name]) => kept.has(name))].map((one) => JSON.stringify(one));
  if (texts.some((text) => text.includes('"$ref"')))
    for (const [name, member] of members) if (definitionsWithin(member).size > 0) kept.add(name);
  const names = JSON.stringify([...kept].sort());
  const before = slimSchemas.get(schema);
  if (before?.names === names) return before.slim;
  const slimMembers = new Map(members);
  for (const name of known) if (!kept.has(name)) slimMembers.set(name, {});
  const slim: TSchema = { ...rest, properties: Object.fromEntries(slimMembers) };
  slimSchemas.set(schema, { names, slim });
  return slim;
}
