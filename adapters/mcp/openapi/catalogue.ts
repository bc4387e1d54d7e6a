import { sha256 } from '../../../core/base/bytes.ts';
import { childPointer, isJsonObject } from '../../../core/base/json.ts';
import { quoted } from '../../../core/base/did-you-mean.ts';
import { ApiDocument, DocumentMistake, type JsonRecord } from './document.ts';
import { clipped } from './inline-schema.ts';
import { readArguments, type BodyPlan, type ParameterPlan } from './read-arguments.ts';

/** Longest JSON of the arguments of one tool, and of those of all tools together, in characters. */
const maxToolSchema = 32_768;
const maxSchemas = 4_194_304;
const maxDescription = 2_000;
const maxTitle = 200;
/** Operations that are left out with a reason of their own; the others are counted. */
const maxReasons = 50;

const methods = ['get', 'head', 'post', 'put', 'patch', 'delete'] as const;
type Method = (typeof methods)[number];

/** A tool as `tools/list` shows it. */
export interface ListedTool {
  /** Unique; of the characters that every model provider takes. */
  readonly name: string;
  readonly title?: string;
  readonly description: string;
  readonly inputSchema: JsonRecord;
  readonly annotations: Readonly<Record<string, boolean>>;
}

/** The request that a call of a tool becomes. */
export interface CallPlan {
  readonly method: string;
  /** URL before the path. */
  readonly server: string;
  /** Path of the document, with its `{names}`. */
  readonly path: string;
  readonly parameters: readonly ParameterPlan[];
  readonly body: BodyPlan | undefined;
}

/** One operation of the document. */
export interface CatalogueTool {
  readonly listed: ListedTool;
  readonly plan: CallPlan;
}

/** The tools of a document; plain data, which passes between threads. */
export interface Catalogue {
  readonly title: string;
  readonly version: string;
  readonly tools: readonly CatalogueTool[];
  /** Operations without a tool, and settings without effect: places, reasons and remedies for the log. */
  readonly leftOut: readonly string[];
}

/** Settings of a target that decide about its tools. */
export interface CatalogueSettings {
  /** URL that the document came from; undefined for a file. Relative servers continue it. */
  readonly documentUrl: string | undefined;
  readonly baseUrl: string | undefined;
  readonly include: readonly string[] | undefined;
  readonly exclude: readonly string[] | undefined;
  readonly maxTools: number;
  /** Headers that every call has, in lower case: no argument sets them. */
  readonly headerNames: readonly string[];
}

/** An operation that is wanted, with its places in the document. */
interface Operation {
  readonly method: Method;
  readonly path: string;
  readonly item: JsonRecord;
  readonly itemPointer: string;
  readonly operation: JsonRecord;
  readonly pointer: string;
}

/** Reads an OpenAPI document. Throws `DocumentMistake` when no tool comes of it. */
export function readCatalogue(text: string, settings: CatalogueSettings): Catalogue {
  const document = new ApiDocument(text);
  const { info, paths } = document.root;
  if (!isJsonObject(paths))
    throw new DocumentMistake('/paths', 'it must be an object with the paths of the API');
  const reasons: string[] = [];
  const found = operationsOf(document, paths, reasons);
  const wanted = wantedOf(found, settings, reasons);
  const taken = wanted.slice(0, settings.maxTools);
  if (wanted.length > taken.length) {
    const more = wanted.length - taken.length;
    reasons.push(`${more} operations over "max_tools" (${settings.maxTools}); choose with "include"`);
  }
  const maxSchema = Math.min(maxToolSchema, Math.floor(maxSchemas / Math.max(1, taken.length)));
  const names = new Set<string>();
  const secured = securityNames(document.root);
  const tools: CatalogueTool[] = [];
  for (const operation of taken) {
    try {
      tools.push(toolOf(operation, { document, settings, maxSchema, names, secured }));
    } catch (error) {
      if (!(error instanceof DocumentMistake)) throw error;
      reasons.push(error.message);
    }
  }
  const leftOut = reasons.slice(0, maxReasons);
  if (reasons.length > maxReasons) leftOut.push(`${reasons.length - maxReasons} more`);
  if (tools.length === 0) {
    const why = leftOut.length === 0 ? 'it has none' : leftOut.slice(0, 5).join('; ');
    throw new DocumentMistake('/paths', `no operation becomes a tool: ${why}`);
  }
  const { title, version } = isJsonObject(info) ? info : {};
  return {
    title: typeof title === 'string' ? clipped(title, maxTitle) : '',
    version: typeof version === 'string' ? clipped(version, maxTitle) : '',
    tools,
    leftOut,
  };
}

