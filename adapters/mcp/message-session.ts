import { PassingMap } from '../../core/base/recent-map.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { McpCall, McpHandler, McpHead, McpRequest } from '../../core/ports/mcp.ts';
import { rpc, type RpcId, type RpcMessage } from './json-rpc.ts';
import { headOf, MessageAnswer } from './message-answer.ts';

/** Outcome of one message on its way to the server; one of them is called. */
export interface Delivery {
  /** The server has it. */
  delivered(): void;
  /** The server answers the delivery itself, in HTTP. */
  refused(head: McpHead, body: Buffer): void;
  failed(error: GatewayError): void;
}

/** The way of one session's messages to its server. */
export interface MessageLink {
  /** Calls `delivery` later, never at once. `request` has the credentials; default: those of the handshake. */
  send(message: RpcMessage, delivery: Delivery, request?: McpRequest): void;
  /** Asks the server to wait until `resume`; what it has sent already still arrives. */
  pause(): void;
  resume(): void;
  /** Releases everything; nothing is received afterwards. */
  close(): Promise<void>;
}

/** What a link brings. */
export interface LinkReceiver {
  /** Whether the client listens to what the server says by itself. */
  readonly isListening: boolean;
  receive(message: RpcMessage): void;
  /** The response to this request is longer than a message may be. */
  receiveOversized(id: RpcId | undefined): void;
  /** This request gets no response. */
  requestFailed(id: RpcId, error: GatewayError): void;
  /** The way is broken for good. */
  ended(error: GatewayError): void;
}

interface SessionOptions {
  readonly id: string;
  /** Name of the server in errors. */
  readonly peer: string;
  readonly clock: Clock;
  open(receiver: LinkReceiver): MessageLink;
  /** The session has ended; its link is closed when the promise resolves. Called once. */
  closed(session: MessageSession, linkClosed: Promise<void>): void;
}

/** One POST under way. */
interface Post {
  readonly answer: MessageAnswer;
  /** Without its body. */
  readonly request: McpRequest;
  /** It holds the handshake. */
  readonly opens: boolean;
  /** Messages that are on their way to the server. */
  undelivered: number;
  /** Requests without a response, with their progress tokens. */
  readonly waiting: Map<RpcId, RpcId | undefined>;
}

/** Most requests of a session at once. */
const maxRequests = 1_000;
/** Unread output beyond which the server is asked to wait, and at which it may go on. */
const highWater = 1_048_576;
const lowWater = 262_144;
/** Unread output beyond which notifications are dropped and responses fail, where the server cannot wait. */
const maxUnread = 33_554_432;
/** Messages of the server that wait for a stream: their number, and their characters together. */
const maxHeld = 64;
const maxHeldLength = 1_048_576;

const nothing: Delivery = { delivered: () => undefined, refused: () => undefined, failed: () => undefined };

/**
 * The session of one client at a server whose transport has one stream of messages: brings each message of the server
 * to the answer to which it belongs. A response goes to its request, progress to the request that has its token, all else
 * to the stream that a `GET` opened, or to the latest pending request, or waits for the next of them.
 */
export class MessageSession implements LinkReceiver {
  readonly id: string;
  readonly #peer: string;
  readonly #clock: Clock;
  readonly #closed: SessionOptions['closed'];
  readonly #link: MessageLink;
  readonly #pending = new PassingMap<RpcId, Post>();
  readonly #byToken = new PassingMap<RpcId, Post>();
  readonly #answers = new Set<MessageAnswer>();
  readonly #posts = new Map<MessageAnswer, Post>();
  #listener: MessageAnswer | undefined;
  #held: RpcMessage[] = [];
  #heldLength = 0;
  #unread = 0;
  #isPaused = false;
  #isOpen = false;
  #isClosed = false;
  #idleSince: number;

  /** Throws what `open` throws. */
  constructor({ id, peer, clock, open, closed }: SessionOptions) {
    this.id = id;
    this.#peer = peer;
    this.#clock = clock;
    this.#closed = closed;
    this.#idleSince = clock.monotonic();
    this.#link = open(this);
  }

  /** Monotonic time since which no request and no stream is open; undefined while one is. */
  get idleSince(): number | undefined {
    return this.#answers.size === 0 ? this.#idleSince : undefined;
  }

  get isListening(): boolean {
    return this.#listener !== undefined;
  }

  /** Messages of one POST. */
  post(messages: readonly RpcMessage[], request: McpRequest, handler: McpHandler): McpCall {
    const answer = this.#answer(request, handler);
    const post: Post = {
      answer,
      request: { ...request, body: null },
      opens: messages[0]?.method === 'initialize',
      undelivered: messages.length,
      waiting: new Map(),
    };
    const problem = this.#enter(messages, post);
    if (problem !== undefined) {
      queueMicrotask(() => problem(answer));
      return answer;
    }
    this.#posts.set(answer, post);
    for (const message of messages) {
      this.#link.send(message, this.#delivery(post), post.request);
      if (message.method === 'notifications/cancelled') this.#cancelled(rpc.params(message)['requestId']);
    }
    this.#sendHeld();
    return answer;
  }

