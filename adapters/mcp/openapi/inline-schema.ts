import { childPointer, isJsonObject, pointerSegments } from '../../../core/base/json.ts';
import { type ApiDocument, DocumentMistake, type JsonRecord } from './document.ts';

/** Longest description of one part of a schema, and longest pattern, in characters. */
const maxDescription = 600;
const maxPattern = 1_000;
/** Longest example, written as JSON. */
const maxExample = 200;

const types = new Set(['null', 'boolean', 'object', 'array', 'number', 'string', 'integer']);
const isText = (value: unknown): boolean => typeof value === 'string';
const isFlag = (value: unknown): boolean => typeof value === 'boolean';
const isNumber = (value: unknown): boolean => typeof value === 'number' && Number.isFinite(value);
const isCount = (value: unknown): boolean => Number.isInteger(value) && (value as number) >= 0;
const isTexts = (value: unknown): boolean =>
  Array.isArray(value) && value.every(isText) && new Set(value).size === value.length;
const isType = (value: unknown): boolean =>
  Array.isArray(value)
    ? value.length > 0 && isTexts(value) && value.every((one) => types.has(one as string))
    : typeof value === 'string' && types.has(value);

/**
 * Keywords that hold no schema, each with its test: JSON Schema refuses a schema with a wrong one, and documents have
 * them; those say nothing. `required`, `exclusiveMinimum` and `exclusiveMaximum` are read apart.
 */
const plainKeywords: Readonly<Record<string, (value: unknown) => boolean>> = {
  type: isType,
  title: isText,
  format: isText,
  enum: (value) => Array.isArray(value) && value.length > 0,
  const: () => true,
  default: () => true,
  minimum: isNumber,
  maximum: isNumber,
  exclusiveMinimum: isNumber,
  exclusiveMaximum: isNumber,
  multipleOf: (value) => isNumber(value) && (value as number) > 0,
  minLength: isCount,
  maxLength: isCount,
  pattern: (value) => typeof value === 'string' && value.length <= maxPattern,
  minItems: isCount,
  maxItems: isCount,
  minContains: isCount,
  maxContains: isCount,
  minProperties: isCount,
  maxProperties: isCount,
  dependentRequired: (value) => isJsonObject(value) && Object.values(value).every(isTexts),
  deprecated: isFlag,
  contentEncoding: isText,
  contentMediaType: isText,
};
const schemaKeywords = [
  ...['items', 'contains', 'additionalProperties', 'unevaluatedProperties', 'propertyNames'],
  ...['not', 'if', 'then', 'else'],
];
const listKeywords = ['allOf', 'anyOf', 'oneOf', 'prefixItems'];
const mapKeywords = ['properties', 'patternProperties', 'dependentSchemas'];
/** Of the schema beside a reference, those that constrain nothing. */
const remarks = new Set(['description', 'title', 'default', 'deprecated', 'example', 'examples']);

type Schema = JsonRecord | boolean;

/** Bounds of one inlining. */
interface InlineBounds {
  /** Deepest schema within a schema. */
  readonly maxDepth: number;
  /** Most schemas altogether. */
  readonly maxSchemas: number;
}

/**
 * Writes schemas of a document as JSON Schema 2020-12 without references, for what is sent in requests: members that are
 * `readOnly` are left out. In place of what is recursive, too deep or too much there is a schema that allows everything,
 * or everything of its type, with a note.
 */
export class SchemaInliner {
  readonly #document: ApiDocument;
  readonly #bounds: InlineBounds;
  readonly #open = new Set<string>();
  #schemas = 0;

  constructor(document: ApiDocument, bounds: InlineBounds) {
    this.#document = document;
    this.#bounds = bounds;
  }

  /** Throws `DocumentMistake`. */
  inline(schema: unknown, pointer: string): JsonRecord {
    const inlined = this.#inline(schema, pointer, 1);
    if (typeof inlined !== 'boolean') return inlined;
    return inlined ? {} : { not: {} };
  }

  #inline(schema: unknown, pointer: string, depth: number): Schema {
    if (typeof schema === 'boolean') return schema;
    if (!isJsonObject(schema)) throw new DocumentMistake(pointer, 'a schema is an object; correct it');
    this.#schemas += 1;
    if (depth > this.#bounds.maxDepth || this.#schemas > this.#bounds.maxSchemas) return this.#cut(schema);
    const { $ref: reference } = schema;
    return typeof reference === 'string'
      ? this.#reference(reference, schema, { pointer, depth })
      : this.#translated(schema, pointer, depth);
  }

