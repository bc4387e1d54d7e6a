import type { EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import { asArray, asObject, asText } from '../json-reading.ts';

/**
 * Keywords that Gemini's `Schema` object documents (ai.google.dev/api/caching#Schema) and that mean the same in JSON
 * Schema.
 */
export const sharedKeywords: ReadonlySet<string> = new Set([
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

/** Keywords that say nothing of the values. */
export const silentKeywords: ReadonlySet<string> = new Set([
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

/** Formats by type that the API takes; another one is refused by it. */
const formats: Readonly<Record<string, readonly string[]>> = {
  string: ['date-time', 'enum'],
  number: ['float', 'double'],
  integer: ['int32', 'int64'],
};

/** Where a schema stands, for what is reported about it. */
export interface SchemaSite {
  readonly place: string;
  readonly report: EncodeReport;
}

/** Says a keyword of `schema` that the subset lacks in other words in `adapted`, or reports it as dropped. */
export function adaptKeyword(adapted: JsonObject, schema: JsonObject, name: string, site: SchemaSite): void {
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

/** The API takes texts alone; other values are told in the description. */
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
  const list = values.map((value) => JSON.stringify(value)).join(', ');
  const sentence = values.length === 1 ? `Always ${list}.` : `One of ${list}.`;
  const description = asText(adapted.description);
  adapted.description = description === undefined ? sentence : `${description} ${sentence}`;
  const [type, ...otherTypes] = new Set(values.map((value) => typeof value));
  if (otherTypes.length === 0 && (type === 'number' || type === 'boolean')) adapted.type ??= type;
}

/** The API refuses a required member that is not described. */
function adaptRequired(adapted: JsonObject, schema: JsonObject, { place, report }: SchemaSite): void {
  const properties = asObject(schema.properties) ?? {};
  const required = asArray(schema.required);
  const known = required.filter((name) => typeof name === 'string' && Object.hasOwn(properties, name));
  if (known.length < required.length) report.drop(`${place}.required`);
  if (known.length > 0) adapted.required = known;
}
