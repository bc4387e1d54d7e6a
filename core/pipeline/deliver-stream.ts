import { GatewayError } from '../errors/gateway-error.ts';
import { codingOf } from '../http/content-encoding.ts';
import { sendHead } from '../http/reply.ts';
import { headerValue, type HeaderList } from '../ports/header-list.ts';
import type { Answer, StreamSource, StreamTarget } from './answer.ts';
import { clientLeft } from './client-left.ts';
import type { MaybePromise } from './context.ts';
import { decodedSource } from './decoded-source.ts';
import type { Exchange } from './exchange.ts';
import { withoutHeader } from './response-view.ts';
import { settle, type EngineRuntime } from './settle.ts';
import { activeTaps, buildStages, TapChain } from './tap-chain.ts';

/** A head whose first byte does not follow is sent alone after this long. */
const headDelayMs = 100;

/** Streams an answer to the client, through the taps of the plugins before `upTo` where there are any. */
export function deliverStream(
  exchange: Exchange,
  answer: Answer & { readonly body: StreamSource },
  upTo: number,
  runtime: EngineRuntime,
  refuse: (error: GatewayError) => MaybePromise<void>,
): void {
  let source = answer.body;
  let { headers } = answer;
  try {
    const taps = answer.dialect === undefined ? [] : activeTaps(exchange, upTo);
    const codec = exchange.dialect.frames;
    if (taps.length > 0 && codec === undefined && taps.some((tap) => tap.judges))
      throw unjudged(taps[0]?.instance.name ?? '');
    const stages = taps.length > 0 && codec !== undefined ? buildStages(exchange, codec, upTo, runtime) : [];
    const delivery = new StreamDelivery(exchange, answer.status, runtime, refuse);
    if (stages.length === 0 || codec === undefined) {
      delivery.start(source, headers);
      source.pipe(delivery);
      return;
    }
    headers = withoutHeader(headers, 'content-length');
    const coding = codingOf(headerValue(headers, 'content-encoding'));
    if (coding === 'unknown') throw unjudged(taps[0]?.instance.name ?? '');
    if (coding !== 'identity') {
      source = decodedSource(source, coding);
      headers = withoutHeader(headers, 'content-encoding');
    }
    delivery.start(source, headers);
    source.pipe(new TapChain(stages, codec, exchange, source, delivery));
  } catch (error) {
    const refusal = GatewayError.is(error)
      ? error
      : new GatewayError('internal', 'The stream could not be started.', { cause: error });
    source.cancel(refusal);
    void refuse(refusal);
  }
}

function unjudged(plugin: string): GatewayError {
  return new GatewayError(
    'not_supported',
    `The plugin "${plugin}" has to judge this stream and cannot read its format. Ask for an answer without streaming.`,
  );
}

/** The client's end of a stream: head before the first byte, back-pressure, record for the log, honest end. */
class StreamDelivery implements StreamTarget {
  private readonly exchange: Exchange;
  private readonly status: number;
  private readonly runtime: EngineRuntime;
  private readonly refuse: (error: GatewayError) => MaybePromise<void>;
  private headers: HeaderList = [];
  private kept: Buffer[] = [];
  private keptBytes = 0;
  private truncated = false;
  private lastChunk: Buffer | undefined;
  private cancelHeadTimer: (() => void) | undefined;
  private finished = false;

  constructor(
    exchange: Exchange,
    status: number,
    runtime: EngineRuntime,
    refuse: (error: GatewayError) => MaybePromise<void>,
  ) {
    this.exchange = exchange;
    this.status = status;
    this.runtime = runtime;
    this.refuse = refuse;
  }

  start(source: StreamSource, headers: HeaderList): void {
    this.headers = headers;
    const { sink } = this.exchange;
    sink.onDrain(() => source.resume());
    this.cancelHeadTimer = this.runtime.clock.after(headDelayMs, () => {
      if (this.finished || sink.headSent) return;
      this.sendHead();
      sink.flushHead();
    });
    this.exchange.onAbort(() => {
      const left = this.exchange.failure ?? clientLeft();
      source.cancel(left);
      this.finish(left.status, left);
    });
  }

  data(chunk: Buffer): boolean {
    if (this.finished) return false;
    const { sink, facts } = this.exchange;
    if (!sink.headSent) this.sendHead();
    if (facts.firstByteAt === 0) facts.firstByteAt = this.runtime.clock.monotonic();
    facts.responseBytes += chunk.length;
    this.lastChunk = chunk;
    this.keep(chunk);
    return sink.write(chunk);
  }

  end(): void {
    if (this.finished) return;
    if (!this.exchange.sink.headSent) this.sendHead();
    this.exchange.sink.end();
    this.finish(this.status, undefined);
  }

  fail(error: GatewayError): void {
    if (this.finished) return;
    const { sink, dialect, id } = this.exchange;
    if (!sink.headSent) {
      this.finished = true;
      this.cancelHeadTimer?.();
      void this.refuse(error);
      return;
    }
    const eventStream = headerValue(this.headers, 'content-type')?.startsWith('text/event-stream') ?? false;
    const readable = codingOf(headerValue(this.headers, 'content-encoding')) === 'identity';
    // An error event fits only between two frames; in the middle of one the cut alone has to say it.
    const canTell =
      eventStream &&
      readable &&
      this.atFrameEnd() &&
      headerValue(this.headers, 'content-length') === undefined;
    sink.cut(canTell ? Buffer.from(dialect.encodeStreamError(error, id)) : undefined);
    this.finish(this.status, error);
  }

  private sendHead(): void {
    sendHead(this.exchange, this.status, this.headers);
  }

  private atFrameEnd(): boolean {
    const last = this.lastChunk;
    return (
      last === undefined ||
      last.subarray(-2).toString('latin1') === '\n\n' ||
      last.subarray(-4).toString('latin1') === '\r\n\r\n'
    );
  }

  private keep(chunk: Buffer): void {
    const room = this.exchange.pipeline.keepsResponseBytes - this.keptBytes;
    if (room <= 0) {
      this.truncated = true;
      return;
    }
    this.kept.push(chunk.length > room ? chunk.subarray(0, room) : chunk);
    this.keptBytes += Math.min(room, chunk.length);
    if (chunk.length > room) this.truncated = true;
  }

  private finish(status: number, error: GatewayError | undefined): void {
    if (this.finished) return;
    this.finished = true;
    this.cancelHeadTimer?.();
    settle(
      this.exchange,
      {
        status,
        body: this.kept.length > 0 ? Buffer.concat(this.kept) : undefined,
        truncated: this.truncated,
        contentType: headerValue(this.headers, 'content-type') ?? '',
        contentEncoding: headerValue(this.headers, 'content-encoding') ?? '',
      },
      error,
      this.runtime,
    );
  }
}
