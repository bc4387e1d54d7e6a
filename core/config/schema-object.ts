/** Options of an object that knows all its keys. */
export const strict = { additionalProperties: false };
/** A section that may be left out: it is then filled with the defaults of its keys. */
export const section = { ...strict, default: {} };

/** A JSON Schema whose keywords are looked at one by one. */
export type SchemaObject = Readonly<Record<string, unknown>>;

/** True for anything that is an object with named members: no null, no list. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A schema as an object; `true` and anything that is no schema allow everything, `false` nothing. */
export function schemaObject(schema: unknown): SchemaObject {
  if (isObject(schema)) return schema;
  return schema === false ? { not: {} } : {};
}

/** A keyword that holds a list of schemas (`anyOf`, `allOf`, …); empty when absent. */
export function schemaList(schema: SchemaObject, keyword: string): SchemaObject[] {
  const list = schema[keyword];
  return Array.isArray(list) ? list.map(schemaObject) : [];
}

/** A keyword that holds schemas by name (`properties`, `$defs`, …); empty when absent. */
export function schemaMap(schema: SchemaObject, keyword: string): Map<string, SchemaObject> {
  const members = schema[keyword];
  if (!isObject(members)) return new Map();
  return new Map(Object.entries(members).map(([name, member]) => [name, schemaObject(member)]));
}

/** The forms among which a schema lets a value choose: `anyOf` or `oneOf`; empty when it is no union. */
export function unionBranches(schema: SchemaObject): SchemaObject[] {
  const anyOf = schemaList(schema, 'anyOf');
  return anyOf.length > 0 ? anyOf : schemaList(schema, 'oneOf');
}

/** The JSON types that a schema names; empty when it names none. */
export function schemaTypes(schema: SchemaObject): string[] {
  const { type } = schema;
  const types: unknown[] = Array.isArray(type) ? type : [type];
  return types.filter((name) => typeof name === 'string');
}

/** The values that `const` or `enum` allow, or undefined when neither is given. */
export function allowedValues(schema: SchemaObject): readonly unknown[] | undefined {
  if ('const' in schema) return [schema.const];
  return Array.isArray(schema.enum) ? schema.enum : undefined;
}

/** The names that `required` lists. */
export function requiredKeys(schema: SchemaObject): string[] {
  const { required } = schema;
  return Array.isArray(required) ? required.filter((name) => typeof name === 'string') : [];
}

const definitionsOfRoot = new WeakMap<SchemaObject, ReadonlyMap<string, SchemaObject>>();

/** All definitions (`$defs`) of a schema by name, wherever within it they stand: typebox nests them. */
export function definitionsWithin(root: SchemaObject): ReadonlyMap<string, SchemaObject> {
  const present = definitionsOfRoot.get(root);
  if (present !== undefined) return present;
  const found = new Map<string, SchemaObject>();
  const seen = new Set<object>();
  const pending: unknown[] = [root];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    if (typeof next !== 'object' || next === null || seen.has(next)) continue;
    seen.add(next);
    if (isObject(next))
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
 * Follows `$ref` within the same document: `#`, `#/$defs/Name`, or the `$id` of a definition. A reference to
 * anything else is left as it is.
 */
export function resolveReference(schema: SchemaObject, root: SchemaObject): SchemaObject {
  let current = schema;
  // A reference that leads only to references would never end.
  for (let hops = 0; hops < 16 && typeof current.$ref === 'string'; hops++) {
    if (current.$ref === '#') return root;
    const target = definitionsWithin(root).get(current.$ref.replace('#/$defs/', ''));
    if (target === undefined) return current;
    current = target;
  }
  return current;
}
