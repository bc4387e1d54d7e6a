import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import { asArray, asObject } from '../json-reading.ts';
import { member } from './member.ts';

const maxDepth = 100;

/** Keywords whose numbers this wire may write as text (they are 64-bit in its definition). */
const counts = ['minItems', 'maxItems', 'minProperties', 'maxProperties', 'minLength', 'maxLength'];

const spelled: Readonly<Record<string, string>> = {
  any_of: 'anyOf',
  property_ordering: 'propertyOrdering',
  min_items: 'minItems',
  max_items: 'maxItems',
  min_properties: 'minProperties',
  max_properties: 'maxProperties',
  min_length: 'minLength',
  max_length: 'maxLength',
};

/** A schema in Gemini's form (types in upper case, `nullable`) as JSON Schema. */
export function toJsonSchema(schema: JsonObject, depth: number = maxDepth): JsonObject {
  if (depth === 0) return {};
  const read: JsonObject = {};
  for (const [spelling, value] of Object.entries(schema)) {
    if (value === undefined || value === null) continue;
    const name = Object.hasOwn(spelled, spelling) ? (spelled[spelling] as string) : spelling;
    if (name === 'type') read.type = typeof value === 'string' ? value.toLowerCase() : value;
    else if (name === 'items') read.items = inner(value, depth);
    else if (name === 'anyOf') read.anyOf = asArray(value).map((branch) => inner(branch, depth));
    else if (name === 'properties')
      read.properties = Object.fromEntries(
        Object.entries(asObject(value) ?? {}).map(([property, one]) => [property, inner(one, depth)]),
      );
    else if (name === 'format' && value === 'enum') continue;
    else if (name === 'example') read.examples = [value];
    else if (counts.includes(name) && typeof value === 'string') read[name] = Number(value);
    // An order of members has no meaning elsewhere; `properties` stands in it already.
    else if (name !== 'nullable' && name !== 'propertyOrdering') read[name] = value;
  }
  if (read.type === 'type_unspecified') delete read.type;
  return member(schema, 'nullable') === true ? orNull(read) : read;
}

function inner(value: unknown, depth: number): unknown {
  const schema = asObject(value);
  return schema === undefined ? value : toJsonSchema(schema, depth - 1);
}

function orNull(schema: JsonObject): JsonObject {
  if (typeof schema.type === 'string') {
    const listed = Array.isArray(schema.enum) ? { enum: [...asArray(schema.enum), null] } : {};
    return { ...schema, ...listed, type: [schema.type, 'null'] };
  }
  if (Array.isArray(schema.anyOf)) return { ...schema, anyOf: [...asArray(schema.anyOf), { type: 'null' }] };
  return { anyOf: [schema, { type: 'null' }] };
}
