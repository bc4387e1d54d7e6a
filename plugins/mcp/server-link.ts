import { randomUUID } from 'node:crypto';
import { forwardedTrace } from '../../core/base/trace-context.ts';
import { isJsonObject, writeJson } from '../../core/base/json.ts';
import {
  GatewayError,
  type JsonObject,
  type JsonValue,
  type MaybePromise,
  type RequestContext,
  type Scope,
} from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { type HeaderList, headerValue, withoutHeader } from '../../core/ports/header-list.ts';
import type { McpHead, McpRequest } from '../../core/ports/mcp.ts';
import { rpcMessages } from './messages.ts';
import { takesTokens } from './oauth/server-identity.ts';
import type { UpstreamCredentials } from './oauth/upstream-credentials.ts';
import { messagesIn, ServerAnswer } from './server-answer.ts';
import type { McpServer } from './servers.ts';
import type { Session, Sessions } from './sessions.ts';

/** Pauses before another try to reach a server that refuses connections, milliseconds: it may be starting again. */
const reachPauses = [100, 300, 900, 2_700];
/** Largest answer to the gateway's own handshake. */
const maxGreetingBytes = 1_048_576;

/** One request of a client for one server. */
export interface Asked {
  readonly server: McpServer;
  readonly context: RequestContext;
  readonly caller: KeyRecord;
  /** Undefined before the handshake, and for servers without sessions. */
  readonly session: Session | undefined;
}

/** A message that is sent, as far as headers repeat it. */
interface RepeatedMessage {
  readonly method: string;
  readonly params: JsonObject;
  /** Arguments of a call as the client sent them, where they are others now. */
  readonly given?: JsonObject | undefined;
}

/** Messages, or the wish for a stream, or the end of the session. */
interface Saying extends Pick<McpRequest, 'method' | 'body' | 'lastEventId'> {
  /** The message of `body`: headers that repeat parts of it keep up with it. Default: they stay as the client sent them. */
  readonly repeated?: RepeatedMessage;
  /** The answer is a stream of what the server says by itself, which may be silent for hours. */
  readonly isListening?: boolean;
}

/** With the headers that repeat parts of its message; none where the message is the gateway's handshake. */
interface MirroredSaying extends Saying {
  readonly mirrored?: HeaderList;
}

/** An answer whose head has come. */
export interface Answered {
  readonly head: McpHead;
  readonly body: ServerAnswer;
}

/** One page of a list, or why there is none. */
interface ListPage {
  readonly result: JsonObject | undefined;
  readonly hasMore: boolean;
  /** The end of a sentence: what the server answered with, in place of a page. */
  readonly failure: string;
  readonly isUnknownMethod: boolean;
}

/** Pages of one list that the gateway itself asks for. */
const maxPages = 50;
const methodNotFound = -32_601;

function noPage(failure: string, code?: JsonValue): ListPage {
  return { result: undefined, hasMore: false, failure, isUnknownMethod: code === methodNotFound };
}

/** Sends requests to servers, and shakes hands anew where a server does not know the session any more. */
export class ServerLinks {
  readonly #scope: Pick<Scope, 'clock' | 'log'>;
  readonly #sessions: Sessions;
  readonly #credentials: UpstreamCredentials;
  /** Handshakes under way by session and slug: requests of one session share one. */
  readonly #greetings = new Map<string, Promise<string | undefined>>();

  #greeted: (session: Session, server: McpServer) => void = () => undefined;

  constructor(scope: Pick<Scope, 'clock' | 'log'>, sessions: Sessions, credentials: UpstreamCredentials) {
    this.#scope = scope;
    this.#sessions = sessions;
    this.#credentials = credentials;
  }

  /** Calls this after every handshake of the gateway itself. */
  onGreeted(greeted: (session: Session, server: McpServer) => void): void {
    this.#greeted = greeted;
  }

