import { isJsonObject, parseJson, writeJson } from '../../core/base/json.ts';
import { joinChunks } from '../../core/base/bytes.ts';
import { readSseFrame, SseSplitter, writeSseFrame } from '../../core/base/sse.ts';
import {
  type Answer,
  type AnswerReceiver,
  clientLeft,
  type Diversion,
  isStreamSource,
  type StreamSource,
  type StreamTarget,
} from '../../core/pipeline/answer.ts';
import { rpcRequestId } from '../../core/pipeline/keys.ts';
import { GatewayError, type JsonValue, type RequestContext, type Scope } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { headerValue } from '../../core/ports/header-list.ts';
import { callRecord } from './call-record.ts';
import { type RpcId, rpcMessages } from './messages.ts';
import type { Session, Sessions } from './sessions.ts';

/** A server, or several as one, as the caller may use them now. */
export interface Served {
  /** As sessions name it. */
  readonly slug: string;
  /** Answers as Streamable HTTP does. */
  answer(context: RequestContext, session: Session | undefined): Promise<Answer>;
}

interface OlderParts {
  readonly scope: Pick<Scope, 'clock' | 'setInterval'>;
  readonly sessions: Sessions;
  readonly maxMessageBytes: number;
  /** Longest life of a session, and of a stream without a message. */
  readonly hours: number;
}

/** One request of a client. */
interface Asking {
  readonly context: RequestContext;
  readonly caller: KeyRecord;
  readonly served: Served;
}

const maxStreams = 10_000;
const maxStreamsOfKey = 1_000;
/** Requests of one stream that wait for their answers. */
const maxCalls = 100;
const hourMs = 3_600_000;
const minuteMs = 60_000;

/**
 * The transport of protocol version 2024-11-05: a stream of events, opened with `GET`, which names the address for what
 * the client sends. Each message sent there is a request of its own, answered as over Streamable HTTP, but on the stream.
 */
export class OlderTransport {
  readonly #parts: OlderParts;
  /** By the key of the session that is in the address. */
  readonly #streams = new Map<string, ClientStream>();