  #reference(
    reference: string,
    schema: JsonRecord,
    { pointer, depth }: { readonly pointer: string; readonly depth: number },
  ): Schema {
    const target = this.#document.target(reference, childPointer(pointer, '$ref'));
    if (this.#open.has(target.pointer)) {
      const name = pointerSegments(target.pointer).at(-1) ?? '';
      return { description: `Recursive: as "${name.slice(0, 100)}" above, and not described again.` };
    }
    this.#open.add(target.pointer);
    const inlined = this.#inline(target.value, target.pointer, depth);
    this.#open.delete(target.pointer);
    const beside = Object.entries(schema).filter(([keyword]) => keyword !== '$ref');
    if (typeof inlined === 'boolean' || beside.length === 0) return inlined;
    // Version 3.0 ignores them; descriptions there are meant nevertheless.
    const applies = this.#document.version === '3.1' && beside.some(([keyword]) => !remarks.has(keyword));
    const own = Object.fromEntries(applies ? beside : beside.filter(([keyword]) => remarks.has(keyword)));
    const translated = this.#translated(own, pointer, depth);
    return applies ? { allOf: [inlined, translated] } : { ...inlined, ...translated };
  }

  #translated(schema: JsonRecord, pointer: string, depth: number): JsonRecord {
    const entries: [string, unknown][] = [];
    const add = (keyword: string, value: unknown): void => void entries.push([keyword, value]);
    const { description, required, properties } = schema;
    for (const [keyword, fits] of Object.entries(plainKeywords))
      if (Object.hasOwn(schema, keyword) && fits(schema[keyword])) add(keyword, schema[keyword]);
    for (const [exclusive, inclusive] of exclusiveBounds)
      if (schema[exclusive] === true && isNumber(schema[inclusive])) add(exclusive, schema[inclusive]);
    if (typeof description === 'string' && description !== '') add('description', clipped(description));
    const example = exampleOf(schema);
    if (example !== undefined) add('examples', [example]);
    // Comparing each object with each other one takes the square of their number.
    if (schema['uniqueItems'] === true && isOfScalars(schema['items'])) add('uniqueItems', true);
    for (const keyword of schemaKeywords) {
      const inner = schema[keyword];
      if (isJsonObject(inner) || typeof inner === 'boolean')
        add(keyword, this.#inline(inner, childPointer(pointer, keyword), depth + 1));
    }
    for (const keyword of listKeywords) {
      const list: unknown = schema[keyword];
      if (!Array.isArray(list) || list.length === 0) continue;
      const at = childPointer(pointer, keyword);
      add(
        keyword,
        list.map((one, index) => this.#inline(one, childPointer(at, index), depth + 1)),
      );
    }
    const readOnly = this.#readOnlyOf(properties, childPointer(pointer, 'properties'));
    for (const keyword of mapKeywords) {
      const map = schema[keyword];
      if (!isJsonObject(map)) continue;
      const at = childPointer(pointer, keyword);
      const members = Object.entries(map)
        .filter(([name]) => keyword !== 'properties' || !readOnly.has(name))
        .map(([name, one]) => [name, this.#inline(one, childPointer(at, name), depth + 1)] as const);
      add(keyword, Object.fromEntries(members));
    }
    if (isTexts(required)) {
      const needed = (required as readonly string[]).filter((name) => !readOnly.has(name));
      if (needed.length > 0) add('required', needed);
    }
    return nullable(schema, Object.fromEntries(entries));
  }

  /** Names of the members that only answers have. */
  #readOnlyOf(properties: unknown, pointer: string): ReadonlySet<string> {
    const names = new Set<string>();
    if (!isJsonObject(properties)) return names;
    for (const [name, property] of Object.entries(properties)) {
      const { value } = this.#document.resolved(property, childPointer(pointer, name));
      if (isJsonObject(value) && value['readOnly'] === true) names.add(name);
    }
    return names;
  }

  #cut(schema: JsonRecord): JsonRecord {
    const { type, description } = schema;
    const note = 'Not described further.';
    const text = typeof description === 'string' ? `${clipped(description)} (${note})` : note;
    return isType(type) && schema['nullable'] !== true ? { type, description: text } : { description: text };
  }
}

const exclusiveBounds = [
  ['exclusiveMinimum', 'minimum'],
  ['exclusiveMaximum', 'maximum'],
] as const;

/** What `nullable` and boolean bounds of version 3.0 mean in JSON Schema. */
function nullable(schema: JsonRecord, translated: JsonRecord): JsonRecord {
  const entries = Object.entries(translated).filter(
    ([keyword]) =>
      !exclusiveBounds.some(([exclusive, inclusive]) => keyword === inclusive && schema[exclusive] === true),
  );
  const plain = Object.fromEntries(entries);
  if (schema['nullable'] !== true) return plain;
  const { type, description, ...others } = plain;
  if (typeof type === 'string' && !Object.hasOwn(plain, 'enum')) return { ...plain, type: [type, 'null'] };
  const alternatives = { anyOf: [{ ...(type !== undefined && { type }), ...others }, { type: 'null' }] };
  return description === undefined ? alternatives : { ...alternatives, description };
}

/** The first example, when it is short. */
function exampleOf({ example, examples }: JsonRecord): unknown {
  const first: unknown = example ?? (Array.isArray(examples) ? examples[0] : undefined);
  return first !== undefined && JSON.stringify(first).length <= maxExample ? first : undefined;
}

function isOfScalars(items: unknown): boolean {
  if (!isJsonObject(items) || typeof items['type'] !== 'string') return false;
  return items['type'] !== 'object' && items['type'] !== 'array';
}

/** The text within the bound of one description. */
export function clipped(text: string, most = maxDescription): string {
  const trimmed = text.trim();
  return trimmed.length <= most ? trimmed : `${trimmed.slice(0, most - 1).trimEnd()}…`;
}
