import type { AttemptContext, JsonObject, JsonValue } from '../../core/pipeline/context.ts';
import { RecentMap } from '../../core/base/recent-map.ts';
import { sha256 } from '../../core/base/bytes.ts';
import { isConvertible } from './replay.ts';
import { quote } from '../../core/base/json.ts';

/** Keys of the cache. */
export const cacheKeys = {
  canonicalJson,
  of: cacheKey,
  rememberBody,
  question: questionKey,
  namespace: namespaceOf,
};

/** Requests with a body nested more deeply than this are not cached; real ones are never so deep. */
const maxDepth = 256;

/**
 * Canonical text of a JSON document: independent of whitespace and the order of members, different for every other
 * difference. Top-level members in `without` are left out; integers beyond 2^53 keep their digits. Undefined for a
 * document that is nested too deeply.
 */
function canonicalJson(value: JsonValue, without: ReadonlySet<string>): string | undefined {
  return write(value, without, 0);
}

const nothing: ReadonlySet<string> = new Set();

function write(value: JsonValue, without: ReadonlySet<string>, depth: number): string | undefined {
  if (typeof value === 'string') return quote(value);
  // Not JSON.stringify: it throws for a BigInt, and writes infinite numbers as null.
  if (typeof value !== 'object' || value === null) return String(value);
  if (depth === maxDepth) return undefined;
  return Array.isArray(value) ? list(value, depth) : members(value, without, depth);
}

function list(items: readonly JsonValue[], depth: number): string | undefined {
  let text = '';
  for (let i = 0; i < items.length; i++) {
    const item = write(items[i] as JsonValue, nothing, depth + 1);
    if (item === undefined) return undefined;
    text += i === 0 ? item : `,${item}`;
  }
  return `[${text}]`;
}

function members(
  object: Readonly<Record<string, JsonValue>>,
  without: ReadonlySet<string>,
  depth: number,
): string | undefined {
  let text = '';
  for (const name of sorted(Object.keys(object))) {
    if (without.has(name)) continue;
    const value = write(object[name] as JsonValue, nothing, depth + 1);
    if (value === undefined) return undefined;
    text += text === '' ? `${quote(name)}:${value}` : `,${quote(name)}:${value}`;
  }
  return `{${text}}`;
}

/** Longer lists of names go to the engine's own sort, which allocates at each call. */
const maxInserted = 16;

/** The same list, in the order of UTF-16 code units. */
function sorted(names: string[]): string[] {
  if (names.length > maxInserted) return names.sort();
  for (let i = 1; i < names.length; i++) {
    const name = names[i] as string;
    let place = i;
    for (; place > 0 && (names[place - 1] as string) > name; place--)
      names[place] = names[place - 1] as string;
    names[place] = name;
  }
  return names;
}

/** Part of every key, so that answers stored by an older version of the gateway are not found. */
const format = 'weir-answer-6';
/** The same for keys of comparable questions. */
const questionFormat = 'weir-question-4';

/**
 * Members that affect the delivery of an answer and not its content: either form of an answer can be made from the
 * other. Every other member counts, even an unknown one: two bodies that differ in it never share an answer.
 */
const deliveryMembers: ReadonlySet<string> = new Set(['stream', 'stream_options']);
const none: ReadonlySet<string> = new Set();
/** Number of cached bodies, and their maximum length. */
const maxRemembered = 1000;
const maxRememberedLength = 16_384;
/** Bytes of the longest request that has a key: making one takes milliseconds for each megabyte. */
const maxKeyedBytes = 4_194_304;
/** Numbers of sampled characters: many bodies differ only by an id at their end. */
const sampledAtEnd = 16;
const sampledElsewhere = 24;
/** Longer canonical bodies enter the key as a digest of their own, which can be cached. */
const maxPlainLength = 2048;

/** Members that tie an answer to state at the provider, which changes. */
const statefulMembers = ['background', 'conversation', 'container'] as const;

/**
 * The key under which the answer to this request is stored: a SHA-256, which reveals nothing about its input.
 *
 * It always includes organisation, workspace, endpoint with path and query, the body after the changes of all plugins,
 * the target (provider, address, settings, credential) and the terms of translating its answer to the client's wire.
 * With a namespace header it includes the namespace; without one, the client's headers that the provider may read and
 * the request's metadata. Undefined for a request whose answer must not be cached.
 */
