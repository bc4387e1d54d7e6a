import type { Dialect } from '../dialects/dialect.ts';
import type { Endpoint } from '../dialects/endpoint.ts';
import { canonicalPath } from '../dialects/match-endpoint.ts';
import type { AttemptBody, JsonValue, NamedModels } from './context.ts';
import { parseJson } from '../base/json.ts';
import { decodePercent } from '../base/bytes.ts';

/** One field of a form, as every parser of forms reads it. */
interface FormField {
  readonly name: string;
  readonly value: Buffer;
}

/** Longest name or header line of one part. */
const maxLine = 1_000;

/**
 * The fields of a form, when all parsers of forms agree on them; undefined for a body that some of them read differently:
 * another type, a boundary that also occurs elsewhere, text before the first part or after the last, folded or odd
 * headers, encoded values. `contentType` is the one header of that name.
 */
function formFields(contentType: string, bytes: Buffer): readonly FormField[] | undefined {
  if (isUrlEncoded(contentType)) {
    const text = bytes.toString('latin1');
    return /^[!-~]*$/.test(text) ? urlEncodedFields(text) : undefined;
  }
  const boundary = boundaryOf(contentType);
  return boundary === undefined ? undefined : partsOf(bytes, boundary);
}

/** Whether the type is that of a form in one line (`a=1&b=2`). */
function isUrlEncoded(contentType: string): boolean {
  return /^\s*application\/x-www-form-urlencoded\s*(?:;|$)/i.test(contentType);
}

/** The fields of a query or a form in one line; `;` separates them too, as in some old parsers. */
function urlEncodedFields(text: string): readonly FormField[] {
  const fields: FormField[] = [];
  for (const pair of text.split(/[&;]/)) {
    if (pair === '') continue;
    const at = pair.indexOf('=');
    const name = at === -1 ? pair : pair.slice(0, at);
    const value = at === -1 ? '' : pair.slice(at + 1);
    fields.push({ name: decoded(name), value: Buffer.from(decoded(value), 'utf8') });
  }
  return fields;
}

function decoded(text: string): string {
  const spaced = text.replaceAll('+', ' ');
  try {
    return decodeURIComponent(spaced);
  } catch {
    return spaced;
  }
}

function boundaryOf(contentType: string): string | undefined {
  const found =
    /^\s*multipart\/form-data\s*;\s*boundary=(?:"([\w'()+,./:=? -]{1,70})"|([\w'+.-]{1,70}))\s*$/i.exec(
      contentType,
    );
  const boundary = found?.[1] ?? found?.[2];
  return boundary?.endsWith(' ') === true ? undefined : boundary;
}

const crlf = '\r\n';

function partsOf(bytes: Buffer, boundary: string): readonly FormField[] | undefined {
  const fields: FormField[] = [];
  const line = `--${boundary}`;
  let from = startOfPart(bytes, 0, line);
  while (from !== undefined && !isLast(bytes, from)) {
    const next = bytes.indexOf(line, from, 'latin1');
    if (next === -1 || !precededByLine(bytes, next)) return undefined;
    const field = readPart(bytes.subarray(from + crlf.length, next - crlf.length));
    if (field === undefined) return undefined;
    fields.push(field);
    from = startOfPart(bytes, next, line);
  }
  if (from === undefined) return undefined;
  const rest = bytes.toString('latin1', from + 2, from + 6);
  return bytes.length <= from + 4 && (rest === '' || rest === crlf) ? fields : undefined;
}

/** Offset behind the boundary that begins here, which a line's end or the end of the form must follow. */
function startOfPart(bytes: Buffer, at: number, line: string): number | undefined {
  const end = at + line.length;
  if (bytes.toString('latin1', at, end) !== line) return undefined;
  const after = bytes.toString('latin1', end, end + 2);
  return after === crlf || after === '--' ? end : undefined;
}

function isLast(bytes: Buffer, from: number): boolean {
  return bytes.toString('latin1', from, from + 2) === '--';
}

function precededByLine(bytes: Buffer, at: number): boolean {
  return bytes.toString('latin1', at - crlf.length, at) === crlf;
}

const disposition =
  /^content-disposition: *form-data; *name=(?:"([^"\\\r\n]*)"|([\w.[\]-]+))(?:; *filename=(?:"([^"\\\r\n]*)"|[\w.-]+))?(?:; *filename\*=[\w.%'~-]+)?$/i;
const type = /^content-type: *[^\s;,]+(?:; *[\w-]+=(?:"[^"\\]*"|[^\s;",]+))*$/i;
const plainHeader = /^(?:content-length: *\d+|content-transfer-encoding: *(?:7bit|8bit|binary))$/i;

/** Undefined for a part whose name or value some parsers read differently. */
function readPart(part: Buffer): FormField | undefined {
  const end = part.indexOf(`${crlf}${crlf}`, 0, 'latin1');
  if (end === -1 || end > 4 * maxLine) return undefined;
  let name: string | undefined;
  for (const line of part.toString('utf8', 0, end).split(crlf)) {
    if (line.length > maxLine || /[\r\n\0]/.test(line)) return undefined;
    const found = disposition.exec(line);
    if (found !== null) {
      if (name !== undefined || /name\s*\*?=/i.test(found[3] ?? '')) return undefined;
      name = decoded(found[1] ?? found[2] ?? '');
    } else if (!plainHeader.test(line) && !(type.test(line) && !declaresOtherCharset(line))) return undefined;
  }
  // A field of this name sets the encoding of the others.
  if (name === undefined || name === '_charset_') return undefined;
  return { name, value: part.subarray(end + 2 * crlf.length) };
}

/** Whether a content type names an encoding other than UTF-8 and ASCII. */
function declaresOtherCharset(contentType: string): boolean {
  const named = [...contentType.matchAll(/charset\s*\*?\d*\*?=\s*"?([^";,\s]*)/gi)];
  return named.some((one) => !/^(?:utf-?8|us-ascii)$/i.test(one[1] ?? ''));
}

