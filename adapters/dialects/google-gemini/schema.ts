import type { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import { asArray, asObject, asText, type JsonObject, stringifyExact } from '../json-reading.ts';
import { geminiMembers } from './parts.ts';

/** JSON schemas, to and from the form of Gemini. */
export const schemas = { toJson: toJsonSchema, toGemini: toGeminiSchema };

const maxNesting = 100;

/** Keywords whose numbers this wire may write as text (its definition has them as 64-bit). */
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
function toJsonSchema(schema: JsonObject, depth: number = maxNesting): JsonObject {
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
    // The order of members has no meaning elsewhere; `properties` has it already.
    else if (name !== 'nullable' && name !== 'propertyOrdering') read[name] = value;
  }
  if (read.type === 'type_unspecified') delete read.type;
  return geminiMembers.of(schema, 'nullable') === true ? orNull(read) : read;
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

/**
 * Keywords that Gemini's `Schema` object documents (ai.google.dev/api/caching#Schema) and that mean the same in JSON
 * Schema.
 */
const sharedKeywords: ReadonlySet<string> = new Set([
  'type',
  'title',
  'description',
  'nullable',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
  'minLength',
  'maxLength',
  'pattern',
  'minimum',
  'maximum',
  'default',
  'example',
  'propertyOrdering',
]);

/** Keywords that do not constrain values. */
const silentKeywords: ReadonlySet<string> = new Set([
  '$schema',
  '$id',
  '$anchor',
  '$comment',
  '$defs',
  'definitions',
  'examples',
  'readOnly',
  'writeOnly',
  'deprecated',
  'strict',
]);

/** Formats by type that the API accepts; it refuses others. */
const formats: Readonly<Record<string, readonly string[]>> = {
  string: ['date-time', 'enum'],
  number: ['float', 'double'],
  integer: ['int32', 'int64'],
};

/** Position of a schema, for the report. */
interface SchemaSite {
  readonly place: string;
  readonly report: EncodeReport;
}

/** Expresses a keyword of `schema` that the subset lacks by other means in `adapted`, or reports it as dropped. */
function adaptKeyword(adapted: JsonObject, schema: JsonObject, name: string, site: SchemaSite): void {
  const value = schema[name];
  const { place, report } = site;
  if (name === 'enum' || name === 'const') {
    adaptEnum(adapted, schema, name, site);
  } else if (name === 'required') {
    adaptRequired(adapted, schema, site);
  } else if (name === 'format') {
    const type = (asText(schema.type) ?? 'string').toLowerCase();
    const format = asText(value) ?? '';
    if (formats[type]?.includes(format) === true) adapted.format = format;
    else report.drop(`${place}.format`);
  } else if (name === 'additionalProperties' && value === false) {
    // The model writes described members only.
    report.emulate(`${place}.additionalProperties`);
  } else if ((name === 'exclusiveMinimum' || name === 'exclusiveMaximum') && typeof value === 'number') {
    const step = schema.type === 'integer' ? 1 : 0;
    if (name === 'exclusiveMinimum') adapted.minimum = value + step;
    else adapted.maximum = value - step;
    report.emulate(`${place}.${name}`);
  } else report.drop(`${place}.${name}`);
}

/** The API accepts only texts; other values move to the description. */
function adaptEnum(
  adapted: JsonObject,
  schema: JsonObject,
  name: 'enum' | 'const',
  { place, report }: SchemaSite,
): void {
  const given = name === 'const' ? [schema.const] : asArray(schema.enum);
  const values = given.filter((value) => value !== null);
  if (values.length < given.length) adapted.nullable = true;
  if (values.length === 0) return;
  if (values.every((value) => typeof value === 'string')) {
    adapted.enum = values;
    adapted.type ??= 'string';
    return;
  }
  report.emulate(`${place}.${name}`);
  const list = values.map(stringifyExact).join(', ');
  const sentence = values.length === 1 ? `Always ${list}.` : `One of ${list}.`;
  const description = asText(adapted.description);
  adapted.description = description === undefined ? sentence : `${description} ${sentence}`;
  const [type, ...otherTypes] = new Set(values.map((value) => typeof value));
  if (otherTypes.length === 0 && (type === 'number' || type === 'boolean')) adapted.type ??= type;
}

/** The API refuses a required member without a description. */
function adaptRequired(adapted: JsonObject, schema: JsonObject, { place, report }: SchemaSite): void {
  const properties = asObject(schema.properties) ?? {};
  const required = asArray(schema.required);
  const known = required.filter((name) => typeof name === 'string' && Object.hasOwn(properties, name));
  if (known.length < required.length) report.drop(`${place}.required`);
  if (known.length > 0) adapted.required = known;
}

/** A recursive reference is expanded this often; below that, any value is allowed. */
const maxRecursion = 2;
const maxDepth = 64;
/** Upper bound of schemas below one root; references can multiply them. */
const maxSchemas = 5000;

interface Adaptation {
  readonly root: JsonObject;
  readonly report: EncodeReport;
  left: number;
  depth: number;
}

/**
 * A JSON Schema in Gemini's subset. The subset is used instead of `parametersJsonSchema` / `responseJsonSchema`,
 * because every model and both hosts accept it, while those are newer, also accept only some keywords, and refuse
 * cyclic references in required members. Removed keywords are reported under `place` (`tools[0].function.parameters`),
 * replaced ones as emulated.
 */
function toGeminiSchema(schema: JsonObject, place: string, report: EncodeReport): JsonObject {
  return adapt(schema, place, [], { root: schema, report, left: maxSchemas, depth: 0 });
}

function adapt(value: unknown, place: string, path: readonly string[], state: Adaptation): JsonObject {
  const given = asObject(value);
  // `true` allows everything.
  if (given === undefined) return {};
  if (state.depth >= maxDepth || state.left-- <= 0) return freeForm(place, state);
  state.depth++;
  const adapted = adaptObject(given, place, path, state);
  state.depth--;
  return adapted;
}

function adaptObject(
  given: JsonObject,
  place: string,
  path: readonly string[],
  state: Adaptation,
): JsonObject {
  const reference = asText(given.$ref);
  if (reference !== undefined) return adaptReference(given, reference, place, path, state);
  const schema = Array.isArray(given.allOf) ? joinAllOf(given, state.root) : given;
  if (schema !== given) state.report.emulate(`${place}.allOf`);
  const choices = branchesOf(schema);
  if (choices !== undefined) return adaptChoices(schema, choices, place, path, state);
  return adaptPlain(schema, place, path, state);
}

function adaptReference(
  given: JsonObject,
  reference: string,
  place: string,
  path: readonly string[],
  state: Adaptation,
): JsonObject {
  const target = resolveReference(reference, state.root);
  if (target === undefined) {
    state.report.drop(`${place}.$ref`);
    return {};
  }
  if (path.filter((one) => one === reference).length >= maxRecursion) return freeForm(place, state);
  const beside = geminiMembers.without(given, ['$ref']);
  return adapt({ ...target, ...beside }, place, [...path, reference], state);
}

/** A schema for any value, used where expansion stops. */
function freeForm(place: string, { report }: Adaptation): JsonObject {
  report.emulate(`${place}.$ref`);
  return { type: 'object', description: 'Same form as the enclosing object.' };
}

/** The alternatives of a schema, if any; a list of types counts as alternatives, too. */
function branchesOf(schema: JsonObject): readonly unknown[] | undefined {
  for (const name of ['anyOf', 'oneOf']) if (asArray(schema[name]).length > 0) return asArray(schema[name]);
  if (!Array.isArray(schema.type)) return undefined;
  const { type, ...rest } = schema;
  return (type as unknown[]).map((one) => (one === 'null' ? { type: 'null' } : { ...rest, type: one }));
}

/**
 * Vertex AI refuses any keyword beside `anyOf`: `nullable` and the description move into the alternatives. A single
 * alternative (besides null) replaces the whole schema.
 */
function adaptChoices(
  schema: JsonObject,
  choices: readonly unknown[],
  place: string,
  path: readonly string[],
  state: Adaptation,
): JsonObject {
  if (schema.oneOf !== undefined) state.report.emulate(`${place}.oneOf`);
  const others = choices.filter((choice) => asObject(choice)?.type !== 'null');
  const nullable = others.length < choices.length || schema.nullable === true;
  const hidden = ['anyOf', 'oneOf', 'nullable', ...(typeof schema.type === 'string' ? [] : ['type'])];
  const common = geminiMembers.without(schema, hidden);
  const branches = others.map((choice, i) =>
    adapt(
      { ...common, ...asObject(choice) },
      others.length === 1 ? place : `${place}.anyOf[${i}]`,
      path,
      state,
    ),
  );
  if (branches.length === 0) return { type: 'null' };
  if (nullable) for (const branch of branches) branch.nullable = true;
  return branches.length === 1 ? (branches[0] as JsonObject) : { anyOf: branches };
}

function adaptPlain(
  schema: JsonObject,
  place: string,
  path: readonly string[],
  state: Adaptation,
): JsonObject {
  const adapted: JsonObject = {};
  for (const [name, value] of Object.entries(schema))
    if (sharedKeywords.has(name) && value !== undefined) adapted[name] = value;
  if (typeof adapted.type === 'string') adapted.type = adapted.type.toLowerCase();
  const site = { place, report: state.report };
  for (const [name, value] of Object.entries(schema)) {
    if (value === undefined || sharedKeywords.has(name) || silentKeywords.has(name)) continue;
    if (name === 'properties') adapted.properties = adaptProperties(value, place, path, state);
    else if (name !== 'items' && name !== 'prefixItems') adaptKeyword(adapted, schema, name, site);
  }
  const items = adaptItems(schema, place, path, state);
  if (items !== undefined) adapted.items = items;
  if (adapted.type === undefined && adapted.properties !== undefined) adapted.type = 'object';
  if (adapted.type === 'array' && adapted.items === undefined) {
    // The API refuses an array without `items`.
    adapted.items = { type: 'string' };
    state.report.emulate(`${place}.items`);
  }
  return adapted;
}

function adaptProperties(
  value: unknown,
  place: string,
  path: readonly string[],
  state: Adaptation,
): JsonObject {
  const properties: [string, JsonObject][] = Object.entries(asObject(value) ?? {}).map(([name, property]) => [
    name,
    adapt(property, `${place}.properties.${name}`, path, state),
  ]);
  return Object.fromEntries(properties);
}

/**
 * The item schema of an array. A tuple (`prefixItems`, or a list under `items`) becomes an array of any of its members.
 */
function adaptItems(
  schema: JsonObject,
  place: string,
  path: readonly string[],
  state: Adaptation,
): JsonObject | undefined {
  const { items, prefixItems } = schema;
  const name = Array.isArray(prefixItems) ? 'prefixItems' : 'items';
  const members = schema[name];
  if (!Array.isArray(members)) {
    const isSchema = asObject(items) !== undefined && Object.keys(items as JsonObject).length > 0;
    return isSchema ? adapt(items, `${place}.items`, path, state) : undefined;
  }
  state.report.emulate(`${place}.${name}`);
  const branches = members.map((item, i) => adapt(item, `${place}.${name}[${i}]`, path, state));
  return branches.length > 1 ? { anyOf: branches } : branches[0];
}

/** The schema of a reference within the same document (`#`, `#/$defs/Node`); undefined for any other. */
function resolveReference(reference: string, root: JsonObject): JsonObject | undefined {
  if (!reference.startsWith('#')) return undefined;
  let value: unknown = root;
  for (const segment of reference.slice(1).split('/').slice(1)) {
    const name = decodePointer(segment);
    if (Array.isArray(value)) value = (value as unknown[])[Number(name)];
    else {
      const object = asObject(value);
      value = object !== undefined && Object.hasOwn(object, name) ? object[name] : undefined;
    }
  }
  return asObject(value);
}

/** Joins all of `allOf` and the schema's own keywords into one schema, as far as they do not contradict one another. */
function joinAllOf(schema: JsonObject, root: JsonObject): JsonObject {
  const { allOf, ...own } = schema;
  let joined: JsonObject = {};
  for (const value of asArray(allOf)) {
    const part = asObject(value);
    if (part === undefined) continue;
    const reference = asText(part.$ref);
    joined = join(joined, (reference === undefined ? part : resolveReference(reference, root)) ?? {});
  }
  return join(joined, own);
}

function join(first: JsonObject, second: JsonObject): JsonObject {
  const joined: JsonObject = { ...first, ...second };
  if (first.properties !== undefined && second.properties !== undefined)
    joined.properties = { ...asObject(first.properties), ...asObject(second.properties) };
  if (first.required !== undefined && second.required !== undefined)
    joined.required = [...new Set([...asArray(first.required), ...asArray(second.required)])];
  return joined;
}

function decodePointer(segment: string): string {
  let name = segment;
  try {
    name = decodeURIComponent(segment);
  } catch {
    // A percent sign that escapes nothing stands for itself.
  }
  return name.replaceAll('~1', '/').replaceAll('~0', '~');
}
