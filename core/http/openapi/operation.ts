import { type TObject, type TProperties, type TSchema, Type } from 'typebox';
import type { EndpointId } from '../../dialects/endpoint.ts';
import { expectedKeyword, definitionsWithin, schemaObject } from '../../config/describe-schema.ts';
import { isJsonObject } from '../../base/json.ts';
import { mapKeywords } from '../../config/json-schema.ts';

const prefix = '#/components/schemas/';

/** Keywords whose value is data, not a schema; copied unchanged. */
const dataKeywords = new Set(['const', 'enum', 'default', 'examples', 'required', 'example']);

/** Refers to a component of the document from a schema. */
export function componentReference(name: string): string {
  return `${prefix}${name}`;
}

/**
 * A deep copy of a schema as plain JSON for the document: the gateway's own keywords are left out, and its definitions
 * move to `components` as `{owner}.{name}`.
 */
export function embedSchema(schema: unknown, owner: string, components: Map<string, unknown>): unknown {
  const root = schemaObject(schema);
  const own = definitionsWithin(root);
  const copy = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(copy);
    return isJsonObject(value) ? copyMembers(value) : value;
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

/** An object of the document, or a JSON Schema in it. */
export type DocumentObject = Readonly<Record<string, unknown>>;

/** Shape of the errors of an operation, by the API that its client speaks. */
export type ErrorShape = 'admin' | 'openai' | 'anthropic' | 'gemini' | 'mcp';

/** A parameter of one operation. */
export interface OperationParameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly description?: string;
  readonly schema: unknown;
  readonly example?: unknown;
}

/** A body of a request or an answer. */
export interface OperationBody {
  readonly type: string;
  readonly schema: TSchema | DocumentObject;
  readonly example?: unknown;
}

/** One operation, before the document writer adds it. */
export interface Operation {
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Below the base path, or the whole path where `unprefixed`. */
  readonly path: string;
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  readonly deprecated?: boolean;
  /** Served without the base path only. */
  readonly unprefixed?: boolean;
  readonly parameters?: readonly OperationParameter[];
  /** Whether the headers that control the gateway apply here. */
  readonly steered?: boolean;
  readonly request?: readonly OperationBody[];
  readonly requestRequired?: boolean;
  /** Default 200. */
  readonly status?: number;
  readonly answer: string;
  readonly response: readonly OperationBody[];
  readonly errors: ErrorShape | 'none';
  /** Permitted callers: holders of a service key, operators (`server.operations`), or anybody. */
  readonly access: 'key' | 'operators' | 'anybody';
  /** Members that begin with `x-`. */
  readonly extensions?: DocumentObject;
}

/** A reference to the schema of this name in the document. */
export function component(name: string): TSchema {
  return Type.Unsafe<unknown>({ $ref: componentReference(name) });
}

/** One of these texts. */
export function oneOf(values: readonly string[]): TSchema {
  return Type.Unsafe<string>({ type: 'string', enum: [...values] });
}

/** A time in Unix seconds. */
export function unixSeconds(description: string): TSchema {
  return Type.Integer({ description: `${description} Unix seconds.` });
}

/** A value that may also be null. */
export function orNull(schema: TSchema, description?: string): TSchema {
  return Type.Union([schema, Type.Null()], description === undefined ? {} : { description });
}

/** A list in the format of providers. */
export function listOf(item: TSchema): TSchema {
  return Type.Object({
    object: Type.Literal('list'),
    data: Type.Array(item),
    has_more: Type.Optional(Type.Boolean()),
  });
}

/** An object with these members and any others. */
export function openObject(members: TProperties): TObject {
  return Type.Object(members, { additionalProperties: true });
}

/** The individual part of an operation that goes to a provider; the rest is the same for all. */
export interface GatewayOperation extends Pick<Operation, 'id' | 'method' | 'path' | 'summary'> {
  readonly endpoint: EndpointId;
  readonly description?: string;
  readonly parameters?: readonly OperationParameter[];
  readonly unprefixed?: boolean;
  readonly errors?: Operation['errors'];
  readonly status?: number;
  readonly answer?: string;
  readonly request?: readonly OperationBody[];
  /** Default true. */
  readonly requestRequired?: boolean;
  readonly response: readonly OperationBody[];
}

/** A JSON body with the schema of a component. */
export function json(name: string, example: unknown): OperationBody {
  return { type: 'application/json', schema: component(name), example };
}

/** Bytes that pass through unread. */
export function bytes(type: string): OperationBody {
  return { type, schema: { type: 'string', format: 'binary' } };
}

/** A parameter in the path. */
export function inPath(name: string, example: string, description: string): OperationParameter {
  return { name, in: 'path', required: true, description, schema: { type: 'string' }, example };
}

/** An optional parameter in the query. */
export function inQuery(name: string, description: string, schema: DocumentObject): OperationParameter {
  return { name, in: 'query', required: false, description, schema };
}
