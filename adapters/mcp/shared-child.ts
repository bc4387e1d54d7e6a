import { isJsonObject, type JsonObject, type JsonValue } from '../../core/base/json.ts';
import { PassingMap } from '../../core/base/recent-map.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { McpRequest, McpStdioTarget } from '../../core/ports/mcp.ts';
import { rpc, type RpcId, type RpcMessage } from './json-rpc.ts';
import type { LinkReceiver, MessageLink } from './message-session.ts';
import { SharedLink } from './shared-link.ts';
import { childErrors, ChildLog, StartDelays, StdioChild } from './stdio-child.ts';

/** Most sessions of one child, and most requests of all of them that it has not answered. */
const maxSessions = 10_000;
const maxRequests = 10_000;
/** The containers of a longer one are not looked for. */
const maxUriLength = 2_048;
/** Longest wait for the child's answer to the gateway's handshake, milliseconds. */
const greetingMs = 60_000;
/** Version that the gateway proposes. */
const ownVersion = '2025-11-25';
const methodNotFound = -32_601;

/**
 * One child for all sessions, which the gateway greets itself. It is started with the first of them, and again when it
 * ends: the sessions go on, and the requests under way fail. Nothing that it says reaches a session that it is not meant
 * for, as far as the protocol tells.
 */
export class SharedChild {
  readonly peer: string;
  readonly maxSessions = maxSessions;
  readonly target: McpStdioTarget;
  readonly clock: Clock;
  readonly log: ChildLog;
  readonly delays: StartDelays;
  readonly links = new Set<SharedLink>();
  /** The sessions that are told of a resource, by its URI. */
  readonly subscriptions = new Map<string, Set<SharedLink>>();
  #run: ChildRun | undefined;
  #isClosed = false;

  constructor(target: McpStdioTarget, log: Log, clock: Clock) {
    this.peer = target.name;
    this.target = target;
    this.clock = clock;
    this.log = new ChildLog(target, log, clock);
    this.delays = new StartDelays(target.name, this.log, clock);
  }

  open(_handshake: McpRequest, receiver: LinkReceiver): MessageLink {
    this.run();
    return new SharedLink(this, receiver);
  }