  /** This process has shaken hands with the server for the session. */
  isBegun(session: Session, { slug }: McpServer): boolean {
    return this.#sessions.hasSuccessor(session, slug);
  }

  /** Sends it; resolves with the answer's head. Rejects with `upstream_…` and `mcp_failed`. */
  async send(asked: Asked, said: Saying): Promise<Answered> {
    const { server, session, context } = asked;
    const mirrored = said.body === null ? [] : mirroredHeaders(context, said.repeated);
    const saying: MirroredSaying = { ...said, mirrored };
    const { facts } = context;
    facts.aiService = 'mcp';
    facts.mcpServer = server.slug;
    facts.upstreamHost = server.host;
    facts.attempts = 1;
    let upstream = session && this.#sessions.upstreamOf(session, server.slug);
    // A session with several servers begins at each of them when it is needed there.
    if (session !== undefined && upstream === undefined && session.slug !== server.slug)
      upstream = await this.#greetOnce(asked, undefined);
    let answered = await this.#reach(asked, saying, upstream);
    // Only a server that had opened a session can have forgotten it.
    if (answered.head.status === 404 && session !== undefined && upstream !== undefined) {
      answered.body.cancel(forgotten());
      if (saying.method === 'DELETE') return answered;
      upstream = await this.#greetOnce(asked, upstream);
      answered = await this.#reach(asked, saying, upstream);
    }
    return answered;
  }