  /** Opens the stream of what the server says by itself. */
  listen(request: McpRequest, handler: McpHandler): McpCall {
    const answer = this.#answer(request, handler);
    const isTaken = this.#listener !== undefined;
    if (!isTaken) this.#listener = answer;
    queueMicrotask(() => {
      if (isTaken)
        return answerError(answer, 409, -32000, 'This session has a stream already; close it first');
      answer.stream(undefined);
      this.#sendHeld();
    });
    return answer;
  }

  /** Ends the session: its streams end, and pending requests fail. */
  close(error: GatewayError): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#held = [];
    for (const { answer, waiting } of this.#posts.values()) if (waiting.size > 0) answer.fail(error);
    for (const answer of this.#answers) {
      if (answer.hasHead) answer.end();
      else answer.fail(error);
    }
    this.#closed(this, this.#link.close());
  }

  /** Ends the session, and everything of it fails. */
  ended(error: GatewayError): void {
    if (this.#isClosed) return;
    this.#listener?.fail(error);
    this.close(error);
  }

  receive(message: RpcMessage): void {
    if (this.#isClosed) return;
    if (message.kind === 'response') this.#respond(message);
    else this.#relay(message);
  }

  receiveOversized(id: RpcId | undefined): void {
    const post = this.#postOf(id);
    post?.answer.fail(
      new GatewayError(
        'upstream_too_large',
        `${this.#peer} sent a message that is longer than the gateway reads; ask for less`,
      ),
    );
  }

  requestFailed(id: RpcId, error: GatewayError): void {
    this.#pending.get(id)?.answer.fail(error);
  }

  /** The POST with this request; without an id the only one that has any. */
  #postOf(id: RpcId | undefined): Post | undefined {
    if (id !== undefined) return this.#pending.get(id);
    const [first, second] = new Set(this.#pending.values());
    return second === undefined ? first : undefined;
  }

  #answer(request: McpRequest, handler: McpHandler): MessageAnswer {
    const answer = new MessageAnswer({
      request,
      handler,
      clock: this.#clock,
      peer: this.#peer,
      owner: {
        unreadChanged: (bytes) => this.#unreadChanged(bytes),
        timedOut: (late) => this.#timedOut(late),
        over: (past) => this.#over(past),
      },
    });
    this.#answers.add(answer);
    return answer;
  }

  /** Notes the requests of a POST, or returns the way in which it is refused. */
  #enter(messages: readonly RpcMessage[], post: Post): ((answer: MessageAnswer) => void) | undefined {
    if (post.opens && (messages.length > 1 || this.#posts.size > 0 || this.#isOpen)) {
      return (answer) => answerError(answer, 400, -32600, 'This session has had its handshake');
    }
    const requests = messages.filter(({ kind }) => kind === 'request');
    if (this.#pending.size + requests.length > maxRequests) {
      const message = `${this.#peer} has ${maxRequests} pending requests of this session; wait for some of them`;
      return (answer) => answer.fail(new GatewayError('upstream_busy', message));
    }
    const ids = new Set(requests.map(({ id }) => id));
    if (ids.size < requests.length || requests.some(({ id }) => this.#pending.has(id as RpcId))) {
      return (answer) => answerError(answer, 400, -32600, 'The id of this request belongs to a pending one');
    }
    for (const message of requests) {
      const token = rpc.progressToken(message);
      post.waiting.set(message.id as RpcId, token);
      this.#pending.set(message.id as RpcId, post);
      if (token !== undefined) this.#byToken.set(token, post);
    }
    return undefined;
  }

  #delivery(post: Post): Delivery {
    const { answer } = post;
    return {
      delivered: () => {
        post.undelivered -= 1;
        if (post.undelivered > 0 || post.waiting.size > 0 || answer.hasHead) return;
        answer.whole(headOf(202, ''), undefined);
      },
      refused: (head, body) => {
        if (!answer.hasHead) answer.whole(head, body);
        else if (post.waiting.size > 0) answer.fail(this.#refusal(head.status));
        if (head.status === 404) this.ended(this.#reset('has forgotten the session'));
      },
      failed: (error) => answer.fail(error),
    };
  }

  #respond(message: RpcMessage): void {
    const { id, text } = message;
    const post = id === undefined ? undefined : this.#pending.get(id);
    // A late response: nobody waits for it any more.
    if (post === undefined) return;
    const { answer } = post;
    this.#forget(id as RpcId, post);
    const isError = 'error' in message.body;
    if (post.opens && !isError) this.#isOpen = true;
    const sessionId = post.opens && !isError ? this.id : undefined;
    if (this.#unread + text.length > maxUnread) {
      const reason = 'sent more than the client has read; read faster or ask for less';
      answer.fail(new GatewayError('upstream_too_large', `${this.#peer} ${reason}`));
    } else if (post.waiting.size === 0 && !answer.hasHead) {
      answer.whole(headOf(200, 'application/json', sessionId), Buffer.from(text));
    } else {
      answer.stream(sessionId);
      answer.event(text);
      if (post.waiting.size === 0) answer.end();
    }
    if (post.opens && isError) this.close(this.#reset('refused the handshake'));
  }

  #relay(message: RpcMessage): void {
    const target = this.#targetOf(message);
    if (target !== undefined) this.#sendOn(target, message);
    else if (message.method === 'ping') this.#answerPing(message);
    else this.#hold(message);
  }

  #sendOn(answer: MessageAnswer, { kind, text }: RpcMessage): void {
    if (kind === 'notification' && this.#unread + text.length > maxUnread) return;
    answer.stream(this.#isOpen ? undefined : this.id);
    answer.event(text);
  }

  #targetOf(message: RpcMessage): MessageAnswer | undefined {
    if (message.method === 'notifications/progress') {
      const { progressToken } = rpc.params(message);
      const post = rpc.isId(progressToken) ? this.#byToken.get(progressToken) : undefined;
      if (post !== undefined) return post.answer;
    }
    if (this.#listener !== undefined) return this.#listener;
    let latest: MessageAnswer | undefined;
    for (const { answer, waiting } of this.#posts.values()) if (waiting.size > 0) latest = answer;
    return latest;
  }

  #answerPing({ id }: RpcMessage): void {
    if (id !== undefined) this.#link.send(rpc.message({ jsonrpc: '2.0', id, result: {} }), nothing);
  }

  #hold(message: RpcMessage): void {
    const isFull = this.#held.length === maxHeld || this.#heldLength + message.text.length > maxHeldLength;
    if (!isFull) {
      this.#held.push(message);
      this.#heldLength += message.text.length;
    } else if (message.kind === 'request') {
      const response = rpc.errorResponse(message.id as RpcId, -32603, 'The client does not listen.');
      this.#link.send(response, nothing);
    }
  }

  #sendHeld(): void {
    if (this.#held.length === 0) return;
    const held = this.#held;
    this.#held = [];
    this.#heldLength = 0;
    for (const message of held) this.#relay(message);
  }

  /** A client that has cancelled a request waits for no response, and a server that obeys sends none. */
  #cancelled(id: unknown): void {
    const post = this.#pending.get(id as RpcId);
    if (post === undefined || post.opens) return;
    this.#forget(id as RpcId, post);
    if (post.waiting.size > 0) return;
    post.answer.stream(undefined);
    post.answer.end();
  }

  #forget(id: RpcId, post: Post): void {
    const token = post.waiting.get(id);
    post.waiting.delete(id);
    this.#pending.delete(id);
    if (token !== undefined && this.#byToken.get(token) === post) this.#byToken.delete(token);
  }

  #timedOut(answer: MessageAnswer): void {
    const post = this.#posts.get(answer);
    if (post === undefined || post.opens) return;
    for (const id of post.waiting.keys()) {
      this.#link.send(rpc.cancellation(id, 'The gateway waits no longer.'), nothing, post.request);
    }
  }

