import { compileSchema } from '../../../core/config/ajv.ts';
import { RecentMap } from '../../../core/base/recent-map.ts';
import type { TrustedHosts } from '../../../core/base/host-rules.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { type HeaderList, headerValue } from '../../../core/ports/header-list.ts';
import type { McpRequest } from '../../../core/ports/mcp.ts';
import { admitUrl } from '../../guarded-fetch/guarded-fetch.ts';
import { type ApiAnswer, ApiCall, type ApiPlace } from './api-call.ts';
import { type ApiRequest, ArgumentRefused, buildRequest } from './build-request.ts';
import type { Catalogue, CatalogueTool } from './catalogue.ts';
import type { OpenapiTarget, SourceSurroundings } from './catalogue-source.ts';
import type { JsonRecord } from './document.ts';
import { isOfConnection } from './read-arguments.ts';
import { isJsonObject, isJsonType, parseJson } from '../../../core/base/json.ts';

/** Largest page of `tools/list`, in characters. */
const maxPage = 1_048_576;
/** Deepest arguments, and longest ones of which every mistake is told, in characters. */
const maxNesting = 64;
const maxExplained = 16_384;
const mostMistakes = 8;
/** Most compiled schemas. */
const maxCheckers = 128;

/** Parts of the gateway that calls need. */
export interface ToolSurroundings extends SourceSurroundings {
  readonly trusted: TrustedHosts;
}

/** One `tools/call`. */
interface ToolCallRequest {
  readonly tool: CatalogueTool;
  /** Integers beyond 2^53 as BigInt. */
  readonly args: JsonRecord;
  readonly request: McpRequest;
  /** Told of the call to the API, to abort it. */
  readonly onCall: (call: ApiCall) => void;
}

/** Where calls go, and whether the gateway's configuration names that place. */
interface NamedPlace extends ApiPlace {
  readonly isNamed: boolean;
}

type Check = (args: unknown, all: boolean) => readonly string[];

/** The tools of one catalogue: their list, and calls of them. */
export class ApiTools {
  readonly serverName: string;
  readonly serverVersion: string;
  readonly #target: OpenapiTarget;
  readonly #around: ToolSurroundings;
  readonly #tools: ReadonlyMap<string, CatalogueTool>;
  readonly #pages: readonly string[];
  readonly #places: ReadonlyMap<string, NamedPlace | GatewayError>;
  readonly #checks = new RecentMap<Check>(maxCheckers);

  constructor({ title, version, tools }: Catalogue, target: OpenapiTarget, around: ToolSurroundings) {
    this.serverName = title === '' ? target.name : title;
    this.serverVersion = version === '' ? '0' : version;
    this.#target = target;
    this.#around = around;
    this.#tools = new Map(tools.map((tool) => [tool.listed.name, tool]));
    this.#pages = pagesOf(tools);
    const servers = new Set(tools.map(({ plan }) => plan.server));
    this.#places = new Map([...servers].map((server) => [server, placeOf(server, target, around)]));
    this.#tellOfPlaces();
  }

  /** Result of `tools/list` as JSON; undefined for a cursor that no page gave. */
  page(cursor: unknown): string | undefined {
    const index =
      cursor === undefined ? 0 : typeof cursor === 'string' && /^\d{1,4}$/.test(cursor) ? Number(cursor) : -1;
    return this.#pages[index];
  }

  find(name: string): CatalogueTool | undefined {
    return this.#tools.get(name);
  }

  /** Failures of the API are results; rejects with the reason of an abort. */
  async call({ tool, args, request, onCall }: ToolCallRequest): Promise<ToolResult> {
    const { listed, plan } = tool;
    const place = this.#places.get(plan.server);
    if (place === undefined || GatewayError.is(place))
      return failedResult(place?.message ?? 'The API has no address.');
    const given = withoutNulls(args, tool);
    const mistakes = this.#mistakesOf(tool, given);
    if (mistakes.length > 0) return failedResult(`The arguments are not sent:\n${mistakes.join('\n')}`);
    let built: ApiRequest;
    try {
      built = buildRequest(plan, place.url, given);
    } catch (error) {
      if (error instanceof ArgumentRefused) return failedResult(error.message);
      throw error;
    }
    const { maxAnswerBytes, timeoutMs, name } = this.#target;
    const call = new ApiCall(
      {
        place,
        method: built.method,
        path: built.path,
        headers: this.#headers(built.headers, request.headers, place),
        body: built.body,
        headTimeoutMs: request.headTimeoutMs,
        idleTimeoutMs: request.idleTimeoutMs,
        timeoutMs,
        maxBytes: maxAnswerBytes,
      },
      this.#around,
    );
    onCall(call);
    try {
      const uri = `api://${encodeURIComponent(name)}/${listed.name}`;
      return toolResult(await call.answer, built.method, uri);
    } catch (error) {
      const isOfApi =
        GatewayError.is(error) && (error.code.startsWith('upstream_') || error.code === 'address_refused');
      if (!isOfApi) throw error;
      return failedResult(`The API brought no answer: ${error.message}`);
    }
  }

