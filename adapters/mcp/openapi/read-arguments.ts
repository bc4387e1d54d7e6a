import {
  hopByHopHeaders,
  headersSetAnew,
  credentialHeaders,
  isHeaderName,
} from '../../../core/base/header-names.ts';
import { childPointer, isJsonObject, isJsonType } from '../../../core/base/json.ts';
import { quoted } from '../../../core/base/did-you-mean.ts';
import { type ApiDocument, DocumentMistake, type JsonRecord, type Placed } from './document.ts';
import { clipped, SchemaInliner } from './inline-schema.ts';

/** Depths of schemas that are tried until the arguments of a tool fit. */
const depths = [24, 12, 8, 6, 5, 4, 3, 2, 1];
/** Shortest JSON of a schema with what is around it, in characters. */
const charactersPerSchema = 12;
/** Longest names of arguments that every model provider takes. */
const maxName = 64;

/** Headers that no argument sets, in lower case. */
const reserved: ReadonlySet<string> = new Set([
  ...credentialHeaders,
  ...['cookie', 'traceparent', 'tracestate', 'baggage'],
]);

/** Whether a header (in lower case) concerns a connection, its body or the protocol of tools, and not the API. */
export function isOfConnection(lower: string): boolean {
  return connectionHeaders.has(lower) || lower.startsWith('mcp-');
}

const connectionHeaders: ReadonlySet<string> = new Set([
  ...hopByHopHeaders,
  ...headersSetAnew,
  ...['accept', 'content-type', 'content-encoding', 'last-event-id', 'origin'],
]);

/** How a value is written into a path, a query or a form. */
export interface ValueStyle {
  readonly style: 'simple' | 'form' | 'spaceDelimited' | 'pipeDelimited' | 'deepObject';
  /** Lists and objects become a parameter for each member. */
  readonly explode: boolean;
}

/** A parameter of the API. */
export interface ParameterPlan extends ValueStyle {
  /** The argument of the tool. */
  readonly argument: string;
  /** As the API calls it. */
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  /** Its value is written as JSON. */
  readonly isJson: boolean;
  /** Names that an exploded object may have: each becomes a parameter of the query. */
  readonly members: readonly string[];
}

/** The body of requests. */
export interface BodyPlan {
  readonly argument: string;
  readonly contentType: string;
  /** Of a form: by the names of its members; others are written as `form`, and objects as `deepObject`. */
  readonly form: Readonly<Record<string, ValueStyle>> | undefined;
}

/** Arguments of one operation. */
interface OperationArguments {
  readonly inputSchema: JsonRecord;
  readonly parameters: readonly ParameterPlan[];
  readonly body: BodyPlan | undefined;
}

/** An operation, and what is known around it. */
interface ArgumentSource {
  readonly document: ApiDocument;
  readonly path: string;
  readonly pathPointer: string;
  readonly takesBody: boolean;
  readonly operation: { readonly value: JsonRecord; readonly pointer: string };
  readonly item: { readonly value: JsonRecord; readonly pointer: string };
  /** Headers and parameters of the query that every call has: no argument sets them. Headers in lower case. */
  readonly headerNames: ReadonlySet<string>;
  readonly queryNames: ReadonlySet<string>;
  readonly maxSchema: number;
}

/** An argument before its schema is inlined. */
interface Argument {
  readonly name: string;
  readonly schema: Placed;
  readonly description: string;
  readonly isRequired: boolean;
}

/** Reads the parameters and the body of an operation. Throws `DocumentMistake` for one that no tool can be made of. */
export function readArguments(source: ArgumentSource): OperationArguments {
  const names = new Set<string>();
  const found = parametersOf(source).map((parameter) => argumentOf(parameter, names, source));
  checkTemplate(source, found);
  const body = source.takesBody ? bodyOf(source, names) : undefined;
  const described = [
    ...found.map(({ argument }) => argument),
    ...(body === undefined ? [] : [body.argument]),
  ];
  return {
    inputSchema: inputSchemaOf(described, source),
    parameters: found.map(({ plan }) => plan),
    body: body?.plan,
  };
}

/** The deepest description of all arguments that fits. */
function inputSchemaOf(described: readonly Argument[], source: ArgumentSource): JsonRecord {
  const { document, maxSchema, operation } = source;
  const required = described.filter(({ isRequired }) => isRequired).map(({ name }) => name);
  for (const maxDepth of depths) {
    const bounds = { maxDepth, maxSchemas: Math.ceil(maxSchema / charactersPerSchema) };
    const inliner = new SchemaInliner(document, bounds);
    const properties = described.map(({ name, schema, description }) => {
      const inlined = inliner.inline(schema.value, schema.pointer);
      return [
        name,
        description === '' ? inlined : { ...inlined, description: clipped(description) },
      ] as const;
    });
    const inputSchema = {
      type: 'object',
      properties: Object.fromEntries(properties),
      ...(required.length > 0 && { required }),
      additionalProperties: false,
    };
    if (JSON.stringify(inputSchema).length <= maxSchema) return inputSchema;
  }
  const remedy = 'leave it out with "exclude", or other operations';
  throw new DocumentMistake(
    operation.pointer,
    `its arguments take more than ${maxSchema} characters; ${remedy}`,
  );
}