  constructor(parts: OlderParts) {
    this.#parts = parts;
    parts.scope.setInterval(() => this.#endIdle(), minuteMs);
  }

  /** Answers `GET` and `POST`. */
  answer(asking: Asking): Promise<Answer> | Answer {
    return asking.context.method === 'GET' ? this.#open(asking) : this.#take(asking);
  }

  /** No new request will come: each stream ends when the requests that were sent for it are answered. */
  retire(): void {
    for (const stream of this.#streams.values()) stream.retire();
  }

  #open(asking: Asking): Answer {
    const { context, caller, served } = asking;
    const { scope, sessions } = this.#parts;
    this.#requireRoom(caller);
    const place = { slug: ofStream(served), greeting: {}, version: '', upstream: undefined };
    const id = sessions.begin(place, caller);
    const { key } = sessions.open(id, place.slug, caller);
    const stream = new ClientStream({
      asking,
      parts: this.#parts,
      endpoint: endpointOf(context, id),
      over: () => this.#streams.delete(key),
    });
    this.#streams.set(key, stream);
    stream.takeUp(context.header('last-event-id'));
    const { facts } = context;
    facts.aiService = 'mcp';
    facts.mcpServer = served.slug;
    callRecord.method(context);
    callRecord.openStream(context, scope.clock.monotonic());
    const headers = ['content-type', 'text/event-stream', 'cache-control', 'no-store'];
    return { status: 200, headers, body: stream };
  }

  #requireRoom({ id }: KeyRecord): void {
    let own = 0;
    for (const stream of this.#streams.values()) if (stream.caller.id === id) own += 1;
    if (own >= maxStreamsOfKey)
      throw new GatewayError(
        'too_many_streams',
        `The key has ${own} streams of MCP sessions open. Close some, or use Streamable HTTP (/mcp in place of /sse).`,
      );
    if (this.#streams.size >= maxStreams)
      throw new GatewayError(
        'overloaded',
        'Too many streams of MCP sessions are open in this gateway. Try later, or use Streamable HTTP (/mcp in place of /sse).',
      );
  }

  async #take({ context, caller, served }: Asking): Promise<Answer> {
    const id = new URLSearchParams(context.query).get(sessionParameter);
    if (id === null)
      throw new GatewayError(
        'mcp_message_invalid',
        'This address is for the transport of protocol 2024-11-05: open its stream with GET, and send to the address that the event "endpoint" names. Streamable HTTP is at /mcp in place of /sse.',
      );
    const { key } = this.#parts.sessions.open(id, ofStream(served), caller);
    const stream = this.#streams.get(key);
    if (stream === undefined)
      throw new GatewayError(
        'mcp_session_unknown',
        'The stream of this session is not open in this gateway. It has ended, or another replica holds it: open it anew with GET, and with several replicas have the load balancer send all requests of a client to the same one.',
      );
    if (!context.body.loaded) await context.body.load();
    const { messages } = rpcMessages.read(context.json);
    stream.used();
    const ids = messages.flatMap(({ kind, id: one }) =>
      kind === 'request' && one !== undefined ? [one] : [],
    );
    for (const { method, params } of messages)
      if (method === 'notifications/cancelled') stream.forget(params['requestId']);
    if (ids.length > 0) {
      stream.expect(context, ids);
      if (messages.length === 1) context.set(rpcRequestId, ids[0] as RpcId);
    }
    const answer = await served.answer(context, stream.session(caller, served));
    if (answer.status >= 400) return answer;
    stream.greeted(headerValue(answer.headers, 'mcp-session-id'));
    if (messages.every(({ method }) => method !== 'initialize')) stream.listen();
    if (ids.length > 0) return answer;
    if (isStreamSource(answer.body)) answer.body.cancel(notNeeded());
    return { status: 202, headers: [], body: null };
  }

  #endIdle(): void {
    const before = this.#parts.scope.clock.now() - this.#parts.hours * hourMs;
    for (const stream of this.#streams.values()) if (stream.lastUsedAt < before) stream.end();
  }
}

const sessionParameter = 'sessionId';

/** Not the slug of any server: ids of streams are no sessions of Streamable HTTP. */
function ofStream({ slug }: Served): string {
  return `${slug}/sse`;
}

/** The same address, with the session; of several slashes at its beginning one, since two would name a host. */
function endpointOf({ originalPath, query }: RequestContext, id: string): string {
  const parameters = new URLSearchParams(query);
  parameters.set(sessionParameter, id);
  return `${originalPath.replace(/^\/+/, '/')}?${parameters.toString()}`;
}

function notNeeded(): GatewayError {
  return new GatewayError('upstream_reset', 'The gateway needs nothing more of this answer.');
}

interface StreamSetup {
  readonly asking: Asking;
  readonly parts: OlderParts;
  readonly endpoint: string;
  over(): void;
}

/** The stream of one client: its answers, and what the server says by itself. */
class ClientStream implements StreamSource {
  readonly #setup: StreamSetup;
  readonly #calls = new Set<ExpectedAnswer>();
  #target: StreamTarget | undefined;
  /** What the server says by itself. */
  #listening: StreamSource | 'opening' | 'none' | undefined;
  #sessionId: string | undefined;
  /** The client does not know the session's id yet. */
  #isNew = false;
  #isFull = false;
  #isRetired = false;
  #isOver = false;
  lastUsedAt = 0;

  constructor(setup: StreamSetup) {
    this.#setup = setup;
    this.used();
  }

  get caller(): KeyRecord {
    return this.#setup.asking.caller;
  }

  /** The client has room for more. */
  get hasRoom(): boolean {
    return !this.#isFull;
  }

  used(): void {
    this.lastUsedAt = this.#setup.parts.scope.clock.now();
  }

