import type { Duplex } from 'node:stream';
import { DeadlineWheel, type Deadline } from '../base/deadline.ts';

/** How a relay ended. */
export type RelayEnd =
  /** One side ended in order, and the other followed or was ended. */
  | 'closed'
  /** The client's connection broke. */
  | 'client-lost'
  /** The provider's connection broke. */
  | 'provider-lost'
  /** No byte came from either side for the idle timeout. */
  | 'idle'
  /** The client took no byte for the stall timeout. */
  | 'stalled';

/** Connections and limits of a relay. Timeouts are milliseconds, 0 for none. */
interface RelaySetup {
  readonly client: Duplex;
  /** Bytes that the client sent before the switch. */
  readonly early: Buffer;
  readonly provider: Duplex;
  readonly idleTimeoutMs: number;
  readonly stallTimeoutMs: number;
  /** Called once, when both connections have closed. */
  over(end: RelayEnd, bytes: { readonly sent: number; readonly received: number }): void;
}

/** After one side has ended, the longest pause between two bytes of the other, and its time to end. */
const lingerMs = 10_000;

const deadlines = new DeadlineWheel();

/**
 * Relays bytes between two connections, unread, until both have closed. A full side pauses the other: only the
 * connections' own buffers hold data.
 */
export class UpgradeRelay {
  private readonly setup: RelaySetup;
  private readonly idle: Deadline;
  private readonly stall: Deadline;
  private end: RelayEnd | undefined;
  private open = 2;
  private sent = 0;
  private received = 0;

  constructor(setup: RelaySetup) {
    this.setup = setup;
    this.idle = deadlines.create(() => this.cut(this.end ?? 'idle'));
    this.stall = deadlines.create(() => this.cut('stalled'));
  }

  start(): void {
    const { client, provider, early, idleTimeoutMs } = this.setup;
    client.on('data', this.fromClient).on('drain', this.clientDrained);
    provider.on('data', this.fromProvider).on('drain', this.providerDrained);
    this.watch(client, provider, 'client-lost');
    this.watch(provider, client, 'provider-lost');
    this.idle.set(idleTimeoutMs);
    client.resume();
    provider.resume();
    if (early.length > 0) this.fromClient(early);
    // A connection that closed earlier emits no further event.
    if (client.closed) this.closed(provider, 'client-lost');
    if (provider.closed) this.closed(client, 'provider-lost');
  }

  private watch(side: Duplex, other: Duplex, lost: RelayEnd): void {
    // Each side may end alone: the other may still send.
    side.allowHalfOpen = true;
    side.on('error', () => (this.end ??= lost));
    side.once('end', () => {
      this.end ??= 'closed';
      this.linger();
      if (other.writable) other.end();
    });
    side.once('close', () => this.closed(other, lost));
  }

  private readonly fromClient = (chunk: Buffer): void => {
    const { client, provider } = this.setup;
    this.sent += chunk.length;
    this.idle.refresh();
    if (provider.writable && !provider.write(chunk)) client.pause();
  };

  private readonly fromProvider = (chunk: Buffer): void => {
    const { client, provider, stallTimeoutMs } = this.setup;
    this.received += chunk.length;
    this.idle.refresh();
    if (!client.writable || client.write(chunk)) return;
    provider.pause();
    this.stall.set(stallTimeoutMs);
  };

  private readonly clientDrained = (): void => {
    this.stall.clear();
    this.idle.refresh();
    this.setup.provider.resume();
  };

  private readonly providerDrained = (): void => {
    this.idle.refresh();
    this.setup.client.resume();
  };

  /** A side that closed without an end was lost; its earlier bytes still reach the other. */
  private closed(other: Duplex, lost: RelayEnd): void {
    this.end ??= lost;
    this.open -= 1;
    if (this.open === 0) {
      this.finish();
      return;
    }
    this.linger();
    // The other side has gone: the rest has no receiver.
    other.resume();
    if (other.writableFinished) other.destroy();
    else other.end(() => other.destroy());
  }

  private linger(): void {
    const { idleTimeoutMs } = this.setup;
    this.idle.set(idleTimeoutMs === 0 ? lingerMs : Math.min(idleTimeoutMs, lingerMs));
  }

  private cut(reason: RelayEnd): void {
    this.end = this.end === undefined || this.end === 'closed' ? reason : this.end;
    this.setup.client.destroy();
    this.setup.provider.destroy();
  }

  private finish(): void {
    this.idle.clear();
    this.stall.clear();
    this.setup.over(this.end ?? 'closed', { sent: this.sent, received: this.received });
  }
}
