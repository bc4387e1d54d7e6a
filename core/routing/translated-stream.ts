import type { ChatEventReader, ChatEventWriter } from '../dialects/canonical/chat-codec.ts';
import type { ChatEvent } from '../dialects/canonical/chat-event.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { StreamSource, StreamTarget } from '../pipeline/answer.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { Clock } from '../ports/clock.ts';
import { reportedError } from './translation.ts';

/**
 * A provider's stream in the client's wire: bytes → events → bytes, with back-pressure both ways. An error event, a
 * stream that ends too early and a broken connection all reach the client as an error of its own wire, never as an end.
 */
export class TranslatedStream implements StreamSource, StreamTarget {
  private readonly source: StreamSource;
  private readonly reader: ChatEventReader;
  private readonly writer: ChatEventWriter;
  private readonly exchange: Exchange;
  private readonly clock: Clock;
  private target: StreamTarget | undefined;
  private over = false;

  constructor(
    source: StreamSource,
    codecs: { readonly reader: ChatEventReader; readonly writer: ChatEventWriter },
    exchange: Exchange,
    clock: Clock,
  ) {
    this.source = source;
    this.reader = codecs.reader;
    this.writer = codecs.writer;
    this.exchange = exchange;
    this.clock = clock;
  }

  pipe(target: StreamTarget): void {
    this.target = target;
    this.source.pipe(this);
  }

  resume(): void {
    this.source.resume();
  }

  cancel(error: GatewayError): void {
    this.over = true;
    this.source.cancel(error);
  }

  data(chunk: Buffer): boolean {
    return this.over ? false : this.emit(this.reader.push(chunk));
  }

  end(): void {
    if (this.over) return;
    this.emit(this.reader.finish());
    // Set meanwhile when the last events were an error.
    if (this.over) return;
    this.over = true;
    this.target?.end();
  }

  fail(error: GatewayError): void {
    if (this.over) return;
    const { status, message, type } = error;
    const code = error.shownCode;
    const event: ChatEvent = {
      type: 'error',
      error: code === null ? { status, message, type } : { status, message, type, code },
    };
    this.stop(event, error, false);
  }

  private emit(events: readonly ChatEvent[]): boolean {
    if (events.length === 0) return true;
    let room = true;
    try {
      const last = events[events.length - 1] as ChatEvent;
      const good = last.type === 'error' ? events.slice(0, -1) : events;
      for (const event of good) this.learn(event);
      const bytes = good.length === 0 ? undefined : this.writer.write(good);
      if (bytes !== undefined && this.target !== undefined) room = this.target.data(bytes);
      if (last.type === 'error') this.stop(last, reportedError(last.error), true);
    } catch (cause) {
      const error = GatewayError.is(cause)
        ? cause
        : new GatewayError(
            'upstream_invalid',
            "The provider's stream cannot be said in the client's format.",
            {
              cause,
              source: 'provider',
            },
          );
      this.over = true;
      this.source.cancel(error);
      this.target?.fail(error);
    }
    return room && !this.over;
  }

  /** Tells the client of an error in its own wire. `cancels`: the source still flows. */
  private stop(event: ChatEvent, error: GatewayError, cancels: boolean): void {
    if (this.over) return;
    this.over = true;
    if (cancels) this.source.cancel(error);
    this.target?.fail(error, this.tell(event));
  }

  /** The event in the client's wire; undefined when its writer is what broke. */
  private tell(event: ChatEvent): Buffer | undefined {
    try {
      return this.writer.write([event]);
    } catch {
      return undefined;
    }
  }

  private learn(event: ChatEvent): void {
    const { facts } = this.exchange;
    const { type } = event;
    if (type === 'text-delta' || type === 'reasoning-delta' || type === 'arguments-delta') {
      if (facts.firstTokenAt === 0) facts.firstTokenAt = this.clock.monotonic();
    } else if (type === 'start') {
      if (event.model !== '') facts.modelAnswered = event.model;
      if (event.usage !== undefined) facts.usage = event.usage;
    } else if (type === 'usage') {
      facts.usage = event.usage;
    } else if (type === 'finish') {
      const { raw } = event.finish;
      if (raw !== '') facts.finishReason = facts.finishReason === '' ? raw : `${facts.finishReason},${raw}`;
    }
  }
}