/** Parts of a request that can name its model. */
export interface NamingRequest {
  readonly method: string;
  /** Raw path below the base path. */
  readonly path: string;
  /** Raw query with its `?`, or empty. */
  readonly query: string;
  readonly endpoint: Endpoint;
  readonly dialect: Pick<Dialect, 'readCall'>;
  /** It asks for WebSocket. */
  readonly isUpgrade: boolean;
  /** The body to send; undefined for a request without one. */
  readonly body: Pick<AttemptBody, 'loaded' | 'bytes' | 'json' | 'text'> | undefined;
  header(name: string): string | undefined;
}

const nothing: NamedModels = { names: [], untold: undefined, isUnnamed: false };

/** Members that name the model of a body; each element of a list of requests names its own. */
const mainPlaces = places('model', 'models', 'model_id', 'modelid', 'session.model');
/** Models that run beside the main one. */
const besidePlaces = places(
  ...['tools.model', 'fallbacks', 'fallbacks.model', 'generatecontentrequest.model', 'data_source.model'],
  ...['input_audio_transcription.model', 'audio.input.transcription.model'],
  ...['session.input_audio_transcription.model', 'session.audio.input.transcription.model'],
  'data_sources.parameters.embedding_dependency.deployment_name',
);
/** Where an element of `requests` names its model. */
const requestPlaces = places('model', 'params.model', 'body.model');
/** Headers that choose one of several deployments of a host. */
const deploymentHeaders = ['azureml-model-deployment', 'x-ms-model-mesh-model-name'];
const overridingHeaders = ['x-http-method-override', 'x-http-method', 'x-method-override'];

/** Operations that store, change or stop something and run no model, in the one spelling that all servers read alike. */
const modelFree = [
  /^\/(?:files|uploads|vector_stores|containers|conversations)(?:\/[\w-]+)*$/,
  /^\/threads(?:\/(?!runs(?:\/|$))[\w-]+(?:\/messages(?:\/[\w-]+)?)?)?$/,
  /^\/(?:batches|responses|fine_tuning\/jobs)\/[\w-]+\/(?:cancel|pause|resume)$/,
];
/** The only WebSocket conversation whose messages cannot change its model. */
const realtimePath = /^(?:\/v1|\/openai(?:\/v1)?)?\/realtime$/;

/** Whether the operation runs no model, so that its body need not be read. */
export function runsNoModel({
  method,
  path,
  isUpgrade,
}: Pick<NamingRequest, 'method' | 'path' | 'isUpgrade'>) {
  if (isUpgrade || method === 'GET') return false;
  return modelFree.some((pattern) => pattern.test(path));
}

