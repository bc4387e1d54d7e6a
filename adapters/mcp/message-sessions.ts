import { randomUUID } from 'node:crypto';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { McpCall, McpHandler, McpRequest, McpUpstream } from '../../core/ports/mcp.ts';
import { rpc } from './json-rpc.ts';
import { headOf, MessageAnswer } from './message-answer.ts';
import { answerError, type LinkReceiver, type MessageLink, MessageSession } from './message-session.ts';
import { transportErrors } from '../transport/transport-errors.ts';

/** A kind of server, as sessions see it. */
interface SessionServer {
  /** Name of the server in errors. */
  readonly peer: string;
  /** Most sessions at once. */
  readonly maxSessions: number;
  /** Opens the way of a new session, with the credentials of its handshake. May throw a `GatewayError`. */
  open(handshake: McpRequest, receiver: LinkReceiver): MessageLink;
  /** Releases what the sessions share, after all of them have ended. */
  close(): Promise<void>;
}

/** A session without open requests and streams ends after this time, which is looked at this often. */
const idleMs = 30 * 60_000;
const sweepMs = 60_000;

/**
 * A server whose transport has no sessions, or others than Streamable HTTP: each handshake opens a session here, with a
 * link of its own. When there are too many, the one that has been idle for longest makes room.
 */
export class MessageSessions implements McpUpstream {
  readonly #server: SessionServer;
  readonly #clock: Clock;
  readonly #sessions = new Map<string, MessageSession>();
  readonly #closing = new Set<Promise<void>>();
  #cancelSweep: (() => void) | undefined;
  #isClosed = false;

  constructor(server: SessionServer, clock: Clock) {
    this.#server = server;
    this.#clock = clock;
  }

  send(request: McpRequest, handler: McpHandler): McpCall {
    const { method, sessionId } = request;
    if (this.#isClosed)
      return this.#refuse(request, handler, (answer) => answer.fail(transportErrors.closed()));
    if (method === 'POST') return this.#post(request, handler);
    const session = sessionId === undefined ? undefined : this.#sessions.get(sessionId);
    if (session === undefined) return this.#unknown(request, handler);
    if (method === 'GET') return session.listen(request, handler);
    session.close(new GatewayError('upstream_reset', 'the client has ended this session; begin a new one'));
    return this.#refuse(request, handler, (answer) => answer.whole(headOf(200, ''), undefined));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelSweep?.();
    for (const session of [...this.#sessions.values()]) session.ended(transportErrors.closed());
    await Promise.all(this.#closing);
    await this.#server.close();
  }

  #post(request: McpRequest, handler: McpHandler): McpCall {
    const { body, sessionId } = request;
    const messages = body === null ? undefined : rpc.readMessages(body);
    if (messages === undefined) {
      const text = 'The body is neither a message of JSON-RPC nor a list of 1 to 100';
      return this.#refuse(request, handler, (answer) => answerError(answer, 400, -32700, text));
    }
    const session = sessionId === undefined ? undefined : this.#sessions.get(sessionId);
    if (session !== undefined) return session.post(messages, request, handler);
    const opens = sessionId === undefined && messages[0]?.method === 'initialize';
    if (!opens || messages[0]?.kind !== 'request') return this.#unknown(request, handler);
    try {
      return this.#open(request).post(messages, request, handler);
    } catch (error) {
      if (!GatewayError.is(error)) throw error;
      return this.#refuse(request, handler, (answer) => answer.fail(error));
    }
  }

  #open(handshake: McpRequest): MessageSession {
    this.#makeRoom();
    const session = new MessageSession({
      id: randomUUID(),
      peer: this.#server.peer,
      clock: this.#clock,
      open: (receiver) => this.#server.open({ ...handshake, body: null }, receiver),
      closed: (past, linkClosed) => this.#forget(past, linkClosed),
    });
    this.#sessions.set(session.id, session);
    this.#cancelSweep ??= this.#clock.after(sweepMs, () => this.#sweep());
    return session;
  }

  #makeRoom(): void {
    const { peer, maxSessions } = this.#server;
    if (this.#sessions.size < maxSessions) return;
    let oldest: MessageSession | undefined;
    for (const session of this.#sessions.values()) {
      const since = session.idleSince;
      if (since !== undefined && since < (oldest?.idleSince ?? Infinity)) oldest = session;
    }
    if (oldest === undefined) {
      const message = `${peer} has ${maxSessions} sessions in use, the most that are allowed; try again when one of them has ended`;
      throw new GatewayError('upstream_busy', message);
    }
    oldest.close(idleError());
  }

  #sweep(): void {
    const before = this.#clock.monotonic() - idleMs;
    for (const session of [...this.#sessions.values()]) {
      if ((session.idleSince ?? Infinity) <= before) session.close(idleError());
    }
    this.#cancelSweep =
      this.#sessions.size === 0 ? undefined : this.#clock.after(sweepMs, () => this.#sweep());
  }

  #forget(session: MessageSession, linkClosed: Promise<void>): void {
    this.#sessions.delete(session.id);
    this.#closing.add(linkClosed);
    void linkClosed.finally(() => this.#closing.delete(linkClosed));
  }

  #unknown(request: McpRequest, handler: McpHandler): McpCall {
    const isNameless = request.sessionId === undefined;
    const text = isNameless ? 'Mcp-Session-Id is missing; send initialize first' : 'Session not found';
    return this.#refuse(request, handler, (answer) =>
      answerError(answer, isNameless ? 400 : 404, isNameless ? -32000 : -32001, text),
    );
  }

  #refuse(request: McpRequest, handler: McpHandler, refuse: (answer: MessageAnswer) => void): McpCall {
    const owner = { unreadChanged: () => undefined, timedOut: () => undefined, over: () => undefined };
    const { peer } = this.#server;
    const answer = new MessageAnswer({ request, handler, clock: this.#clock, peer, owner });
    queueMicrotask(() => refuse(answer));
    return answer;
  }
}

function idleError(): GatewayError {
  return new GatewayError('upstream_reset', 'this session was idle; begin a new one');
}
