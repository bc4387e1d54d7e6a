import type { AttemptContext, JsonObject, JsonValue } from '../../core/pipeline/context.ts';
import { RecentMap } from '../../core/base/recent-map.ts';
import { sha256 } from '../../core/base/sha256.ts';
import { isConvertible } from './replay.ts';
import { quote } from '../../core/base/json.ts';

/** A body that is nested more deeply than this is not cached; no model is asked with one. */
const maxDepth = 256;

/**
 * The same text for JSON documents that say the same, whatever their whitespace and the order of their members, and
 * another one for every other difference: members of `without` (of the document itself) are left out, integers beyond
 * 2^53 keep their digits. Undefined for a document that is nested too deeply.
 */
export function canonicalJson(value: JsonValue, without: ReadonlySet<string>): string | undefined {
  return write(value, without, 0);
}

const nothing: ReadonlySet<string> = new Set();

function write(value: JsonValue, without: ReadonlySet<string>, depth: number): string | undefined {
  if (typeof value === 'string') return quote(value);
  // Not JSON.stringify: it knows no BigInt, and writes numbers that are too large as null.
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

/** More names than these are left to the engine's own sort, which takes memory for each call. */
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

/** Part of every key: what an older version of the gateway has stored is not found. */
const format = 'weir-answer-6';
/** Of the key of questions that may be compared. */
const questionFormat = 'weir-question-4';

/**
 * How the answer is delivered, not what it says: either form of an answer is made of the other. Everything else counts:
 * whatever a provider does with a member (`user`, `seed`, one that nobody here knows), two bodies that differ in it
 * never share an answer.
 */
const deliveryMembers: ReadonlySet<string> = new Set(['stream', 'stream_options']);
const none: ReadonlySet<string> = new Set();
/** Bodies that are remembered with what is made of them, and how long they may be. */
const maxRemembered = 1000;
const maxRememberedLength = 16_384;
/** Bytes of the longest request that has a key: making one takes milliseconds for each megabyte. */
const maxKeyedBytes = 4_194_304;
/** Characters by which they are told apart at first: an id stands at the end of many bodies. */
const lookedAtEnd = 16;
const lookedAtElsewhere = 24;
/** A body whose canonical form is longer stands in the key as a digest of its own, which can be remembered. */
const maxPlainLength = 2048;

/** Members that tie an answer to something that the provider keeps and changes. */
const statefulMembers = ['background', 'conversation', 'container'] as const;

/**
 * The key under which the answer to this request is kept: a SHA-256, which tells nothing of what it was made of.
 *
 * Always in it: organisation, workspace, endpoint with path and query, the body as it stands after all plugins that
 * changed it, the target (provider, address, settings, credential) and the terms on which its answer is put into the
 * client's wire. With a namespace header the namespace; without one the client's headers that the provider may read and
 * the request's metadata. Undefined for a request whose answer must not be kept.
 */
export function cacheKey(context: AttemptContext): string | undefined {
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
 * Remembers the body of a request that has a key: the next one like it gets its key for a fraction. Worth it for bodies
 * that have come again. Remembering every one would make most of them live for nothing.
 */
export function rememberBody(context: AttemptContext): void {
  const { json, text } = context.attempt.body;
  bodiesOf(context).remember(text, json as JsonObject);
}

/**
 * The same for questions that are compared with each other: whatever makes two keys differ makes these differ, too, but for
 * what `rest` leaves out of the body. `space` says by what the questions are compared.
 */
export function questionKey(context: AttemptContext, rest: JsonObject, space: string): string | undefined {
  const body = canonicalJson(rest, isConvertible(context) ? deliveryMembers : none);
  if (body === undefined) return undefined;
  return keyOf(questionFormat, part(space) + inKey(body), circumstancesOf(context));
}

/** The namespace that the request names; undefined for none. */
export function namespaceOf(context: AttemptContext): string | undefined {
  return context.service('cache-namespace') || undefined;
}

/** All that a key depends on but the body. */
interface Circumstances {
  readonly organisationId: string;
  readonly workspaceId: string;
  readonly endpoint: string;
  readonly path: string;
  readonly query: string;
  readonly target: string;
  readonly terms: string;
  /** Undefined for none; with one, what follows does not count. */
  readonly namespace: string | undefined;
  readonly headers: string;
  readonly metadata: string;
}

function circumstancesOf(context: AttemptContext): Circumstances {
  const { organisationId, workspaceId } = context.facts;
  const namespace = namespaceOf(context);
  const hasNone = namespace === undefined;
  // Written out: members that stand behind a spread one make a hidden class of its own for each object.
  return {
    organisationId,
    workspaceId,
    endpoint: context.endpoint.id,
    path: pathOf(context),
    query: queryOf(context),
    // Within a namespace, too: the answer of one provider, host or account is none of another.
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

/** What stands around the body in the text of which a key is the digest. */
interface Surroundings {
  readonly circumstances: Circumstances;
  readonly before: string;
  readonly behind: string;
}

let last: Surroundings | undefined;

/** Remembered for the next request, which mostly comes under the same circumstances. */
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

/** Some wires say in the path whether the answer shall be streamed: behind its last colon. */
function pathOf(context: AttemptContext): string {
  const { path } = context;
  return saysDeliveryOutside(context) ? path.slice(0, path.lastIndexOf(':')) : path;
}

/** And in the query how the stream is framed. */
function queryOf(context: AttemptContext): string {
  const { query } = context;
  if (!saysDeliveryOutside(context)) return query;
  const members = query.slice(1).split('&');
  return members.filter((member) => member !== '' && !member.startsWith('alt=')).join('&');
}

function saysDeliveryOutside(context: AttemptContext): boolean {
  return context.dialect.readCall !== undefined && isConvertible(context);
}

/** Text with its length, so that no two lists of parts make the same text. */
function part(text: string): string {
  return `${text.length}:${text}`;
}

/** A body that has come again, with the key that it had last. */
class KnownBody {
  readonly text: string;
  private readonly body: string;
  private circumstances: Circumstances | undefined;
  private key = '';

  /** `body` stands for it in keys. */
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

/** Bodies that have come again: one of those that look alike, the last one that was remembered. */
class KnownBodies {
  private readonly without: ReadonlySet<string>;
  private readonly known = new RecentMap<KnownBody, number>(maxRemembered);

  constructor(without: ReadonlySet<string>) {
    this.without = without;
  }

  find(text: string): KnownBody | undefined {
    const known = this.known.get(looksOf(text));
    return known?.text === text ? known : undefined;
  }

  /** `json` is what `text` says. */
  remember(text: string, json: JsonObject): void {
    if (text.length > maxRememberedLength || this.find(text) !== undefined) return;
    const body = this.make(json);
    if (body !== undefined) this.known.set(looksOf(text), new KnownBody(text, body));
  }

  /** Undefined for a document that is nested too deeply. */
  make(json: JsonObject): string | undefined {
    const canonical = canonicalJson(json, this.without);
    return canonical === undefined ? undefined : inKey(canonical);
  }
}

/**
 * A number made of a text's length, its last characters and some from all over it. A map from texts would have V8 hash
 * every character of every body, which costs ten times as much as this and comparing the one that looks alike.
 */
function looksOf(text: string): number {
  const { length } = text;
  let looks = length;
  const end = Math.max(0, length - lookedAtEnd);
  for (let i = end; i < length; i++) looks = (Math.imul(looks, 31) + text.charCodeAt(i)) | 0;
  const step = Math.max(1, Math.ceil(end / lookedAtElsewhere));
  for (let i = 0; i < end; i += step) looks = (Math.imul(looks, 31) + text.charCodeAt(i)) | 0;
  return looks;
}

const bodiesOfOneForm = new KnownBodies(none);
/** Where either form of an answer is made of the other. */
const bodiesOfAnyForm = new KnownBodies(deliveryMembers);

function bodiesOf(context: AttemptContext): KnownBodies {
  return isConvertible(context) ? bodiesOfAnyForm : bodiesOfOneForm;
}

/** No digest is a JSON document, so that the two never look alike. */
function inKey(canonical: string): string {
  return canonical.length <= maxPlainLength ? canonical : sha256(canonical, 'base64url');
}

function isStateful(json: JsonObject): boolean {
  for (const member of statefulMembers) {
    const value = json[member];
    if (value !== undefined && value !== null && value !== false) return true;
  }
  return false;
}

/** In one order, however the client sends them. */
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