  /**
   * The pages of one of the server's lists, each once, 50 at the most. Ends with a page without a result: the server
   * refuses, or has no such list.
   */
  async *pages(asked: Asked, method: string, maxBytes: number): AsyncGenerator<ListPage, void> {
    const cursors = new Set<string>();
    let cursor: string | undefined;
    do {
      const page = await this.#page(
        asked,
        { method, params: cursor === undefined ? {} : { cursor } },
        maxBytes,
      );
      yield page;
      cursor = page.result && rpcMessages.textOf(page.result, 'nextCursor');
      if (cursor === undefined || cursors.has(cursor)) return;
      cursors.add(cursor);
    } while (cursors.size < maxPages);
  }

  async #page(
    asked: Asked,
    { method, params }: { readonly method: string; readonly params: JsonObject },
    maxBytes: number,
  ): Promise<ListPage> {
    // A server cannot guess it, and answer another question of the gateway with it.
    const id = `weir-${randomUUID()}`;
    const body = Buffer.from(writeJson({ jsonrpc: '2.0', id, method, params }));
    const { head, body: stream } = await this.send(asked, {
      method: 'POST',
      body,
      lastEventId: undefined,
      repeated: { method, params },
    });
    if (head.status !== 200) {
      stream.cancel(forgotten());
      return noPage(`status ${head.status}`);
    }
    const bytes = await stream.collect(asked.context, maxBytes);
    const { result, error } = messagesIn(bytes, head.contentType).find((one) => one['id'] === id) ?? {};
    if (!isJsonObject(result)) return noPage('an error', isJsonObject(error) ? error['code'] : undefined);
    return {
      result,
      hasMore: rpcMessages.textOf(result, 'nextCursor') !== undefined,
      failure: '',
      isUnknownMethod: false,
    };
  }

  /** Once more where the server refuses connections: nothing of the request has left. */
  async #reach(asked: Asked, saying: MirroredSaying, sessionId: string | undefined): Promise<Answered> {
    for (const pause of [...reachPauses, undefined]) {
      try {
        return await this.#authorized(asked, saying, sessionId);
      } catch (error) {
        const mayCome = GatewayError.is(error) && error.code === 'upstream_unreachable';
        if (!mayCome || pause === undefined || asked.context.aborted) throw error;
        await new Promise<void>((resolve) => void this.#scope.clock.after(pause, resolve));
      }
    }
    throw new Error('The last try returns or throws.');
  }

  /** Once more with new credentials where the server refuses those that it was sent. */
  async #authorized(asked: Asked, saying: MirroredSaying, sessionId: string | undefined): Promise<Answered> {
    const { identity } = asked.server;
    const by = { key: asked.caller, request: asked.context, elicitsUrls: () => elicitsUrls(asked) };
    let answered = await this.#once(
      asked,
      saying,
      sessionId,
      identity && this.#credentials.headersFor(identity, by),
    );
    if (isRefusal(answered.head.status) && identity !== undefined && takesTokens(identity)) {
      const { status, wwwAuthenticate } = answered.head;
      answered.body.cancel(forgotten());
      const next = await this.#credentials.refused(identity, by, { status, wwwAuthenticate });
      if (next !== 'retry') throw next;
      answered = await this.#once(asked, saying, sessionId, this.#credentials.headersFor(identity, by));
    }
    const { status } = answered.head;
    if (isRefusal(status) || status >= 500 || isRedirect(status)) {
      answered.body.cancel(forgotten());
      throw refusedBy(asked.server, status);
    }
    const oddity = oddityOf(answered.head);
    if (oddity === undefined) return answered;
    answered.body.cancel(forgotten());
    throw notMcp(asked.server, oddity);
  }

  async #once(
    asked: Asked,
    saying: MirroredSaying,
    sessionId: string | undefined,
    credentials: MaybePromise<HeaderList> = [],
  ): Promise<Answered> {
    const { server, context, session, caller } = asked;
    const { clock } = this.#scope;
    const given = server.headers(caller, saying.body);
    const fixed = given instanceof Promise ? await given : given;
    const own = credentials instanceof Promise ? await credentials : credentials;
    const { facts } = context;
    facts.upstreamStartedAt ||= clock.monotonic();
    const { method, body: message, lastEventId, mirrored = [], isListening = false } = saying;
    const request = {
      method,
      body: message,
      lastEventId,
      sessionId,
      protocolVersion: versionOf(context) ?? session?.version,
      headers: [...withoutHeaders(fixed, own), ...own, ...mirrored, ...traceOf(context)],
      headTimeoutMs: server.timeoutMs,
      idleTimeoutMs: isListening ? 0 : server.timeoutMs,
    };
    const body = new ServerAnswer(server.upstream, request, () => {
      facts.upstreamEndedAt = clock.monotonic();
    });
    const head = await body.received(context);
    facts.firstByteAt ||= clock.monotonic();
    return { head, body };
  }

  /** The session that goes on for one that the server has forgotten. */
  #greetOnce(asked: Asked, before: string | undefined): Promise<string | undefined> {
    const session = asked.session as Session;
    const key = `${session.key}/${asked.server.slug}`;
    let greeting = this.#greetings.get(key);
    if (greeting === undefined) {
      greeting = this.#greet(asked, session, before).finally(() => this.#greetings.delete(key));
      this.#greetings.set(key, greeting);
    }
    return greeting;
  }

  async #greet(asked: Asked, session: Session, before: string | undefined): Promise<string | undefined> {
    const { server } = asked;
    const shared = await this.#sessions.sharedSuccessor(session, server.slug, before);
    if (shared !== undefined) return shared;
    const params: JsonObject = { ...session.greeting, protocolVersion: session.version };
    const first = await this.#say(
      asked,
      { jsonrpc: '2.0', id: 'weir', method: 'initialize', params },
      undefined,
    );
    const bytes = await first.body.collect(asked.context, maxGreetingBytes);
    const answer = messagesIn(bytes, first.head.contentType).find(({ id }) => id === 'weir');
    if (first.head.status !== 200 || !isJsonObject(answer?.['result']))
      throw new GatewayError(
        'mcp_failed',
        `The MCP server "${server.slug}" refused another handshake; see its log.`,
        { source: 'provider' },
      );
    const { sessionId } = first.head;
    const second = await this.#say(asked, { jsonrpc: '2.0', method: 'notifications/initialized' }, sessionId);
    second.body.cancel(forgotten());
    if (before !== undefined)
      this.#scope.log.info('An MCP server had forgotten a session; the gateway shook hands anew', {
        server: server.slug,
      });
    if (sessionId !== undefined) {
      await this.#sessions.succeed(session, server.slug, sessionId);
      this.#greeted(session, server);
    }
    return sessionId;
  }

  #say(asked: Asked, message: JsonObject, sessionId: string | undefined): Promise<Answered> {
    const body = Buffer.from(writeJson(message));
    return this.#reach(asked, { method: 'POST', body, lastEventId: undefined }, sessionId);
  }
}

