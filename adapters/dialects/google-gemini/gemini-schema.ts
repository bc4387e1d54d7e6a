import type { EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import { asArray, asObject, asText } from '../json-reading.ts';
import { withoutMembers } from './member.ts';
import { adaptKeyword, sharedKeywords, silentKeywords } from './schema-keywords.ts';
import { joinAllOf, resolveReference } from './schema-references.ts';

/** A recursive reference is followed this often; below it anything goes. */
const maxRecursion = 2;
const maxDepth = 64;
/** Schemas below one root; references can multiply them. */
const maxSchemas = 5000;

interface Adaptation {
  readonly root: JsonObject;
  readonly report: EncodeReport;
  left: number;
  depth: number;
}

/**
 * A JSON Schema in Gemini's subset. The subset is used and not `parametersJsonSchema` / `responseJsonSchema`: every
 * model and both hosts take it, while those are newer, take a subset of keywords as well and refuse cyclic references in
 * required members. What is left out is reported under `place` (`tools[0].function.parameters`), what is said in other
 * words as emulated.
 */
export function toGeminiSchema(schema: JsonObject, place: string, report: EncodeReport): JsonObject {
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
  const beside = withoutMembers(given, ['$ref']);
  return adapt({ ...target, ...beside }, place, [...path, reference], state);
}

/** What cannot be unrolled any further. */
function freeForm(place: string, { report }: Adaptation): JsonObject {
  report.emulate(`${place}.$ref`);
  return { type: 'object', description: 'Of the same form as the object around it.' };
}

/** The alternatives of a schema that has some; a list of types are alternatives, too. */
function branchesOf(schema: JsonObject): readonly unknown[] | undefined {
  for (const name of ['anyOf', 'oneOf']) if (asArray(schema[name]).length > 0) return asArray(schema[name]);
  if (!Array.isArray(schema.type)) return undefined;
  const { type, ...rest } = schema;
  return (type as unknown[]).map((one) => (one === 'null' ? { type: 'null' } : { ...rest, type: one }));
}

/**
 * Vertex AI refuses any keyword beside `anyOf`: `nullable` and the description go into the alternatives. A single
 * alternative (besides null) takes the place of the whole.
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
  const common = withoutMembers(schema, hidden);
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
    // The API refuses an array that does not say of what.
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

/** What an array is of. A tuple (`prefixItems`, or a list under `items`) becomes an array of any of its members. */
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