/** All operations in the order of the document. */
function operationsOf(document: ApiDocument, paths: JsonRecord, reasons: string[]): readonly Operation[] {
  const found: Operation[] = [];
  for (const [path, raw] of Object.entries(paths)) {
    if (path.startsWith('x-')) continue;
    const at = childPointer('/paths', path);
    try {
      if (!path.startsWith('/')) throw new DocumentMistake(at, 'a path begins with "/"; correct it');
      const { value: item, pointer: itemPointer } = document.resolved(raw, at);
      if (!isJsonObject(item))
        throw new DocumentMistake(at, 'a path holds an object of operations; correct it');
      for (const method of methods) {
        const operation = item[method];
        const pointer = childPointer(itemPointer, method);
        if (isJsonObject(operation)) found.push({ method, path, item, itemPointer, operation, pointer });
      }
    } catch (error) {
      if (!(error instanceof DocumentMistake)) throw error;
      reasons.push(error.message);
    }
  }
  return found;
}

/** Those that the settings want. */
function wantedOf(
  found: readonly Operation[],
  { include, exclude }: CatalogueSettings,
  reasons: string[],
): readonly Operation[] {
  const named = (patterns: readonly string[], option: string): ReadonlySet<Operation> => {
    const all = new Set<Operation>();
    for (const pattern of patterns) {
      const hits = found.filter((operation) => isNamed(pattern, operation));
      if (hits.length === 0) {
        const remedy = 'write an operation id or "METHOD /path", with "*" for any text';
        reasons.push(`"${option}" names ${quoted(pattern)}, which no operation matches; ${remedy}`);
      }
      for (const hit of hits) all.add(hit);
    }
    return all;
  };
  const included = include === undefined ? undefined : named(include, 'include');
  const excluded = named(exclude ?? [], 'exclude');
  return found.filter((operation) => included?.has(operation) !== false && !excluded.has(operation));
}

function isNamed(pattern: string, { method, path, operation: { operationId } }: Operation): boolean {
  if (typeof operationId === 'string' && matchesGlob(pattern, operationId)) return true;
  return matchesGlob(pattern, `${method.toUpperCase()} ${path}`);
}

/** `*` stands for any text. Takes time in proportion to the texts. */
function matchesGlob(pattern: string, text: string): boolean {
  const [first = '', ...parts] = pattern.split('*');
  const last = parts.pop();
  if (last === undefined) return pattern === text;
  if (!text.startsWith(first) || !text.endsWith(last)) return false;
  let at = first.length;
  const end = text.length - last.length;
  for (const part of parts) {
    const next = text.indexOf(part, at);
    if (next === -1) return false;
    at = next + part.length;
  }
  return at <= end;
}

/** Names of parameters that hold keys of the API, by their place. Headers in lower case. */
interface SecurityNames {
  readonly header: readonly string[];
  readonly query: readonly string[];
}

function securityNames({ components }: JsonRecord): SecurityNames {
  const schemes =
    isJsonObject(components) && isJsonObject(components['securitySchemes'])
      ? components['securitySchemes']
      : {};
  const found: { readonly header: string[]; readonly query: string[] } = { header: [], query: [] };
  for (const scheme of Object.values(schemes)) {
    if (!isJsonObject(scheme) || typeof scheme['name'] !== 'string') continue;
    if (scheme['in'] === 'header') found.header.push(scheme['name'].toLowerCase());
    if (scheme['in'] === 'query') found.query.push(scheme['name']);
  }
  return found;
}

/** What the tools of one document share. */
interface Reading {
  readonly document: ApiDocument;
  readonly settings: CatalogueSettings;
  /** Longest JSON of one tool's arguments. */
  readonly maxSchema: number;
  /** Names of tools so far. */
  readonly names: Set<string>;
  /** Parameters that hold keys of the API. */
  readonly secured: SecurityNames;
}