  pipe(target: StreamTarget): void {
    this.#target = target;
    if (this.#isOver) target.end();
    else this.#write(writeSseFrame(this.#setup.endpoint, 'endpoint'));
  }

  resume(): void {
    this.#isFull = false;
    for (const call of this.#calls) if (this.hasRoom) call.drained();
    if (this.hasRoom && typeof this.#listening === 'object') this.#listening.resume();
  }

  /** The client has left: the session of the server ends with it. */
  cancel(error: GatewayError): void {
    if (this.#isOver) return;
    const { asking } = this.#setup;
    const session = this.#openSession(asking);
    this.#stop(error);
    if (session === undefined) return;
    void asking.served.answer(farewellOf(asking.context), session).then(
      ({ body }) => {
        if (isStreamSource(body)) body.cancel(notNeeded());
      },
      // A server that cannot be told forgets the session by itself.
      () => undefined,
    );
  }

  /** Ends it as if the server had; a client that opens it anew can go on with its session. */
  end(): void {
    const target = this.#target;
    this.#stop(new GatewayError('shutting_down', 'The configuration was replaced, or the gateway ends.'));
    target?.end();
  }

  retire(): void {
    this.#isRetired = true;
    if (this.#calls.size === 0) this.end();
  }

  /** Goes on with a session whose stream the gateway has ended. An id that is no good begins nothing. */
  takeUp(lastEventId: string | undefined): void {
    if (lastEventId === undefined) return;
    this.#sessionId = lastEventId;
    if (this.#openSession(this.#setup.asking) === undefined) this.#sessionId = undefined;
    else this.listen();
  }

  /** The session that the handshake began. Throws `mcp_session_unknown` when it is over. */
  session(caller: KeyRecord, { slug }: Served): Session | undefined {
    if (this.#sessionId === undefined) return undefined;
    return this.#setup.parts.sessions.open(this.#sessionId, slug, caller);
  }

  #openSession({ caller, served }: Asking): Session | undefined {
    try {
      return this.session(caller, served);
    } catch {
      return undefined;
    }
  }

  /** The handshake has begun a session. */
  greeted(sessionId: string | undefined): void {
    if (sessionId === undefined) return;
    this.#sessionId = sessionId;
    this.#isNew = true;
  }

  /** From now on the answer to this request of the client goes to the stream. Throws `overloaded`. */
  expect(context: RequestContext, ids: readonly RpcId[]): void {
    if (this.#calls.size >= maxCalls)
      throw new GatewayError(
        'overloaded',
        `${maxCalls} requests of this MCP session wait for their answers. Read its stream, or wait for some of them.`,
      );
    const call = new ExpectedAnswer(this, ids, this.#setup.parts.maxMessageBytes);
    this.#calls.add(call);
    call.diversion = context.divert(call);
  }

  /** The client does not wait for the answer to this request any more. */
  forget(id: JsonValue | undefined): void {
    for (const call of this.#calls) call.forget(id);
  }

  over(call: ExpectedAnswer): void {
    this.#calls.delete(call);
    this.used();
    if (this.#isRetired && this.#calls.size === 0) this.end();
  }

  /** Sends one message. */
  say(message: string): void {
    const frame = writeSseFrame(message, 'message');
    // With the id of the last event a client that opens the stream anew names its session.
    const isNew = this.#isNew && this.#sessionId !== undefined;
    this.#isNew = false;
    this.#write(isNew ? Buffer.concat([Buffer.from(`id: ${this.#sessionId}\n`), frame]) : frame);
  }

  #write(frame: Buffer): void {
    if (this.#target?.data(frame) === false) this.#isFull = true;
  }

  /** Opens what the server says by itself, unless that is open, or there is none. */
  listen(): void {
    if (this.#listening !== undefined || this.#isOver || this.#isRetired) return;
    this.#listening = 'opening';
    const { asking } = this.#setup;
    asking.served.answer(besides(asking.context), this.#openSession(asking)).then(
      ({ status, body }) => {
        this.#listening = 'none';
        if (status !== 200 || !isStreamSource(body)) return;
        if (this.#isOver) body.cancel(clientLeft());
        else this.#pass(body);
      },
      () => (this.#listening = undefined),
    );
  }

  #pass(source: StreamSource): void {
    this.#listening = source;
    const splitter = new SseSplitter((frame, isWhole) => {
      const { data } = readSseFrame(frame);
      if (isWhole && data && isJsonObject(parseJson(data))) this.say(data);
    }, this.#setup.parts.maxMessageBytes);
    // It is opened again when the client sends the next message.
    const isOver = (): void => {
      this.#listening = undefined;
    };
    source.pipe({
      data: (chunk) => {
        splitter.push(chunk);
        return this.hasRoom;
      },
      end: isOver,
      fail: isOver,
    });
  }

  #stop(error: GatewayError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#target = undefined;
    this.#setup.over();
    for (const call of [...this.#calls]) call.diversion?.abort();
    this.#calls.clear();
    if (typeof this.#listening === 'object') this.#listening.cancel(error);
  }
}

/** The same request, for something else that is not in its row. */
function besides(context: RequestContext, changed: Partial<RequestContext> = {}): RequestContext {
  const facts = { ...context.facts };
  return Object.assign(Object.create(context) as RequestContext, { facts, ...changed });
}

/** The same request as one that ends the session, which goes on although the client has left. */
function farewellOf(context: RequestContext): RequestContext {
  return besides(context, { method: 'DELETE', aborted: false, onAbort: () => () => undefined });
}

/** The answer to the requests of one `POST`, on its way to the stream. */
class ExpectedAnswer implements AnswerReceiver {
  readonly #stream: ClientStream;
  /** Requests without an answer, by their ids as JSON. */
  readonly #open: Map<string, RpcId>;
  readonly #maxBytes: number;
  #events: SseSplitter | undefined;
  #chunks: Buffer[] = [];
  #size = 0;
  #status = 0;
  diversion: Diversion | undefined;

  constructor(stream: ClientStream, ids: readonly RpcId[], maxBytes: number) {
    this.#stream = stream;
    this.#open = new Map(ids.map((id) => [JSON.stringify(id), id]));
    this.#maxBytes = maxBytes;
  }

  head(status: number, contentType: string): void {
    this.#status = status;
    if (!contentType.startsWith('text/event-stream')) return;
    this.#events = new SseSplitter((frame, isWhole) => {
      const { data } = readSseFrame(frame);
      if (!isWhole) this.#refuseRest(this.#tooLarge());
      else if (data) this.#say(data);
    }, this.#maxBytes);
  }

  write(chunk: Buffer): boolean {
    if (this.#events !== undefined) this.#events.push(chunk);
    else {
      this.#size += chunk.length;
      if (this.#size <= this.#maxBytes) this.#chunks.push(chunk);
      else this.#chunks = [];
    }
    return this.#stream.hasRoom;
  }

  drained(): void {
    this.diversion?.drained();
  }

  end(): void {
    this.#events?.finish();
    if (this.#size > this.#maxBytes) this.#refuseRest(this.#tooLarge());
    else if (this.#size > 0) this.#say(joinChunks(this.#chunks).toString('utf8'));
    this.#refuseRest(
      this.#status >= 400
        ? `The MCP server answered with status ${this.#status}.`
        : 'The MCP server ended its answer without a result.',
    );
    this.#stream.over(this);
  }

  cut(): void {
    this.#refuseRest('The answer of the MCP server was broken off.');
    this.#stream.over(this);
  }

  forget(id: JsonValue | undefined): void {
    if (id !== undefined) this.#open.delete(writeJson(id));
  }

  /** Messages of a list each; an error without an id is that of the requests which have no answer. */
  #say(text: string): void {
    const json = parseJson(text);
    for (const one of Array.isArray(json) ? json : [json]) {
      if (!isJsonObject(one)) continue;
      const { id = null, error } = one;
      if (id === null && isJsonObject(error)) this.#answerRest(error);
      else {
        if (!Object.hasOwn(one, 'method')) this.#open.delete(writeJson(id));
        this.#stream.say(one === json && !/[\r\n]/.test(text) ? text : writeJson(one));
      }
    }
  }

  #refuseRest(message: string): void {
    this.#answerRest({ code: -32_000, message });
  }

  #answerRest(error: JsonValue): void {
    const ids = [...this.#open.values()];
    this.#open.clear();
    for (const id of ids) this.#stream.say(writeJson({ jsonrpc: '2.0', id, error }));
  }

  #tooLarge(): string {
    return `A message of the MCP server is larger than ${this.#maxBytes} bytes (max_message_bytes of the plugin mcp).`;
  }
}
