import { isJsonObject, type JsonObject, type JsonValue } from '../../core/base/json.ts';
import { PassingMap } from '../../core/base/recent-map.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { rpc, type RpcId, type RpcMessage } from './json-rpc.ts';
import type { Delivery, LinkReceiver, MessageLink } from './message-session.ts';
import type { ChildRequest, ChildRun, SharedChild } from './shared-child.ts';

/** Requests of one session that the child has not answered, those that its client has left included. */
const maxSessionRequests = 1_000;
/** Resources that one session is told of. */
const maxSubscriptions = 1_000;
/** Versions that clients may have instead of the child's. */
const olderVersions = ['2025-06-18', '2025-03-26', '2024-11-05'];
const methodNotFound = -32_601;
const invalidParams = -32_602;
const internalError = -32_603;

/** The version of a client, where it is older than the child's; else that of the child. */
function agreedVersion(wanted: JsonValue | undefined, own: JsonValue | undefined): JsonValue {
  if (typeof wanted !== 'string' || typeof own !== 'string') return own ?? '';
  return olderVersions.includes(wanted) && wanted < own ? wanted : own;
}

/** Capabilities that do not concern one client alone. */
function forAll(capabilities: JsonObject): JsonObject {
  const kept = Object.entries(capabilities).filter(([name]) => name !== 'tasks' && name !== 'logging');
  return Object.fromEntries(kept);
}

/** A request of a session that has no response yet. */
interface Pending {
  readonly run: ChildRun;
  /** Undefined while it waits for the child's start. */
  sentAs: number | undefined;
}

/** The way of one session to the shared child: its ids and tokens are replaced by some that no other session has. */
export class SharedLink implements MessageLink {
  readonly #server: SharedChild;
  readonly #receiver: LinkReceiver;
  /** By the ids of the client. */
  readonly #pending = new PassingMap<RpcId, Pending>();
  readonly #subscribed = new Set<string>();
  #isPaused = false;
  #isClosed = false;

  constructor(server: SharedChild, receiver: LinkReceiver) {
    this.#server = server;
    this.#receiver = receiver;
    server.links.add(this);
  }

  send(message: RpcMessage, delivery: Delivery): void {
    if (message.method === 'notifications/cancelled') this.#cancel(message);
    // The child hears nothing else that concerns one client alone: not of its roots, nor answers that it asked for.
    if (message.kind !== 'request') queueMicrotask(() => delivery.delivered());
    else if (message.method === 'initialize') this.#greet(message, delivery);
    else this.#request(message, delivery);
  }

