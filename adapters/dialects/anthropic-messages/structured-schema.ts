import { asArray, asObject, type JsonObject } from '../json-reading.ts';

/**
 * Rules that structured outputs do not take (Anthropic's documentation, "JSON Schema limitations"). They are told in the
 * description instead, so that the model knows of them.
 */
const untakenRules = [
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'maxItems',
  'uniqueItems',
  'minProperties',
  'maxProperties',
] as const;

/** Members that hold schemas by name. */
const schemaMaps = ['properties', '$defs', 'definitions'] as const;
/** Members that hold lists of schemas. */
const schemaLists = ['anyOf', 'allOf', 'oneOf', 'prefixItems'] as const;

/** Deeper schemas stay as they are: the provider judges them. */
const maxDepth = 64;

/**
 * The schema in the subset that structured outputs take: objects are closed, rules that are not known stand in the
 * description. `changed` says whether anything differs.
 */
export function structuredSchema(schema: JsonObject): {
  readonly schema: JsonObject;
  readonly changed: boolean;
} {
  const state = { changed: false };
  return { schema: adapt(schema, state, 0), changed: state.changed };
}

function adapt(schema: JsonObject, state: { changed: boolean }, depth: number): JsonObject {
  if (depth > maxDepth) return schema;
  const adapted: JsonObject = { ...schema };
  describeRules(adapted, state);
  for (const member of schemaMaps) {
    const map = asObject(adapted[member]);
    if (map === undefined) continue;
    adapted[member] = Object.fromEntries(
      Object.entries(map).map(([name, value]) => [name, adaptAny(value, state, depth)]),
    );
  }
  for (const member of schemaLists) {
    if (Array.isArray(adapted[member])) {
      adapted[member] = asArray(adapted[member]).map((value) => adaptAny(value, state, depth));
    }
  }
  if (asObject(adapted.items) !== undefined) adapted.items = adaptAny(adapted.items, state, depth);
  if (isObjectType(adapted) && adapted.additionalProperties !== false) {
    adapted.additionalProperties = false;
    state.changed = true;
  }
  return adapted;
}

function adaptAny(value: unknown, state: { changed: boolean }, depth: number): unknown {
  const schema = asObject(value);
  return schema === undefined ? value : adapt(schema, state, depth + 1);
}

function describeRules(schema: JsonObject, state: { changed: boolean }): void {
  const told: string[] = [];
  for (const rule of untakenRules) {
    const value = schema[rule];
    // A property may have the name of a rule only inside `properties`, never here.
    if (typeof value !== 'number' && typeof value !== 'boolean' && typeof value !== 'bigint') continue;
    told.push(`${rule}: ${value}`);
    delete schema[rule];
  }
  if (typeof schema.minItems === 'number' && schema.minItems > 1) {
    told.push(`minItems: ${schema.minItems}`);
    delete schema.minItems;
  }
  if (told.length === 0) return;
  state.changed = true;
  const before = typeof schema.description === 'string' ? `${schema.description} ` : '';
  schema.description = `${before}(${told.join(', ')})`;
}

function isObjectType(schema: JsonObject): boolean {
  return schema.type === 'object' || (Array.isArray(schema.type) && schema.type.includes('object'));
}