const versionForm = /^[\w.-]{1,32}$/;

/** Throws `mcp_message_invalid` for a header that cannot be a version; the server says which ones it knows. */
function versionOf(context: RequestContext): string | undefined {
  const version = context.header('mcp-protocol-version');
  if (version === undefined || versionForm.test(version)) return version;
  throw new GatewayError(
    'mcp_message_invalid',
    'The header MCP-Protocol-Version is no version of the protocol. Send the one of the handshake: 2025-11-25.',
  );
}

const mirroredName = /^mcp-(?:method|name|param-.+)$/i;

/**
 * From 2026-07-28 on, clients repeat parts of a message in headers, which servers hold against the message. What differs
 * already as the client sent it is for the server to refuse.
 */
function mirroredHeaders(context: RequestContext, message: RepeatedMessage | undefined): HeaderList {
  const { headers } = context;
  const found: string[] = [];
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index] as string;
    if (!mirroredName.test(name)) continue;
    const text = headers[index + 1] as string;
    const value =
      message === undefined ? text : repeatedValue({ name: name.toLowerCase(), text }, context.json, message);
    if (value !== undefined) found.push(name, value);
  }
  return found;
}

/** Members of `params` that are the name of a message. */
const nameMembers = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
]);

/** `own`: the client's message, in whose place `message` is sent. */
function repeatedValue(
  { name, text }: { readonly name: string; readonly text: string },
  own: JsonValue | undefined,
  { method, params, given }: RepeatedMessage,
): string | undefined {
  if (!isJsonObject(own)) return text;
  const isOwn = own['method'] === method;
  if (name === 'mcp-method') return text === own['method'] ? method : text;
  if (name === 'mcp-name') {
    const member = nameMembers.get(method);
    if (member === undefined) return isOwn ? text : undefined;
    const before = isJsonObject(own['params']) ? own['params'][member] : undefined;
    return isOwn && before !== plainText(text) ? text : headerText(params[member]);
  }
  if (!isOwn) return undefined;
  const sent = params['arguments'];
  if (given === undefined || !isJsonObject(sent)) return text;
  return changedArgument(name.slice('mcp-param-'.length), plainText(text), given, sent);
}

/**
 * The value that an argument has now, which a header repeats: the one that had its text before, and of several the one
 * that the header is named after. Undefined where it is none, or could be one of several: what a guardrail has taken out
 * of the arguments does not leave in a header.
 */
function changedArgument(
  name: string,
  value: string,
  given: JsonObject,
  sent: JsonObject,
): string | undefined {
  const all: { readonly isNamed: boolean; readonly now: string | undefined }[] = [];
  const search = (before: JsonObject, after: JsonValue | undefined): void => {
    for (const [member, one] of Object.entries(before)) {
      const now = isJsonObject(after) && Object.hasOwn(after, member) ? after[member] : undefined;
      const text = headerText(one);
      if (isJsonObject(one)) search(one, now);
      else if (text !== undefined && (plainText(text) === value || one === Number(value)))
        all.push({ isNamed: plainName(member) === plainName(name), now: headerText(now) });
    }
  };
  search(given, sent);
  const named = all.filter(({ isNamed }) => isNamed);
  const [now, ...others] = new Set((named.length === 0 ? all : named).map((one) => one.now));
  return others.length === 0 ? now : undefined;
}

function plainName(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '');
}