function toolOf(
  operation: Operation,
  { document, settings, maxSchema, names, secured }: Reading,
): CatalogueTool {
  const { method, path, item, itemPointer, pointer } = operation;
  const server = serverOf(operation, document, settings);
  const { inputSchema, parameters, body } = readArguments({
    document,
    path,
    pathPointer: childPointer('/paths', path),
    takesBody: method !== 'get' && method !== 'head',
    operation: { value: operation.operation, pointer },
    item: { value: item, pointer: itemPointer },
    headerNames: new Set([...settings.headerNames, ...secured.header]),
    queryNames: new Set([...new URL(server).searchParams.keys(), ...secured.query]),
    maxSchema,
  });
  const { summary, description, deprecated } = operation.operation;
  const title = typeof summary === 'string' ? clipped(summary, maxTitle) : '';
  const listed = {
    name: nameOf(operation, names),
    ...(title !== '' && { title }),
    description: descriptionOf([summary, description], operation, deprecated === true),
    inputSchema,
    annotations: annotations[method],
  };
  return { listed, plan: { method: method.toUpperCase(), server, path, parameters, body } };
}

const annotations: Readonly<Record<Method, Readonly<Record<string, boolean>>>> = {
  get: { readOnlyHint: true },
  head: { readOnlyHint: true },
  post: { readOnlyHint: false },
  put: { readOnlyHint: false, idempotentHint: true },
  patch: { readOnlyHint: false },
  delete: { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
};

function descriptionOf(
  parts: readonly unknown[],
  { method, path }: Operation,
  isDeprecated: boolean,
): string {
  const [summary, description] = parts.map((part) => (typeof part === 'string' ? part.trim() : ''));
  const repeats = summary !== undefined && description?.startsWith(summary) === true;
  const texts = [isDeprecated ? 'Deprecated.' : '', repeats ? '' : summary, description];
  const said = texts.filter((text) => text !== undefined && text !== '').join('\n\n');
  return said === '' ? `${method.toUpperCase()} ${path}` : clipped(said, maxDescription);
}

/** Its operation id, else method and path, of the allowed characters. One that is taken gets a mark of method and path. */
function nameOf({ method, path, operation: { operationId } }: Operation, names: Set<string>): string {
  const place = `${method.toUpperCase()} ${path}`;
  const given = typeof operationId === 'string' ? plainName(operationId) : '';
  const wanted = given === '' ? plainName(place) : given;
  const mark = `_${sha256(place, 'hex').slice(0, 8)}`;
  const fits = wanted.length <= 64 && !names.has(wanted);
  const name = fits ? wanted : `${wanted.slice(0, 64 - mark.length)}${mark}`;
  names.add(name);
  return name;
}

function plainName(text: string): string {
  return text.replace(/[^a-zA-Z0-9_-]+/g, '_').replace(/^_+|_+$/g, '');
}

/** URL before the path of an operation: the setting, else the first server of the operation, its path or the document. */
function serverOf(
  { operation, pointer, item, itemPointer }: Operation,
  { root }: ApiDocument,
  { baseUrl, documentUrl }: CatalogueSettings,
): string {
  if (baseUrl !== undefined) return baseUrl;
  const places = [
    { servers: operation['servers'], at: `${pointer}/servers` },
    { servers: item['servers'], at: `${itemPointer}/servers` },
    { servers: root['servers'], at: '/servers' },
  ];
  const given = places.find(({ servers }) => Array.isArray(servers) && servers.length > 0);
  const first: unknown = Array.isArray(given?.servers) ? given.servers[0] : { url: '/' };
  const at = given === undefined ? '/servers' : `${given.at}/0/url`;
  const url = isJsonObject(first) && typeof first['url'] === 'string' ? first['url'] : undefined;
  if (url === undefined) throw new DocumentMistake(at, 'the URL of the server is missing; set "base_url"');
  const filled = url.replace(/\{([^{}]*)\}/g, (variable, name: string) => defaultOf(first, name) ?? variable);
  if (filled.includes('{')) {
    throw new DocumentMistake(at, 'a variable of the URL has no default; set "base_url"');
  }
  if (!URL.canParse(filled, documentUrl)) {
    throw new DocumentMistake(at, 'no complete URL of the API comes of it; set "base_url"');
  }
  return new URL(filled, documentUrl).href;
}

function defaultOf(server: unknown, name: string): string | undefined {
  const variables = isJsonObject(server) ? server['variables'] : undefined;
  const variable = isJsonObject(variables) && Object.hasOwn(variables, name) ? variables[name] : undefined;
  const text = isJsonObject(variable) ? variable['default'] : undefined;
  return typeof text === 'string' ? text : undefined;
}
