import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { McpRequest, McpStdioTarget } from '../../core/ports/mcp.ts';
import type { RpcMessage } from './json-rpc.ts';
import type { Delivery, LinkReceiver, MessageLink } from './message-session.ts';
import { MessageSessions } from './message-sessions.ts';
import { SharedChild } from './shared-child.ts';
import { ChildLog, childUnreachable, notReading, StartDelays, StdioChild } from './stdio-child.ts';

/** A server that runs as a child process of the gateway. */
export function createStdioUpstream(target: McpStdioTarget, log: Log, clock: Clock): MessageSessions {
  const Children = target.isShared === true ? SharedChild : OwnChildren;
  return new MessageSessions(new Children(target, log, clock), clock);
}

/** One child for each session. */
class OwnChildren {
  readonly peer: string;
  readonly maxSessions: number;
  readonly target: McpStdioTarget;
  readonly clock: Clock;
  readonly log: ChildLog;
  readonly delays: StartDelays;
  /** Links whose child runs, or has been asked to end. */
  readonly #running = new Set<OwnLink>();
  #starting: OwnLink[] = [];

  constructor(target: McpStdioTarget, log: Log, clock: Clock) {
    this.peer = target.name;
    this.maxSessions = target.maxChildren;
    this.target = target;
    this.clock = clock;
    this.log = new ChildLog(target, log, clock);
    this.delays = new StartDelays(target.name, this.log, clock);
  }

  open(_handshake: McpRequest, receiver: LinkReceiver): MessageLink {
    this.delays.requireSoon();
    const link = new OwnLink(this, receiver);
    this.#starting.push(link);
    this.#startNext();
    return link;
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /** Its child has ended. */
  left(link: OwnLink): void {
    this.#running.delete(link);
    this.#starting = this.#starting.filter((other) => other !== link);
    this.#startNext();
  }

  /** A child that has been asked to end counts until it is gone. */
  #startNext(): void {
    const link = this.#running.size < this.maxSessions ? this.#starting.shift() : undefined;
    if (link === undefined) return;
    this.#running.add(link);
    link.start();
  }
}

/** The way to the child of one session. */
class OwnLink implements MessageLink {
  readonly #children: OwnChildren;
  readonly #receiver: LinkReceiver;
  #child: StdioChild | undefined;
  #waiting: { readonly message: RpcMessage; readonly delivery: Delivery }[] = [];
  #cancelStart: () => void = () => undefined;
  #isGreeted = false;
  #isClosed = false;

  constructor(children: OwnChildren, receiver: LinkReceiver) {
    this.#children = children;
    this.#receiver = receiver;
  }

  /** Starts the child, after the delay that failures have brought about. */
  start(): void {
    const { clock, delays } = this.#children;
    const { waitMs } = delays;
    if (waitMs === 0) this.#startNow();
    else this.#cancelStart = clock.after(waitMs, () => this.#startNow());
  }

  #startNow(): void {
    const { target, log, clock } = this.#children;
    this.#child = new StdioChild(target, log, clock, {
      message: (message) => this.#receive(message),
      oversized: (id) => this.#receiver.receiveOversized(id),
      ended: (reason) => this.#ended(reason),
    });
    for (const { message, delivery } of this.#waiting) this.send(message, delivery);
    this.#waiting = [];
  }

  send(message: RpcMessage, delivery: Delivery): void {
    const child = this.#child;
    if (child === undefined) this.#waiting.push({ message, delivery });
    else if (child.write(message.text)) queueMicrotask(() => delivery.delivered());
    else queueMicrotask(() => delivery.failed(notReading(this.#children.peer)));
  }

  pause(): void {
    this.#child?.pause();
  }

  resume(): void {
    this.#child?.resume();
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#cancelStart();
    this.#waiting = [];
    await this.#child?.stop();
    this.#children.left(this);
  }

  #receive(message: RpcMessage): void {
    if (this.#isClosed) return;
    if (message.kind === 'response' && !this.#isGreeted) {
      this.#isGreeted = true;
      this.#children.delays.succeeded();
    }
    this.#receiver.receive(message);
  }

  #ended(reason: string): void {
    if (this.#isClosed) return;
    const { delays, log, peer } = this.#children;
    if (this.#isGreeted) log.warn(`${reason}; its session is over`);
    else delays.failed(reason);
    const error = this.#isGreeted ? ended(peer, reason) : childUnreachable(peer, reason);
    this.#receiver.ended(error);
  }
}

/** The child of a session has ended. */
function ended(name: string, reason: string): GatewayError {
  const message = `The MCP server ${name} ${reason}; send the request again in a new session.`;
  return new GatewayError('upstream_reset', message);
}