  /** Those of the configuration win over those of the connection, these over arguments, and these over the usual ones. */
  #headers(ofArguments: HeaderList, ofConnection: HeaderList, { isNamed }: NamedPlace): HeaderList {
    const usual = ['user-agent', 'weir', 'accept', 'application/json, text/*;q=0.9, */*;q=0.5'];
    const forwarded = pairsOf(ofConnection).filter(([name]) => {
      const lower = name.toLowerCase();
      return !isOfConnection(lower) && (isNamed || lower === 'traceparent' || lower === 'tracestate');
    });
    const taken = new Set<string>();
    const list: string[] = [];
    for (const layer of [
      isNamed ? pairsOf(this.#target.headers) : [],
      forwarded,
      pairsOf(ofArguments),
      pairsOf(usual),
    ]) {
      const fresh = layer.filter(([name]) => !taken.has(name.toLowerCase()));
      for (const [name, value] of fresh) {
        list.push(name, value);
        taken.add(name.toLowerCase());
      }
    }
    return list;
  }

  #mistakesOf({ listed }: CatalogueTool, args: JsonRecord): readonly string[] {
    const plain = plainValue(args, 0);
    if (plain === tooDeep) return [`They are nested more than ${maxNesting} deep.`];
    const check = this.#checks.touch(listed.name) ?? this.#checkOf(listed.name, listed.inputSchema);
    const first = check(plain, false);
    return first.length === 0 || JSON.stringify(plain).length > maxExplained ? first : check(plain, true);
  }

  #checkOf(name: string, inputSchema: JsonRecord): Check {
    // A copy: compiled schemas are kept with their object, and this one stays.
    const schema = { ...inputSchema };
    const check: Check = (args, all) =>
      compileSchema(schema, { foreign: true, ...(all && { all, most: mostMistakes }) })(args).map(
        ({ path, message }) => `${path === '' ? 'arguments' : path}: ${message}`,
      );
    const safe = this.#compiles(name, check) ? check : () => [];
    this.#checks.set(name, safe);
    return safe;
  }

  #compiles(tool: string, check: Check): boolean {
    try {
      check({}, false);
      return true;
    } catch (error) {
      const { name: server } = this.#target;
      this.#around.log.warn('Arguments of a tool are not checked: its schema is invalid', {
        server,
        tool,
        error,
      });
      return false;
    }
  }

  #tellOfPlaces(): void {
    const { name: server, headers } = this.#target;
    for (const [url, place] of this.#places) {
      const fields = { server, host: new URL(url).host };
      if (GatewayError.is(place)) this.#around.log.warn(place.message, fields);
      else if (!place.isNamed && headers.length > 0)
        this.#around.log.warn(
          'An API gets no headers: only its document names its host; set base_url',
          fields,
        );
    }
  }
}

/** Results of `tools/list`, written once. */
function pagesOf(tools: readonly CatalogueTool[]): readonly string[] {
  const pages: string[][] = [[]];
  let size = 0;
  for (const { listed } of tools) {
    const json = JSON.stringify(listed);
    if (size > 0 && size + json.length > maxPage) {
      pages.push([]);
      size = 0;
    }
    pages.at(-1)?.push(json);
    size += json.length;
  }
  return pages.map((page, index) => {
    const next = index + 1 < pages.length ? `,"nextCursor":"${index + 1}"` : '';
    return `{"tools":[${page.join(',')}]${next}}`;
  });
}

/** The configuration names `base_url`, the document's own origin, and the hosts in a file of its own. */
function placeOf(
  server: string,
  { document, baseUrl }: OpenapiTarget,
  { trusted }: ToolSurroundings,
): NamedPlace | GatewayError {
  const url = new URL(server);
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    return refusedPlace(url, 'its URL must be http or https');
  if (url.username !== '' || url.password !== '')
    return refusedPlace(url, 'its URL carries credentials; send them as "headers"');
  const isNamed = baseUrl !== undefined || !URL.canParse(document) || new URL(document).origin === url.origin;
  if (isNamed) return { url, guarded: false, isNamed };
  try {
    return { url, guarded: !admitUrl(server, trusted).trusted, isNamed };
  } catch (error) {
    if (GatewayError.is(error)) return error;
    throw error;
  }
}

function refusedPlace({ host }: URL, reason: string): GatewayError {
  return new GatewayError('address_refused', `The API at "${host}" is not called: ${reason}.`);
}

function pairsOf(headers: HeaderList): (readonly [string, string])[] {
  const pairs: (readonly [string, string])[] = [];
  for (let i = 0; i < headers.length; i += 2) pairs.push([headers[i] as string, headers[i + 1] as string]);
  return pairs;
}