function cacheKey(context: AttemptContext): string | undefined {
  const sent = context.attempt.body;
  if (!sent.loaded || sent.bytes.length > maxKeyedBytes) return undefined;
  const { json, text } = sent;
  if (typeof json !== 'object' || json === null || Array.isArray(json) || isStateful(json)) return undefined;
  const circumstances = circumstancesOf(context);
  const bodies = bodiesOf(context);
  const known = bodies.find(text);
  if (known !== undefined) return known.keyIn(circumstances);
  const body = bodies.make(json);
  return body === undefined ? undefined : keyOf(format, body, circumstances);
}

/**
 * Caches the body of a request that has a key: the next equal body gets its key at a fraction of the cost. Call it for
 * repeated bodies only; most bodies never come again.
 */
function rememberBody(context: AttemptContext): void {
  const { json, text } = context.attempt.body;
  bodiesOf(context).remember(text, json as JsonObject);
}

/**
 * Key of a set of comparable questions: it includes everything that `cacheKey` does, except the parts of the body that
 * `rest` leaves out. `space` names the vector space in which the questions are compared.
 */
function questionKey(context: AttemptContext, rest: JsonObject, space: string): string | undefined {
  const body = canonicalJson(rest, isConvertible(context) ? deliveryMembers : none);
  if (body === undefined) return undefined;
  return keyOf(questionFormat, part(space) + bodyKey(body), circumstancesOf(context));
}

/** The namespace that the request names; undefined for none. */
function namespaceOf(context: AttemptContext): string | undefined {
  return context.service('cache-namespace') || undefined;
}

/** Everything in a key except the body. */
interface Circumstances {
  readonly organisationId: string;
  readonly workspaceId: string;
  readonly endpoint: string;
  readonly path: string;
  readonly query: string;
  readonly target: string;
  readonly terms: string;
  /** Undefined for none. With one, the following members are not part of the key. */
  readonly namespace: string | undefined;
  readonly headers: string;
  readonly metadata: string;
}

function circumstancesOf(context: AttemptContext): Circumstances {
  const { organisationId, workspaceId } = context.facts;
  const namespace = namespaceOf(context);
  const hasNone = namespace === undefined;
  // No spread: members after a spread give each object a hidden class of its own.
  return {
    organisationId,
    workspaceId,
    endpoint: context.endpoint.id,
    path: pathOf(context),
    query: queryOf(context),
    // Within a namespace, too: providers, hosts and accounts never share an answer.
    target: context.attempt.target,
    terms: context.attempt.terms,
    namespace,
    headers: hasNone ? clientHeaders(context) : '',
    metadata: hasNone ? metadata(context) : '',
  };
}

function areSame(one: Circumstances, other: Circumstances): boolean {
  return (
    one.organisationId === other.organisationId &&
    one.workspaceId === other.workspaceId &&
    one.endpoint === other.endpoint &&
    one.path === other.path &&
    one.query === other.query &&
    one.target === other.target &&
    one.terms === other.terms &&
    one.namespace === other.namespace &&
    one.headers === other.headers &&
    one.metadata === other.metadata
  );
}

function keyOf(kind: string, body: string, circumstances: Circumstances): string {
  const { before, behind } = aroundBody(circumstances);
  return sha256(`${kind}${before}${part(body)}${behind}`, 'base64url');
}

/** Text before and after the body in the input of a key's digest. */
interface Surroundings {
  readonly circumstances: Circumstances;
  readonly before: string;
  readonly behind: string;
}

let last: Surroundings | undefined;

/** Cached for the next request, which mostly has the same circumstances. */
function aroundBody(circumstances: Circumstances): Surroundings {
  if (last !== undefined && areSame(last.circumstances, circumstances)) return last;
  const { organisationId, workspaceId, endpoint, path, query, namespace } = circumstances;
  const { target, terms } = circumstances;
  const before = part(organisationId) + part(workspaceId) + part(endpoint) + part(path) + part(query);
  const rest =
    namespace === undefined
      ? circumstances.headers + circumstances.metadata
      : part('namespace') + part(namespace);
  const behind = part(target) + part(terms) + rest;
  return (last = { circumstances, before, behind });
}

/** Path of the key. Some wires choose streaming in the path, after its last colon. */
function pathOf(context: AttemptContext): string {
  const { path } = context;
  return hasDeliveryOutsideBody(context) ? path.slice(0, path.lastIndexOf(':')) : path;
}