  /** The child that runs or is about to. Throws `upstream_unreachable` while its next start is far off. */
  run(): ChildRun {
    if (this.#run?.isStarted !== true) this.delays.requireSoon();
    return (this.#run ??= new ChildRun(this));
  }

  /** Tells a child that runs that nobody wants news of the resource. */
  unfollow(uri: string): void {
    this.#run?.follow('resources/unsubscribe', uri);
  }

  /** True when no session is told of the resource any more. */
  leave(link: SharedLink, uri: string): boolean {
    const links = this.subscriptions.get(uri);
    links?.delete(link);
    if (links === undefined || links.size > 0) return links === undefined;
    return this.subscriptions.delete(uri);
  }

  /** Its child has ended. Sessions that wait for nothing may still want to hear of changes. */
  ended(run: ChildRun): void {
    if (this.#run !== run || this.#isClosed) return;
    this.#run = this.links.size > 0 ? new ChildRun(this) : undefined;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#run?.stop();
  }
}

/** A request at the child: exactly one of its methods but `progress` is called at the end. */
export interface ChildRequest {
  respond(message: RpcMessage): void;
  /** Its response is too long. */
  oversized(): void;
  failed(error: GatewayError): void;
  progress?(message: RpcMessage): void;
}

/** One life of the child. */
export class ChildRun {
  /** The child's result of the handshake; rejects when the child ends before. */
  readonly greeting: Promise<JsonObject>;
  isStarted = false;
  isGreeted = false;
  readonly #server: SharedChild;
  readonly #requests = new PassingMap<RpcId, ChildRequest>();
  #child: StdioChild | undefined;
  #lastId = 0;
  #endedBy: GatewayError | undefined;
  #greet: (result: JsonObject) => void = () => undefined;
  #reject: (error: GatewayError) => void = () => undefined;
  #cancelTimer: () => void = () => undefined;

  constructor(server: SharedChild) {
    this.#server = server;
    this.greeting = new Promise((resolve, reject) => {
      this.#greet = resolve;
      this.#reject = reject;
    });
    this.greeting.catch(() => undefined);
    const { waitMs } = server.delays;
    if (waitMs === 0) this.#start();
    else this.#cancelTimer = server.clock.after(waitMs, () => this.#start());
  }

  /**
   * Sends a request under an id of its own, which is its progress token as well. Throws `upstream_busy` when the child has
   * too much to do, `invalid_request` for a message that cannot be written.
   */
  request(message: RpcMessage, request: ChildRequest): number {
    const { peer } = this.#server;
    if (this.#endedBy !== undefined) throw this.#endedBy;
    if (this.#requests.size >= maxRequests)
      throw new GatewayError(
        'upstream_busy',
        `The MCP server ${peer} has ${maxRequests} pending requests, the most of a process that is shared; try later.`,
      );
    const id = ++this.#lastId;
    const sent = rpc.changed(message, { id, ...paramsAt(message, id) });
    if (sent === undefined)
      throw new GatewayError('invalid_request', 'The message is nested too deeply; send a flatter one.');
    if (this.#child?.write(sent.text) !== true) throw childErrors.notReading(peer);
    this.#requests.set(id, request);
    return id;
  }

  /** A request is no longer waited for. */
  cancel(id: number, reason: string): void {
    if (this.#requests.delete(id)) this.#child?.write(rpc.cancellation(id, reason).text);
  }

  async stop(): Promise<void> {
    const error = new GatewayError('shutting_down', 'The gateway is shutting down; send the request again.');
    this.#over(error);
    await this.#child?.stop();
  }

  #start(): void {
    const { target, log, clock } = this.#server;
    this.isStarted = true;
    this.#child = new StdioChild(target, log, clock, {
      message: (message) => this.#receive(message),
      oversized: (id) => this.#taken(id)?.oversized(),
      ended: (reason) => this.#ended(reason),
    });
    this.#cancelTimer = clock.after(greetingMs, () =>
      this.#giveUp(`did not answer the handshake within ${greetingMs / 1000} s`),
    );
    const clientInfo = { name: 'weir', version: '1' };
    const params = { protocolVersion: ownVersion, capabilities: {}, clientInfo };
    this.request(rpc.message({ jsonrpc: '2.0', id: 0, method: 'initialize', params }), {
      respond: ({ body: { result } }) => this.#greeted(isJsonObject(result) ? result : undefined),
      oversized: () => this.#giveUp('answered the handshake with too much'),
      failed: () => undefined,
    });
  }

  #greeted(result: JsonObject | undefined): void {
    if (result === undefined) return this.#giveUp('refused the handshake of the gateway');
    this.isGreeted = true;
    this.#cancelTimer();
    this.#child?.write(rpc.message({ jsonrpc: '2.0', method: 'notifications/initialized' }).text);
    this.#greet(result);
    for (const uri of this.#server.subscriptions.keys()) this.follow('resources/subscribe', uri);
  }

  /** Asks the child for news of a resource, or for none any more. */
  follow(method: 'resources/subscribe' | 'resources/unsubscribe', uri: string): void {
    if (!this.isGreeted) return;
    const nothing = () => undefined;
    try {
      const message = rpc.message({ jsonrpc: '2.0', id: 0, method, params: { uri } });
      this.request(message, { respond: nothing, oversized: nothing, failed: nothing });
    } catch (error) {
      if (!GatewayError.is(error)) throw error;
    }
  }

  #giveUp(reason: string): void {
    const stopping = this.#child?.stop();
    // The next one is started when this one is gone.
    void stopping?.then(() => this.#ended(reason));
  }

  #ended(reason: string): void {
    if (this.#endedBy !== undefined) return;
    const { peer, delays } = this.#server;
    delays.failed(reason);
    const ended = `The MCP server ${peer} ${reason} and is started again; send the request again.`;
    this.#server.ended(this);
    this.#over(
      this.isGreeted ? new GatewayError('upstream_reset', ended) : childErrors.unreachable(peer, reason),
    );
  }

  #over(error: GatewayError): void {
    if (this.#endedBy !== undefined) return;
    this.#endedBy = error;
    this.#cancelTimer();
    this.#reject(error);
    const pending = this.#requests.values();
    for (const id of this.#requests.keys()) this.#requests.delete(id);
    for (const request of pending) request.failed(error);
  }

  #taken(id: RpcId | undefined): ChildRequest | undefined {
    const [only, second] = id === undefined ? this.#requests.keys() : [id];
    if (only === undefined || second !== undefined) return undefined;
    const request = this.#requests.get(only);
    this.#requests.delete(only);
    return request;
  }

  #receive(message: RpcMessage): void {
    if (this.#endedBy !== undefined) return;
    const { kind, id, method } = message;
    if (kind === 'request') this.#answer(id as RpcId, method);
    else if (kind === 'notification') this.#notify(message);
    else if (id !== undefined) this.#taken(id)?.respond(message);
  }

  /** No client can be asked, for the child does not say for which one it works. */
  #answer(id: RpcId, method: string): void {
    const pong = rpc.message({ jsonrpc: '2.0', id, result: {} });
    const text =
      'The process is shared by several clients, and none of them can be asked; serve it without "shared".';
    this.#child?.write((method === 'ping' ? pong : rpc.errorResponse(id, methodNotFound, text)).text);
  }

  /** What could tell one client of another one (log messages, unknown ones) stays here. */
  #notify(message: RpcMessage): void {
    const { method } = message;
    const params = rpc.params(message);
    if (method === 'notifications/progress')
      this.#requests.get(params['progressToken'] as RpcId)?.progress?.(message);
    else if (method === 'notifications/resources/updated')
      for (const link of this.#followers(textOf(params['uri']))) link.notify(message);
    else if (/^notifications\/(?:tools|prompts|resources)\/list_changed$/.test(method))
      for (const link of this.#server.links) link.notify(message);
  }

  /** Sessions that have subscribed to a resource, or to one that contains it. */
  #followers(uri: string): ReadonlySet<SharedLink> {
    const { subscriptions } = this.#server;
    const found = new Set(subscriptions.get(uri));
    if (uri.length > maxUriLength) return found;
    for (let end = uri.lastIndexOf('/'); end > 0; end = uri.lastIndexOf('/', end - 1))
      for (const parent of [uri.slice(0, end), uri.slice(0, end + 1)])
        for (const link of subscriptions.get(parent) ?? []) found.add(link);
    return found;
  }
}

/** `params` with the gateway's progress token, and without a task, which only a client of its own could ask for. */
function paramsAt(message: RpcMessage, progressToken: number): JsonObject {
  const params = rpc.params(message);
  const hasToken = rpc.progressToken(message) !== undefined;
  if (!hasToken && !('task' in params)) return {};
  const { _meta: meta } = params;
  const given = Object.fromEntries(Object.entries(params).filter(([name]) => name !== 'task'));
  if (!hasToken || !isJsonObject(meta)) return { params: given };
  return { params: { ...given, _meta: { ...meta, progressToken } } };
}

function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : '';
}
