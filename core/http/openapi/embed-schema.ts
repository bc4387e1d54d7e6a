import { expectedKeyword } from '../../config/describe-schema.ts';
import { definitionsWithin, isObject, schemaObject } from '../../config/schema-object.ts';

const prefix = '#/components/schemas/';

/** Keywords whose value is data, not a schema: copied as they are. */
const dataKeywords = new Set(['const', 'enum', 'default', 'examples', 'required', 'example']);
/** Keywords whose value holds schemas by name. */
const mapKeywords = new Set(['properties', 'patternProperties', 'dependentSchemas']);

/** Refers to a component of the document from a schema. */
export function componentReference(name: string): string {
  return `${prefix}${name}`;
}

/**
 * A deep copy of a schema as plain JSON for the document: words of our own are left out, and its definitions move to
 * `components` as `{owner}.{name}`.
 */
export function embedSchema(schema: unknown, owner: string, components: Map<string, unknown>): unknown {
  const root = schemaObject(schema);
  const own = definitionsWithin(root);
  const copy = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(copy);
    return isObject(value) ? copyMembers(value) : value;
  };
  const copyMembers = (value: Readonly<Record<string, unknown>>): Record<string, unknown> => {
    const members: Record<string, unknown> = {};
    for (const [keyword, member] of Object.entries(value)) {
      if (keyword === '$defs' || keyword === '$id' || keyword === expectedKeyword || member === undefined)
        continue;
      if (keyword === '$ref' && typeof member === 'string') members['$ref'] = moved(member);
      else if (dataKeywords.has(keyword)) members[keyword] = structuredClone(member);
      else if (mapKeywords.has(keyword)) members[keyword] = copyEach(schemaObject(member));
      else members[keyword] = copy(member);
    }
    return members;
  };
  const copyEach = (schemas: Readonly<Record<string, unknown>>): Record<string, unknown> =>
    Object.fromEntries(Object.entries(schemas).map(([name, each]) => [name, copy(each)]));
  const moved = (reference: string): string => {
    const name = reference.replace('#/$defs/', '');
    return own.has(name) ? componentReference(`${owner}.${name}`) : reference;
  };
  for (const [name, definition] of own) components.set(`${owner}.${name}`, copy(definition));
  return copy(root);
}
