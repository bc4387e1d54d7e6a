import type { TSchema } from 'typebox';
import {
  expectedKeyword,
  allowedValues,
  definitionsWithin,
  requiredKeys,
  resolveReference,
  schemaMap,
  schemaObject,
  schemaTypes,
  unionBranches,
  type SchemaObject,
} from './describe-schema.ts';
import { ReservedOptionsSchema } from './plugin-entries.ts';
import { GatewayConfigSchema } from './schema.ts';
import { isJsonObject } from '../base/json.ts';

/** Description of a plugin for the schema of the file and the reference. */
export interface DescribedPlugin {
  readonly name: string;
  readonly description?: string;
  readonly schema?: TSchema;
}

type MutableSchema = Record<string, unknown>;

/** A value with a placeholder is valid wherever a scalar is. */
const placeholder = { type: 'string', pattern: '\\$\\{[^}]+\\}' };

/**
 * JSON Schema (draft 2020-12) of a whole configuration file, for editors and `weir schema`: checks the options of the
 * given plugins; other plugins (packages, paths) take any options. Made anew on every call; plain JSON.
 */
export function configJsonSchema(plugins: readonly DescribedPlugin[]): Record<string, unknown> {
  const definitions: MutableSchema = {};
  for (const plugin of plugins) {
    const options = embed(optionsSchema(plugin), `${plugin.name}.`, definitions);
    definitions[plugin.name] = { title: plugin.name, ...describedBy(plugin), ...options };
  }
  const whole = embed(schemaObject(GatewayConfigSchema), '', definitions);
  const { pipelines } = asMutable(whole.properties);
  const pipeline = asMutable(asMutable(pipelines).items);
  const list = asMutable(asMutable(pipeline.properties).plugins);
  list.items = pluginSchema(plugins);
  return { $schema: 'https://json-schema.org/draft/2020-12/schema', ...whole, $defs: definitions };
}

function asMutable(value: unknown): MutableSchema {
  if (!isJsonObject(value))
    throw new Error('The configuration schema has lost a member that plugins are added to.');
  return value;
}

function describedBy({ description }: DescribedPlugin): MutableSchema {
  return description === undefined ? {} : { description };
}

function pluginSchema(plugins: readonly DescribedPlugin[]): SchemaObject {
  const names = plugins.map((plugin) => ({ const: plugin.name, ...describedBy(plugin) }));
  const withOptions = plugins.map(({ name }) => [
    name,
    { anyOf: [{ $ref: `#/$defs/${name}` }, { type: 'null' }] },
  ]);
  return {
    description: 'Name of a plugin, alone or with its options.',
    oneOf: [
      {
        type: 'string',
        minLength: 1,
        anyOf: [...names, { description: 'Installed package, or path.' }],
      },
      {
        type: 'object',
        minProperties: 1,
        maxProperties: 1,
        properties: Object.fromEntries(withOptions) as SchemaObject,
        // Packages and paths: their schemas are unknown here.
        additionalProperties: { type: ['object', 'null'] },
      },
    ],
  };
}

/** The plugin's schema with the reserved options, and strict like validation. */
function optionsSchema({ schema }: DescribedPlugin): SchemaObject {
  const own = schema === undefined ? { type: 'object', properties: {} } : schemaObject(schema);
  const target = resolveReference(own, own);
  const branches = unionBranches(target);
  if (branches.length > 0 && target.properties === undefined && target.$defs === undefined)
    return { ...target, anyOf: branches.map((branch) => withReserved(branch)), oneOf: undefined };
  return { ...withReserved(target), ...(own.$defs === undefined ? {} : { $defs: own.$defs }) };
}

function withReserved(schema: SchemaObject): SchemaObject {
  if (schema.type !== 'object' || schema.allOf !== undefined) return schema;
  const strict = schema.additionalProperties === undefined && schema.patternProperties === undefined;
  return {
    ...schema,
    properties: {
      ...Object.fromEntries(schemaMap(schema, 'properties')),
      ...ReservedOptionsSchema.properties,
    },
    ...(strict ? { additionalProperties: false } : {}),
  };
}