/** Query of the key. Some wires choose the framing of the stream in it. */
function queryOf(context: AttemptContext): string {
  const { query } = context;
  if (!hasDeliveryOutsideBody(context)) return query;
  const members = query.slice(1).split('&');
  return members.filter((member) => member !== '' && !member.startsWith('alt=')).join('&');
}

function hasDeliveryOutsideBody(context: AttemptContext): boolean {
  return context.dialect.readCall !== undefined && isConvertible(context);
}

/** Text with its length, so that no two lists of parts make the same text. */
function part(text: string): string {
  return `${text.length}:${text}`;
}

/** A repeated body with its latest key. */
class KnownBody {
  readonly text: string;
  private readonly body: string;
  private circumstances: Circumstances | undefined;
  private key = '';

  /** `body` represents `text` in keys. */
  constructor(text: string, body: string) {
    this.text = text;
    this.body = body;
  }

  keyIn(circumstances: Circumstances): string {
    if (this.circumstances === undefined || !areSame(this.circumstances, circumstances)) {
      this.key = keyOf(format, this.body, circumstances);
      this.circumstances = circumstances;
    }
    return this.key;
  }
}

/** Repeated bodies by their fingerprint; of those with the same fingerprint, the latest one. */
class KnownBodies {
  private readonly without: ReadonlySet<string>;
  private readonly known = new RecentMap<KnownBody, number>(maxRemembered);

  constructor(without: ReadonlySet<string>) {
    this.without = without;
  }

  find(text: string): KnownBody | undefined {
    const known = this.known.get(fingerprintOf(text));
    return known?.text === text ? known : undefined;
  }

  /** `json` is the parsed `text`. */
  remember(text: string, json: JsonObject): void {
    if (text.length > maxRememberedLength || this.find(text) !== undefined) return;
    const body = this.make(json);
    if (body !== undefined) this.known.set(fingerprintOf(text), new KnownBody(text, body));
  }

  /** Undefined for a document that is nested too deeply. */
  make(json: JsonObject): string | undefined {
    const canonical = canonicalJson(json, this.without);
    return canonical === undefined ? undefined : bodyKey(canonical);
  }
}

/**
 * Fingerprint of a text from its length, its last characters and a sample of the others. With the texts as keys of a
 * map, V8 would hash every character of every body: ten times the cost of this and one comparison of texts.
 */
function fingerprintOf(text: string): number {
  const { length } = text;
  let looks = length;
  const end = Math.max(0, length - sampledAtEnd);
  for (let i = end; i < length; i++) looks = (Math.imul(looks, 31) + text.charCodeAt(i)) | 0;
  const step = Math.max(1, Math.ceil(end / sampledElsewhere));
  for (let i = 0; i < end; i += step) looks = (Math.imul(looks, 31) + text.charCodeAt(i)) | 0;
  return looks;
}

const bodiesOfOneForm = new KnownBodies(none);
/** For requests whose answers can be converted between stream and JSON document. */
const bodiesOfAnyForm = new KnownBodies(deliveryMembers);

function bodiesOf(context: AttemptContext): KnownBodies {
  return isConvertible(context) ? bodiesOfAnyForm : bodiesOfOneForm;
}

/** The body or its digest. No digest is a JSON document, so the two never collide. */
function bodyKey(canonical: string): string {
  return canonical.length <= maxPlainLength ? canonical : sha256(canonical, 'base64url');
}

function isStateful(json: JsonObject): boolean {
  for (const member of statefulMembers) {
    const value = json[member];
    if (value !== undefined && value !== null && value !== false) return true;
  }
  return false;
}

/** The headers in one order, independent of the client's. */
function clientHeaders({ attempt }: AttemptContext): string {
  const { clientHeaders: headers } = attempt;
  if (headers.length === 0) return '';
  const found: string[] = [];
  for (let i = 0; i < headers.length; i += 2)
    found.push(part(headers[i] as string) + part(headers[i + 1] as string));
  return part('headers') + found.sort().join('');
}

function metadata({ facts }: AttemptContext): string {
  const names = Object.keys(facts.metadata);
  if (names.length === 0) return '';
  const members = names.sort().map((name) => part(name) + part(facts.metadata[name] ?? ''));
  return part('metadata') + members.join('');
}