/**
 * The models that a request names in its path, its query, its headers or its body: JSON of any content type or a form.
 * The one source for all rules about models. A body that is not loaded is `untold`.
 */
export function namedModels(request: NamingRequest): NamedModels {
  if (runsNoModel(request)) return nothing;
  const found = new Found();
  readPath(request, found);
  readHeaders(request, found);
  readFields(urlEncodedFields(request.query.replace(/^\?/, '')), found, true);
  if (request.isUpgrade) readUpgrade(request, found);
  else if (request.body !== undefined) readBody(request.body, request, found);
  let isUnnamed = false;
  if (found.main.length === 0 && mayRunModel(request)) {
    if (canonicalPath(request.path).endsWith('/batches'))
      found.tell('the models of a batch stand in its file');
    isUnnamed = found.untold === undefined;
    found.tell('it names no model');
  }
  return { names: [...found.main, ...found.beside], untold: found.untold, isUnnamed };
}

class Found {
  readonly main: string[] = [];
  readonly beside: string[] = [];
  untold: string | undefined;

  tell(why: string): void {
    this.untold ??= why;
  }
}

/** Reading and deleting run no model, unless a header overrides the method. */
function mayRunModel(request: NamingRequest): boolean {
  const { method } = request;
  if (method !== 'GET' && method !== 'HEAD' && method !== 'DELETE' && method !== 'OPTIONS') return true;
  return request.isUpgrade || overridingHeaders.some((name) => request.header(name) !== undefined);
}

function readHeaders(request: NamingRequest, found: Found): void {
  for (const name of deploymentHeaders) {
    const value = request.header(name);
    if (value !== undefined) found.beside.push(value);
  }
}

/** Messages over WebSocket are not read: a model is known only where the request fixes it. */
function readUpgrade({ path, query }: NamingRequest, found: Found): void {
  if (!realtimePath.test(path)) found.tell('the messages over this WebSocket may name any model');
  else if (/[?&;]intent=/i.test(query))
    found.tell('a session with an "intent" is told its model by its messages');
}

/** Words of a path that a model's name follows, and whether it may have slashes of its own. */
const markers: ReadonlyMap<string, 'one' | 'rest'> = new Map([
  ['models', 'rest'],
  ['tunedmodels', 'rest'],
  ['model', 'one'],
  ['deployments', 'one'],
  ['engines', 'one'],
]);
/** Suffixes that some hosts put behind the name of a model. */
const operations = /\/(?:predictions|pipeline\/[^/]+|v1\/chat\/completions)$/;

function readPath({ path, endpoint, dialect }: NamingRequest, found: Found): void {
  if (endpoint.dialect === 'google-gemini') {
    const call = dialect.readCall?.(path);
    if (call === undefined || call.model === '') found.tell('the model in its path cannot be read');
    else found.main.push(call.model);
    return;
  }
  const segments = path.split('/').filter((one) => one !== '');
  for (const [at, raw] of segments.entries()) {
    const word = decodePercent(raw);
    const before =
      at === 0 ? undefined : markers.get(decodePercent(segments[at - 1] as string).toLowerCase());
    if (before === undefined && containsMarker(word)) found.tell('its path has a "/" that is encoded');
    const kind = markers.get(word.toLowerCase());
    const rest = segments.slice(at + 1).map(decodePercent);
    if (kind === 'one' && rest[0] !== undefined) found.main.push(rest[0]);
    else if (kind === 'rest' && rest.length > 0) found.main.push(withoutMethod(rest.join('/')));
    else if (word.toLowerCase() === 'run' && rest[0]?.startsWith('@') === true)
      found.main.push(rest.join('/'));
    if (kind === 'rest' && rest.length > 0) return;
  }
}

function withoutMethod(name: string): string {
  const colon = name.lastIndexOf(':');
  return (colon > name.lastIndexOf('/') ? name.slice(0, colon) : name).replace(operations, '');
}

function containsMarker(word: string): boolean {
  if (!/[/\\]/.test(word)) return false;
  return word.split(/[/\\]/).some((one) => markers.has(one.toLowerCase()) || one.toLowerCase() === 'run');
}