/** What a header says. */
function plainText(text: string): string {
  const [, encoded] = /^=\?base64\?([\w+/]*=*)\?=$/.exec(text) ?? [];
  return encoded === undefined ? text : Buffer.from(encoded, 'base64').toString('utf8');
}

/** A value as a header holds it: in Base64 what is not plain ASCII. Undefined for what no header repeats. */
function headerText(value: JsonValue | undefined): string | undefined {
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (typeof value !== 'string') return undefined;
  const isPlain = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(value) && !value.startsWith('=?');
  return isPlain ? value : `=?base64?${Buffer.from(value, 'utf8').toString('base64')}?=`;
}

function traceOf(context: RequestContext): HeaderList {
  return ['traceparent', forwardedTrace(context.facts, context.id, undefined).parent];
}

/** The fixed headers but for those that are replaced. */
function withoutHeaders(fixed: HeaderList, replacing: HeaderList): HeaderList {
  let list = fixed;
  for (let i = 0; i < replacing.length; i += 2) {
    const name = replacing[i]?.toLowerCase() ?? '';
    if (headerValue(list, name) !== undefined) list = withoutHeader(list, name);
  }
  return list;
}

/** Versions of the protocol whose clients open URLs for their users when they say so. */
const urlElicitation = '2025-11-25';

/** The client said in its handshake that it opens URLs for its user. */
export function elicitsUrls({ session, context }: Pick<Asked, 'session' | 'context'>): boolean {
  let greeting = session?.greeting;
  if (session === undefined && context.method === 'POST') {
    const { json } = context;
    const params = isJsonObject(json) ? json['params'] : undefined;
    if (isJsonObject(params)) greeting = params;
  }
  if (!isJsonObject(greeting)) return false;
  const version = session?.version ?? rpcMessages.textOf(greeting, 'protocolVersion') ?? '';
  const { capabilities } = greeting;
  const elicitation = isJsonObject(capabilities) ? capabilities['elicitation'] : undefined;
  return version >= urlElicitation && isJsonObject(elicitation) && isJsonObject(elicitation['url']);
}

function isRefusal(status: number): boolean {
  return status === 401 || status === 403;
}

function isRedirect(status: number): boolean {
  return status >= 300 && status < 400;
}

function forgotten(): GatewayError {
  return new GatewayError('upstream_reset', 'The gateway needs nothing more of this answer.');
}

/** The types of what MCP servers say; empty where they say nothing. */
const messageTypes: ReadonlySet<string> = new Set(['', 'application/json', 'text/event-stream']);
/** Visible ASCII, as the protocol has it; with a bound, since it has to fit into the id of the client's session. */
const sessionIdForm = /^[\x21-\x7e]{1,4096}$/;

/** Something of an answer that no MCP server says, in words. Pages of errors are told by their status. */
function oddityOf({ status, contentType, sessionId }: McpHead): string | undefined {
  if (status < 300 && !messageTypes.has(contentType))
    return `an answer of another type than JSON or an event stream (${JSON.stringify(contentType.slice(0, 64))}); check its URL`;
  if (sessionId !== undefined && !sessionIdForm.test(sessionId))
    return 'a session id that is longer than 4,096 characters or not visible ASCII; see its log';
  return undefined;
}

function notMcp({ slug }: McpServer, oddity: string): GatewayError {
  return new GatewayError('mcp_failed', `The MCP server "${slug}" sent ${oddity}.`, { source: 'provider' });
}

/** A client must not take these for refusals of the gateway: it would ask its user to sign in there. */
function refusedBy({ slug }: McpServer, status: number): GatewayError {
  let remedy = 'see its log';
  if (status === 401 || status === 403)
    remedy = 'check the headers and credentials that the gateway sends it';
  else if (status < 400) remedy = 'name the address to which it redirects as its URL';
  return new GatewayError(
    'mcp_failed',
    `The MCP server "${slug}" answered with status ${status}; ${remedy}.`,
    {
      source: 'provider',
      extra: { status },
    },
  );
}