/** Parameters of the path item, replaced by those of the operation. */
function parametersOf(source: ArgumentSource): readonly Placed[] {
  const { document, operation, item } = source;
  const found = new Map<string, Placed>();
  for (const { value, pointer } of [item, operation]) {
    const list: unknown = value['parameters'];
    if (list === undefined) continue;
    const at = childPointer(pointer, 'parameters');
    if (!Array.isArray(list)) throw new DocumentMistake(at, 'it must be a list of parameters; correct it');
    list.forEach((raw: unknown, index) => {
      const placed = document.resolved(raw, childPointer(at, index));
      if (!isJsonObject(placed.value))
        throw new DocumentMistake(placed.pointer, 'a parameter is an object; correct it');
      const { name, in: where } = placed.value;
      if (typeof name !== 'string' || name === '' || typeof where !== 'string')
        throw new DocumentMistake(placed.pointer, 'a parameter has a "name" and "in"; add them');
      found.set(`${where} ${where === 'header' ? name.toLowerCase() : name}`, placed);
    });
  }
  return [...found.values()].filter((placed) => isArgument(placed, source));
}

/** No argument says how a connection behaves. Credentials and cookies come with the headers of the server. */
function isArgument({ value, pointer }: Placed, { headerNames, queryNames }: ArgumentSource): boolean {
  const { name, in: where } = value as { readonly name: string; readonly in: string };
  if (where === 'path') return true;
  if (where === 'query') return !queryNames.has(name);
  if (where === 'cookie') return false;
  if (where !== 'header') {
    throw new DocumentMistake(
      childPointer(pointer, 'in'),
      'it is "path", "query", "header" or "cookie"; correct it',
    );
  }
  const lower = name.toLowerCase();
  return isHeaderName(name) && !isOfConnection(lower) && !reserved.has(lower) && !headerNames.has(lower);
}

interface FoundArgument {
  readonly argument: Argument;
  readonly plan: ParameterPlan;
}

function argumentOf({ value, pointer }: Placed, names: Set<string>, source: ArgumentSource): FoundArgument {
  const parameter = value as JsonRecord & { readonly name: string; readonly in: ParameterPlan['in'] };
  const { name, in: where, description } = parameter;
  const { schema, isJson } = parameterSchema(parameter, pointer);
  const { style, explode } = styleOf(parameter, pointer);
  const argument = {
    name: argumentName(name, where, names),
    schema,
    description: typeof description === 'string' ? description : '',
    isRequired: where === 'path' || parameter['required'] === true,
  };
  const isOpen = where === 'query' && style === 'form' && explode;
  const members = isOpen
    ? membersOf(schema, source.document).filter((member) => !source.queryNames.has(member))
    : [];
  return { argument, plan: { argument: argument.name, name, in: where, style, explode, isJson, members } };
}

/** The schema of a parameter, which may stand below a media type. */
function parameterSchema(
  parameter: JsonRecord,
  pointer: string,
): { readonly schema: Placed; readonly isJson: boolean } {
  const { schema, content } = parameter;
  const none = { schema: { value: {}, pointer }, isJson: false };
  if (schema !== undefined)
    return { schema: { value: schema, pointer: childPointer(pointer, 'schema') }, isJson: false };
  const [type] = isJsonObject(content) ? Object.entries(content) : [];
  if (type === undefined) return none;
  const [name, media] = type;
  const at = childPointer(childPointer(childPointer(pointer, 'content'), name), 'schema');
  const value = isJsonObject(media) ? (media['schema'] ?? {}) : {};
  return { schema: { value, pointer: at }, isJson: isJsonType(name) };
}

const queryStyles = ['form', 'spaceDelimited', 'pipeDelimited', 'deepObject'] as const;

function styleOf(parameter: JsonRecord, pointer: string): ValueStyle {
  const { in: where, style, explode } = parameter;
  const isQuery = where === 'query';
  const fallback = isQuery ? 'form' : 'simple';
  const allowed: readonly ValueStyle['style'][] = isQuery ? queryStyles : ['simple'];
  const known = style === undefined ? fallback : allowed.find((one) => one === style);
  if (known === undefined) {
    const remedy = `${allowed.map(quoted).join(', ')} are written; leave the operation out with "exclude"`;
    throw new DocumentMistake(childPointer(pointer, 'style'), `this style is not written, only ${remedy}`);
  }
  return { style: known, explode: typeof explode === 'boolean' ? explode : known === 'form' };
}

