/** Values as a JSON Schema of the document allows them, for fast-check. */
import fc from 'fast-check';
import {
  allowedValues,
  requiredKeys,
  schemaMap,
  schemaObject,
  schemaTypes,
  unionBranches,
  type SchemaObject,
} from '../../core/config/describe-schema.ts';
import type { OpenApiDocument } from '../../core/http/openapi/document-writer.ts';

const deepest = 8;
/** Longer texts and lists than this tell nothing more. */
const longest = 40;

/** What values are made for. */
export interface ValueSource {
  readonly document: Pick<OpenApiDocument, 'components'>;
  /** What there is, by the name of the member or parameter that may name it: texts are often one of these. */
  readonly known: Readonly<Record<string, readonly string[]>>;
}

/** Where a value stands. */
interface Place {
  readonly source: ValueSource;
  readonly name: string;
  readonly depth: number;
}

/**
 * Values that the schema of the member or parameter `name` allows, or nearly: patterns with lengths, and `allOf`, are
 * not followed to the end.
 */
export function valuesOf(schema: unknown, source: ValueSource, name = ''): fc.Arbitrary<unknown> {
  return valuesAt(schema, { source, name, depth: 0 });
}

function valuesAt(schema: unknown, place: Place): fc.Arbitrary<unknown> {
  const own = resolve(schemaObject(schema), place.source);
  if (place.depth > deepest) return fc.constant(null);
  const inner = { ...place, depth: place.depth + 1 };
  const allowed = allowedValues(own);
  if (allowed !== undefined) return fc.constantFrom(...allowed);
  const branches = unionBranches(own);
  if (branches.length > 0) return fc.oneof(...branches.map((branch) => valuesAt(branch, inner)));
  const types = schemaTypes(own);
  if (types.length === 0) return fc.jsonValue({ maxDepth: 2 });
  return fc.oneof(...types.map((type) => ofType(type, own, inner)));
}

function ofType(type: string, schema: SchemaObject, place: Place): fc.Arbitrary<unknown> {
  if (type === 'object') return objects(schema, place);
  if (type === 'array') {
    const minLength = numberIn(schema, 'minItems') ?? 0;
    const maxLength = Math.min(numberIn(schema, 'maxItems') ?? longest, minLength + 3);
    return fc.array(valuesAt(schema['items'], place), { minLength, maxLength });
  }
  if (type === 'string') return texts(schema, place);
  if (type === 'boolean') return fc.boolean();
  if (type === 'integer' || type === 'number') return numbers(type, schema);
  return fc.constant(null);
}

function objects(schema: SchemaObject, place: Place): fc.Arbitrary<unknown> {
  const properties = [...schemaMap(schema, 'properties')];
  const required = requiredKeys(schema);
  const members = Object.fromEntries(
    properties.map(([name, member]) => [name, valuesAt(member, { ...place, name })]),
  );
  const named = fc.record(members, {
    requiredKeys: Object.keys(members).filter((name) => required.includes(name)),
  });
  const [others] = [...schemaMap(schema, 'patternProperties').values()];
  if (others === undefined) return named;
  const entries = fc.dictionary(fc.string({ minLength: 1, maxLength: 12 }), valuesAt(others, place), {
    maxKeys: 3,
    noNullPrototype: true,
  });
  return fc.tuple(named, entries).map(([known, more]) => ({ ...more, ...known }));
}

function texts(schema: SchemaObject, { source, name }: Place): fc.Arbitrary<string> {
  const minLength = numberIn(schema, 'minLength') ?? 0;
  const maxLength = Math.max(minLength, Math.min(numberIn(schema, 'maxLength') ?? longest, longest));
  const { format, pattern } = schema;
  const plain = fc.string({ minLength, maxLength, unit: 'grapheme' });
  const made = formatted(String(format)) ?? (typeof pattern === 'string' ? matching(pattern, plain) : plain);
  const examples = Array.isArray(schema['examples']) ? (schema['examples'] as string[]) : [];
  const known = [...(source.known[name] ?? []), ...examples];
  return known.length === 0 ? made : fc.oneof(made, { arbitrary: fc.constantFrom(...known), weight: 3 });
}

function formatted(format: string): fc.Arbitrary<string> | undefined {
  if (format === 'uuid') return fc.uuid();
  if (format === 'email') return fc.emailAddress();
  if (format === 'uri') return fc.webUrl();
  if (format === 'date-time')
    return fc
      .date({ min: new Date('0001-01-01'), max: new Date('9999-12-31'), noInvalidDate: true })
      .map((date) => date.toISOString());
  return undefined;
}

function matching(pattern: string, otherwise: fc.Arbitrary<string>): fc.Arbitrary<string> {
  try {
    return fc.stringMatching(new RegExp(pattern, 'u'));
  } catch {
    // Not every expression can be turned round; the schema then refuses what comes instead.
    return otherwise;
  }
}

function numbers(type: string, schema: SchemaObject): fc.Arbitrary<number> {
  const min = numberIn(schema, 'minimum') ?? numberIn(schema, 'exclusiveMinimum') ?? -1_000_000;
  const max = numberIn(schema, 'maximum') ?? numberIn(schema, 'exclusiveMaximum') ?? 1_000_000_000;
  if (type === 'number') return fc.double({ min, max, noNaN: true });
  return fc.oneof(
    fc.integer({ min, max: Math.max(min, Math.min(max, min + 10)) }),
    fc.maxSafeInteger().map((any) => Math.min(max, Math.max(min, any))),
  );
}

function numberIn(schema: SchemaObject, keyword: string): number | undefined {
  const value = schema[keyword];
  return typeof value === 'number' ? value : undefined;
}

function resolve(schema: SchemaObject, { document }: ValueSource): SchemaObject {
  const { $ref: reference } = schema;
  if (typeof reference !== 'string') return schema;
  const name = reference.slice(reference.lastIndexOf('/') + 1);
  return schemaObject(document.components['schemas']?.[name]);
}