function readBody(body: NonNullable<NamingRequest['body']>, request: NamingRequest, found: Found): void {
  if (!body.loaded) return found.tell('its body has not been read');
  if (body.bytes.length === 0) return undefined;
  const contentType = request.header('content-type') ?? '';
  if (declaresOtherCharset(contentType)) return found.tell('its body says another charset than utf-8');
  const { json } = body;
  const isObject = typeof json === 'object' && json !== null && !Array.isArray(json);
  if (isObject) readMembers(Object.entries(json), found);
  const isForm = /^\s*multipart\//i.test(contentType) || isUrlEncoded(contentType);
  // JSON often has the content type of a form; it is read as both.
  const isBoth = isObject && isUrlEncoded(contentType);
  const fields = isBoth
    ? urlEncodedFields(body.text)
    : isForm
      ? formFields(contentType, body.bytes)
      : undefined;
  if (fields !== undefined) readFields(fields, found, false);
  else if (isForm) found.tell('its form can be read in several ways');
  else if (!isObject && !isPlainData(contentType, body.bytes))
    found.tell('its body is neither a JSON object nor a form');
}

/** Sound, pictures and the like, which name no model. */
function isPlainData(contentType: string, bytes: Buffer): boolean {
  if (!/^\s*(?:audio\/|video\/|image\/|application\/octet-stream\b)/i.test(contentType)) return false;
  return !/^(?:\ufeff|\s)*(?:[{[]|--|[\w%.[\]-]+=)/.test(bytes.toString('utf8', 0, 256));
}

/** All fields whose names contain `model` count, in any spelling. */
function readFields(
  fields: readonly { readonly name: string; readonly value: Buffer }[],
  found: Found,
  isQuery: boolean,
): void {
  for (const { name, value } of fields) {
    const plain = name.trim().toLowerCase().replace(/\[.*$/, '');
    const isMain = plain === 'model' || plain === 'models' || plain === 'model_id' || plain === 'modelid';
    if (isMain && !name.includes('[')) found.main.push(value.toString('utf8'));
    else if (name.toLowerCase().includes('model') || (isQuery && plain === 'deployment'))
      found.beside.push(value.toString('utf8'));
    else if (!isQuery && bodyWords.has(plain)) {
      const text = value.toString('utf8');
      const json = parseJson(text);
      if (typeof json === 'object') readMembers([[plain, json]], found);
      else if (json === undefined && /^\s*[{[]/.test(text))
        found.tell(`its field "${plain}" is no valid JSON`);
    }
  }
}

type Member = readonly [string, JsonValue | undefined];

function readMembers(members: readonly Member[], found: Found): void {
  for (const place of mainPlaces) collect(members, place, 0, found.main, found);
  for (const place of besidePlaces) collect(members, place, 0, found.beside, found);
  for (const [name, value] of members) {
    if (name.toLowerCase() !== 'requests' || typeof value !== 'object' || value === null) continue;
    for (const one of Array.isArray(value) ? value : [value]) readRequest(one, found);
  }
}

function readRequest(request: JsonValue, found: Found): void {
  const members: readonly Member[] =
    typeof request === 'object' && request !== null && !Array.isArray(request) ? Object.entries(request) : [];
  const names: string[] = [];
  for (const place of requestPlaces) collect(members, place, 0, names, found);
  if (names.length === 0) found.tell('one of its requests names no model');
  found.main.push(...names);
}

/** The texts at a place; lists on the way are searched. Names are compared case-insensitively. */
function collect(
  members: readonly Member[],
  place: readonly string[],
  at: number,
  into: string[],
  found: Found,
): void {
  for (const [name, value] of members) {
    if (name.toLowerCase() !== place[at]) continue;
    for (const one of Array.isArray(value) ? value : [value]) {
      const isObject = typeof one === 'object' && one !== null && !Array.isArray(one);
      if (at < place.length - 1) {
        if (isObject) collect(Object.entries(one), place, at + 1, into, found);
      } else if (typeof one === 'string') into.push(one);
      // A fallback may be an object that names its model.
      else if (one !== null && one !== undefined && !(isObject && place[at] === 'fallbacks'))
        found.tell('the model in its body is no text');
    }
  }
}

function places(...written: readonly string[]): readonly (readonly string[])[] {
  return written.map((one) => one.split('.'));
}

const bodyWords: ReadonlySet<string> = new Set(
  [...mainPlaces, ...besidePlaces, ['requests']].map(([first]) => first as string),
);