/** Some clients send null for what they leave out; a path, a query and a header cannot hold it. */
function withoutNulls(args: JsonRecord, { plan }: CatalogueTool): JsonRecord {
  const absent = new Set(
    plan.parameters.map(({ argument }) => argument).filter((name) => args[name] === null),
  );
  return absent.size === 0
    ? args
    : Object.fromEntries(Object.entries(args).filter(([name]) => !absent.has(name)));
}

const tooDeep = Symbol('nested too deep');

/** A copy with numbers in place of BigInts, which schemas do not know. */
function plainValue(value: unknown, depth: number): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth === maxNesting) return tooDeep;
  const entries = Object.entries(value).map(
    ([name, member]) => [name, plainValue(member, depth + 1)] as const,
  );
  if (entries.some(([, member]) => member === tooDeep)) return tooDeep;
  return Array.isArray(value) ? entries.map(([, member]) => member) : Object.fromEntries(entries);
}

/** Longest piece of an error's body, in characters. */
const maxErrorText = 4_096;
const maxHeaderText = 2_048;

/** Result of `tools/call`. */
type ToolResult = JsonRecord;

/** A call that brought nothing, in words for the model. */
function failedResult(text: string): ToolResult {
  return { content: [{ type: 'text', text }], isError: true };
}

/** The answer of the API in the terms of the protocol. `uri` names what binary answers hold. */
function toolResult(answer: ApiAnswer, method: string, uri: string): ToolResult {
  const { status, headers, body } = answer;
  const encoding = headerValue(headers, 'content-encoding')?.trim().toLowerCase() ?? '';
  if (encoding !== '' && encoding !== 'identity') {
    return failedResult('The API sent a compressed answer, which it was not asked for.');
  }
  if (status >= 300) return failedResult(failureText(answer));
  if (method === 'HEAD') return { content: [{ type: 'text', text: headText(answer) }] };
  if (body.length === 0) {
    const location = headerValue(headers, 'location');
    const place = location === undefined ? '' : ` (location: ${location.slice(0, maxHeaderText)})`;
    return { content: [{ type: 'text', text: `The API answered ${status} without a body${place}.` }] };
  }
  const type = mediaType(answer);
  if (isJsonType(type)) return jsonResult(body.toString('utf8'));
  if (isTextType(type)) return { content: [{ type: 'text', text: decodedText(answer) }] };
  const data = body.toString('base64');
  if (type.startsWith('image/')) return { content: [{ type: 'image', mimeType: type, data }] };
  const resource = { uri, mimeType: type === '' ? 'application/octet-stream' : type, blob: data };
  return { content: [{ type: 'resource', resource }] };
}

/** An API that says JSON and sends something else is repeated as text. */
function jsonResult(text: string): ToolResult {
  const content = [{ type: 'text', text }];
  const value = parseJson(text);
  return isJsonObject(value) ? { content, structuredContent: value } : { content };
}

function failureText(answer: ApiAnswer): string {
  const { status, headers, body } = answer;
  if (status < 400) {
    const location = headerValue(headers, 'location')?.slice(0, maxHeaderText) ?? 'nowhere';
    return `The API answered ${status}: it redirects to ${location}, which is not followed.`;
  }
  const type = mediaType(answer);
  const said = isJsonType(type) || isTextType(type) ? decodedText(answer).trim() : '';
  if (said === '') {
    const kind = body.length === 0 ? 'without a body' : `with ${body.length} bytes of ${type || 'no type'}`;
    return `The API answered ${status} ${kind}.`;
  }
  const piece = said.length > maxErrorText ? `${said.slice(0, maxErrorText)}… (cut)` : said;
  return `The API answered ${status}:\n${piece}`;
}

const toldOfHead = ['content-type', 'content-length', 'etag', 'last-modified', 'location'];

function headText({ status, headers }: ApiAnswer): string {
  const lines = toldOfHead.flatMap((name) => {
    const value = headerValue(headers, name);
    return value === undefined ? [] : [`${name}: ${value.slice(0, maxHeaderText)}`];
  });
  return [`The API answered ${status}.`, ...lines].join('\n');
}

function mediaType({ headers }: ApiAnswer): string {
  return (headerValue(headers, 'content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

function isTextType(type: string): boolean {
  return /^(text\/.+|application\/(.+\+)?(xml|yaml|x-yaml|javascript|x-ndjson|graphql|x-www-form-urlencoded))$/.test(
    type,
  );
}

function decodedText({ headers, body }: ApiAnswer): string {
  const charset = /;\s*charset="?([\w-]+)/i.exec(headerValue(headers, 'content-type') ?? '')?.[1] ?? 'utf-8';
  try {
    return new TextDecoder(charset).decode(body);
  } catch {
    return body.toString('utf8');
  }
}