/** Names of the members that a schema describes, those of its parts included. */
function membersOf({ value, pointer }: Placed, document: ApiDocument, depth = 0): readonly string[] {
  const { value: schema, pointer: at } = document.resolved(value, pointer);
  if (!isJsonObject(schema) || depth > 8) return [];
  const own = isJsonObject(schema['properties']) ? Object.keys(schema['properties']) : [];
  const parts = ['allOf', 'anyOf', 'oneOf'].flatMap((keyword) => {
    const list: unknown = schema[keyword];
    const place = childPointer(at, keyword);
    return Array.isArray(list)
      ? list.flatMap((value: unknown, index) =>
          membersOf({ value, pointer: childPointer(place, index) }, document, depth + 1),
        )
      : [];
  });
  return [...new Set([...own, ...parts])].slice(0, 1_000);
}

/** The name of the API in the allowed characters; one that is taken says where it goes. */
function argumentName(name: string, where: string, names: Set<string>): string {
  const plain = name.replace(/[^a-zA-Z0-9_.-]+/g, '_').replace(/^_+|_+$/g, '') || where;
  for (let count = 0; ; count += 1) {
    const ending = count === 0 ? '' : count === 1 ? `_${where}` : `_${where}_${count}`;
    const candidate = plain.slice(0, maxName - ending.length) + ending;
    if (names.has(candidate)) continue;
    names.add(candidate);
    return candidate;
  }
}

/** Every name in the path is a parameter, and the rest of it stays as it is. */
function checkTemplate({ path, pathPointer }: ArgumentSource, found: readonly FoundArgument[]): void {
  const known = new Set(found.filter(({ plan }) => plan.in === 'path').map(({ plan }) => plan.name));
  for (const [, name = ''] of path.matchAll(/\{([^{}/]*)\}/g)) {
    if (!known.has(name))
      throw new DocumentMistake(pathPointer, `no parameter in "path" describes ${quoted(name)}; add it`);
  }
  const literal = path.replace(/\{[^{}/]*\}/g, 'x');
  if (/[?#{}\\\s%]/.test(literal) || literal.split('/').some((part) => part === '.' || part === '..'))
    throw new DocumentMistake(
      pathPointer,
      'a path holds no "?", "#", "%", "\\", space, "." or ".."; correct it',
    );
}

/** The body that a tool can give: JSON, else a form. */
function bodyOf(
  { document, operation }: ArgumentSource,
  names: Set<string>,
): { readonly argument: Argument; readonly plan: BodyPlan } | undefined {
  const raw = operation.value['requestBody'];
  if (raw === undefined) return undefined;
  const { value, pointer } = document.resolved(raw, childPointer(operation.pointer, 'requestBody'));
  const content = isJsonObject(value) ? value['content'] : undefined;
  if (!isJsonObject(value) || !isJsonObject(content))
    throw new DocumentMistake(pointer, 'a body has "content" by media type; add it');
  const offered = Object.keys(content);
  const type = offered.find((one) => isJsonType(one)) ?? offered.find((one) => isForm(one) || one === '*/*');
  if (type === undefined) {
    if (value['required'] !== true) return undefined;
    const types = offered.slice(0, 3).map(quoted).join(', ');
    const remedy = 'leave the operation out with "exclude"';
    throw new DocumentMistake(pointer, `the body is ${types}, and tools send JSON or a form; ${remedy}`);
  }
  const media = content[type];
  const schema = isJsonObject(media) ? (media['schema'] ?? {}) : {};
  const at = childPointer(childPointer(pointer, 'content'), type);
  const { description } = value;
  const name = argumentName('body', 'request', names);
  return {
    argument: {
      name,
      schema: { value: schema, pointer: childPointer(at, 'schema') },
      description: typeof description === 'string' ? description : '',
      isRequired: value['required'] === true,
    },
    plan: {
      argument: name,
      contentType: type === '*/*' ? 'application/json' : type,
      form: isForm(type) ? formStyles(media, at) : undefined,
    },
  };
}

function isForm(type: string): boolean {
  return /^application\/x-www-form-urlencoded\b/i.test(type);
}

function formStyles(media: unknown, pointer: string): Readonly<Record<string, ValueStyle>> {
  const encoding = isJsonObject(media) && isJsonObject(media['encoding']) ? media['encoding'] : {};
  const styles = Object.entries(encoding).flatMap(([name, one]) =>
    isJsonObject(one) && one['style'] !== undefined
      ? [
          [
            name,
            styleOf({ ...one, in: 'query' }, childPointer(childPointer(pointer, 'encoding'), name)),
          ] as const,
        ]
      : [],
  );
  return Object.fromEntries(styles);
}