  /** Others must not wait for this client: until it reads again, it gets responses only. */
  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
  }

  close(): Promise<void> {
    this.#isClosed = true;
    this.#server.links.delete(this);
    for (const uri of this.#subscribed) this.#leave(uri);
    for (const { run, sentAs } of this.#pending.values())
      if (sentAs !== undefined) run.cancel(sentAs, 'The session has ended.');
    return Promise.resolve();
  }

  notify(message: RpcMessage): void {
    if (this.#receiver.isListening && !this.#isPaused) this.#receiver.receive(message);
  }

  #cancel(message: RpcMessage): void {
    const { requestId, reason } = rpc.params(message);
    const found = this.#pending.get(requestId as RpcId);
    if (found === undefined) return;
    this.#pending.delete(requestId as RpcId);
    const told = typeof reason === 'string' ? reason : '';
    if (found.sentAs !== undefined) found.run.cancel(found.sentAs, told);
  }

  #greet(message: RpcMessage, delivery: Delivery): void {
    const run = this.#runFor(delivery);
    run?.greeting.then(
      (result) => {
        if (this.#isClosed) return;
        const { protocolVersion: wanted } = rpc.params(message);
        const { capabilities } = result;
        const offered = isJsonObject(capabilities) ? forAll(capabilities) : {};
        const protocolVersion = agreedVersion(wanted, result['protocolVersion']);
        this.#answer(message, { result: { ...result, capabilities: offered, protocolVersion } });
      },
      (error: GatewayError) => delivery.failed(error),
    );
  }

  #request(message: RpcMessage, delivery: Delivery): void {
    const { method } = message;
    if (method === 'logging/setLevel' || method.startsWith('tasks/'))
      this.#refuse(message, methodNotFound, `A process that is shared has no ${method}.`);
    else if (method === 'resources/subscribe' || method === 'resources/unsubscribe')
      this.#follow(message, delivery);
    else this.#forward(message, delivery);
  }

  /** The child, or undefined after telling that there is none. */
  #runFor(delivery: Delivery): ChildRun | undefined {
    try {
      return this.#server.run();
    } catch (error) {
      if (!GatewayError.is(error)) throw error;
      queueMicrotask(() => delivery.failed(error));
      return undefined;
    }
  }

  #forward(message: RpcMessage, delivery: Delivery, succeeded?: () => void): void {
    const run = this.#runFor(delivery);
    if (run === undefined) return;
    if (this.#pending.size >= maxSessionRequests) {
      const message = `The MCP server ${this.#server.peer} has ${maxSessionRequests} pending requests of this session; wait for some of them.`;
      queueMicrotask(() => delivery.failed(new GatewayError('upstream_busy', message)));
      return;
    }
    const own = message.id as RpcId;
    const pending: Pending = { run, sentAs: undefined };
    this.#pending.set(own, pending);
    const failed = (error: GatewayError): void => {
      if (this.#isDone(own, pending)) delivery.failed(error);
    };
    const forward = (): void => {
      // Cancelled meanwhile, or its session is over.
      if (this.#pending.get(own) !== pending || this.#isClosed) return;
      try {
        pending.sentAs = run.request(message, this.#answered(message, pending, succeeded));
      } catch (error) {
        if (!GatewayError.is(error)) throw error;
        return failed(error);
      }
      delivery.delivered();
    };
    if (run.isGreeted) queueMicrotask(forward);
    else run.greeting.then(forward, failed);
  }

  #answered(message: RpcMessage, pending: Pending, succeeded?: () => void): ChildRequest {
    const own = message.id as RpcId;
    const token = rpc.progressToken(message);
    return {
      respond: (response) => {
        // A child that does its work may be started again at once.
        this.#server.delays.succeeded();
        if ('result' in response.body) succeeded?.();
        if (!this.#isDone(own, pending)) return;
        const tooDeep = 'The response of the server is nested too deeply.';
        this.#receiver.receive(
          rpc.changed(response, { id: own }) ?? rpc.errorResponse(own, internalError, tooDeep),
        );
      },
      oversized: () => {
        if (this.#isDone(own, pending)) this.#receiver.receiveOversized(own);
      },
      failed: (error) => {
        if (this.#isDone(own, pending)) this.#receiver.requestFailed(own, error);
      },
      progress: (report) => {
        if (token === undefined || this.#isPaused || this.#pending.get(own) !== pending) return;
        const changed = rpc.changed(report, { params: { ...rpc.params(report), progressToken: token } });
        if (changed !== undefined && !this.#isClosed) this.#receiver.receive(changed);
      },
    };
  }

  /** False where nothing waits for it any more; its id may be that of a later request. */
  #isDone(own: RpcId, pending: Pending): boolean {
    if (this.#isClosed || this.#pending.get(own) !== pending) return false;
    this.#pending.delete(own);
    return true;
  }

  /** The first session that wants to be told of a resource subscribes, the last one unsubscribes. */
  #follow(message: RpcMessage, delivery: Delivery): void {
    const { uri } = rpc.params(message);
    if (typeof uri !== 'string') return this.#refuse(message, invalidParams, 'The "params" have no "uri".');
    if (message.method === 'resources/unsubscribe') {
      this.#subscribed.delete(uri);
      if (this.#server.leave(this, uri)) this.#forward(message, delivery);
      else this.#answer(message, { result: {} });
    } else if (this.#subscribed.size >= maxSubscriptions && !this.#subscribed.has(uri)) {
      const text = `This session has ${maxSubscriptions} subscriptions, the most that it may have.`;
      this.#refuse(message, invalidParams, text);
    } else if (this.#server.subscriptions.has(uri)) {
      this.#join(uri);
      this.#answer(message, { result: {} });
    } else this.#forward(message, delivery, () => this.#join(uri));
  }

  #join(uri: string): void {
    const { subscriptions } = this.#server;
    const links = subscriptions.get(uri) ?? new Set();
    subscriptions.set(uri, links.add(this));
    this.#subscribed.add(uri);
    if (this.#isClosed) this.#leave(uri);
  }

  #leave(uri: string): void {
    if (this.#server.leave(this, uri)) this.#server.unfollow(uri);
  }

  #refuse(message: RpcMessage, code: number, text: string): void {
    this.#answer(message, { error: { code, message: text } });
  }

  #answer({ id }: RpcMessage, outcome: JsonObject): void {
    queueMicrotask(() => {
      if (!this.#isClosed)
        this.#receiver.receive(rpc.message({ jsonrpc: '2.0', id: id as RpcId, ...outcome }));
    });
  }
}
