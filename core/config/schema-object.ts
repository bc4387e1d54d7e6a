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
export function schemaList(schema: SchemaObject, keyword: string): SchemaObject[] {
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