  #over(answer: MessageAnswer): void {
    this.#answers.delete(answer);
    this.#idleSince = this.#clock.monotonic();
    if (this.#listener === answer) this.#listener = undefined;
    const post = this.#posts.get(answer);
    if (post !== undefined) for (const id of [...post.waiting.keys()]) this.#forget(id, post);
    this.#posts.delete(answer);
    // No client knows the session of a handshake that failed.
    if (!this.#isOpen) queueMicrotask(() => this.#closeUnopened());
  }

  #closeUnopened(): void {
    if (!this.#isOpen) this.close(this.#reset('did not finish the handshake'));
  }

  #unreadChanged(bytes: number): void {
    this.#unread += bytes;
    if (!this.#isPaused && this.#unread > highWater) {
      this.#isPaused = true;
      this.#link.pause();
    } else if (this.#isPaused && this.#unread < lowWater) {
      this.#isPaused = false;
      this.#link.resume();
    }
  }

  #refusal(status: number): GatewayError {
    return new GatewayError('upstream_invalid', `${this.#peer} refused a message with status ${status}`);
  }

  #reset(what: string): GatewayError {
    return new GatewayError('upstream_reset', `${this.#peer} ${what}; begin a new session`);
  }
}

/** Answers with an error of JSON-RPC that belongs to no request. */
export function answerError(answer: MessageAnswer, status: number, code: number, message: string): void {
  const body = { jsonrpc: '2.0', error: { code, message }, id: null };
  answer.whole(headOf(status, 'application/json'), Buffer.from(JSON.stringify(body)));
}