/** Keywords whose value holds schemas by name, and keywords whose value is data. */
export const mapKeywords = new Set(['properties', 'patternProperties', 'dependentSchemas']);
const unionKeywords = new Set(['anyOf', 'oneOf']);
const dataKeywords = new Set(['const', 'enum', 'default', 'examples', 'required']);

/**
 * Deep copy for embedding in a larger document: its definitions move to `definitions` under `prefix`, and scalars may
 * also be placeholders.
 */
function embed(schema: SchemaObject, prefix: string, definitions: MutableSchema): MutableSchema {
  const own = definitionsWithin(schema);
  const copySchema = (value: unknown, alone = true): unknown => {
    if (Array.isArray(value)) return value.map((each) => copySchema(each));
    if (!isJsonObject(value)) return value;
    const copy: MutableSchema = {};
    for (const [keyword, member] of Object.entries(value)) {
      if (keyword === '$defs' || keyword === '$id' || member === undefined) continue;
      // A keyword of our own messages: strict validators reject unknown keywords.
      if (keyword === expectedKeyword) continue;
      if (keyword === '$ref' && typeof member === 'string') copy.$ref = moveReference(member);
      else if (dataKeywords.has(keyword)) copy[keyword] = structuredClone(member);
      else if (mapKeywords.has(keyword))
        copy[keyword] = Object.fromEntries(
          Object.entries(isJsonObject(member) ? member : {}).map(([name, each]) => [name, copySchema(each)]),
        );
      else if (unionKeywords.has(keyword) && Array.isArray(member))
        copy[keyword] = member.map((branch) => copySchema(branch, false));
      else copy[keyword] = copySchema(member);
    }
    dropFilledKeys(copy);
    // A branch allows no placeholder itself: the union as a whole does.
    return alone ? withPlaceholders(copy) : copy;
  };
  const moveReference = (reference: string): string => {
    const name = reference.replace('#/$defs/', '');
    return own.has(name) ? `#/$defs/${prefix}${name}` : reference;
  };
  for (const [name, definition] of own) definitions[`${prefix}${name}`] = copySchema(definition);
  return asMutable(copySchema(schema));
}

/** A key with a default may be left out: the loader fills it in, required or not. */
function dropFilledKeys(schema: MutableSchema): void {
  const properties = schemaMap(schema, 'properties');
  const required = requiredKeys(schema).filter((key) => properties.get(key)?.default === undefined);
  if (required.length > 0) schema.required = required;
  else delete schema.required;
}

const annotations = new Set(['title', 'description', 'default', 'examples', 'deprecated']);
const scalarTypes = new Set(['string', 'integer', 'number', 'boolean']);
const textLimits = ['const', 'enum', 'pattern', 'format', 'maxLength'];

function isScalar(schema: SchemaObject): boolean {
  const types = schemaTypes(schema);
  return types.length === 0
    ? allowedValues(schema) !== undefined
    : types.every((type) => scalarTypes.has(type));
}

function allowsAnyText(schema: SchemaObject): boolean {
  return schemaTypes(schema).includes('string') && !textLimits.some((keyword) => keyword in schema);
}

/** Allows a placeholder in place of a scalar, where its own schema would reject that text. */
function withPlaceholders(schema: MutableSchema): MutableSchema {
  const branches = unionBranches(schema);
  const candidates = branches.length > 0 ? branches : [schema];
  if (!candidates.some(isScalar) || candidates.some(allowsAnyText)) return schema;
  const members = Object.entries(schema);
  const outer = Object.fromEntries(members.filter(([keyword]) => annotations.has(keyword)));
  const inner = Object.fromEntries(members.filter(([keyword]) => !annotations.has(keyword)));
  const plainConstants =
    branches.length > 0 && branches.every((branch) => 'const' in branch && !('description' in branch));
  const own = plainConstants ? { enum: branches.map((branch) => branch.const) } : inner;
  return { ...outer, anyOf: [own, placeholder] };
}
