import { GatewayError } from '../errors/gateway-error.ts';
import { codecFor } from '../dialects/dialect.ts';
import { type EngineRuntime, sendHead, settle } from './settle.ts';
import { codingOf } from '../connection/content-encoding.ts';
import { type HeaderList, headerValue, withoutHeader } from '../ports/header-list.ts';
import { type Answer, clientLeft, decodedSource, type StreamSource, type StreamTarget } from './answer.ts';
import type { TapStep } from './compile.ts';
import type { MaybePromise } from './context.ts';
import type { Exchange } from './exchange.ts';
import { type StreamNotes, streamNotes } from './keys.ts';
import { buildStages, type RefusalPlace, TapChain } from './tap-chain.ts';

/** Enough for the first event of a stream, behind which it may stay silent for long. */
const firstBytes = 512;
/** Size after the first growth. */
const secondBytes = 4096;

/**
 * A bounded copy of a stream, in one buffer that doubles. A list of the chunks themselves would keep thousands of
 * small buffers alive over several collections of the young generation, which costs more than copying them.
 */
export class GrowingBytes {
  private readonly maxBytes: number;
  private store: Buffer | undefined;
  private length = 0;

  /** `maxBytes`: bytes beyond it are left out. */
  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /** Bytes appended so far; undefined for none. */
  get bytes(): Buffer | undefined {
    return this.length === 0 ? undefined : this.store?.subarray(0, this.length);
  }

  /** False when the chunk did not fit whole. */
  append(chunk: Buffer): boolean {
    const taken = Math.min(this.maxBytes - this.length, chunk.length);
    if (taken <= 0) return chunk.length === 0;
    const needed = this.length + taken;
    if (this.store === undefined || needed > this.store.length) this.grow(needed);
    (this.store as Buffer).set(taken === chunk.length ? chunk : chunk.subarray(0, taken), this.length);
    this.length = needed;
    return taken === chunk.length;
  }

  private grow(needed: number): void {
    const wanted =
      this.store === undefined
        ? Math.max(needed, firstBytes)
        : Math.max(needed, secondBytes, this.store.length * 2);
    const grown = Buffer.allocUnsafeSlow(Math.min(wanted, this.maxBytes));
    this.store?.copy(grown, 0, 0, this.length);
    this.store = grown;
  }
}

/** A head is sent alone after this time without a first byte. */
const headDelayMs = 100;
const noHeaders: HeaderList = [];
const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/** Streams an answer to the client, through the taps of the plugins before `upTo` where there are any. */
export function deliverStream(
  exchange: Exchange,
  answer: Answer & { readonly body: StreamSource },
  upTo: number,
  runtime: EngineRuntime,
  refuse: Refuse,
): void {
  let source = answer.body;
  let { headers } = answer;
  const delivery = new StreamDelivery(exchange, answer.status, runtime, refuse, upTo);
  try {
    const taps = isEventStream(answer) ? activeTaps(exchange, upTo) : [];
    const judge = taps.find((tap) => tap.judges);
    const coding = codingOf(headerValue(headers, 'content-encoding'));
    const codec =
      coding === 'unknown'
        ? undefined
        : codecFor(exchange.dialect.frames, headerValue(headers, 'content-type'));
    if (judge !== undefined && codec === undefined) throw unreadableStreamError(delivery, judge);
    const stages = codec === undefined ? [] : buildStages(taps, exchange, codec, runtime, delivery);
    const notes = codec === undefined ? undefined : exchange.get(streamNotes);
    if ((stages.length === 0 && notes === undefined) || codec === undefined) {
      delivery.start(source, headers, false);
      source.pipe(delivery);
      return;
    }
    headers = withoutHeader(headers, 'content-length');
    if (coding !== 'identity' && coding !== 'unknown') {
      source = decodedSource(source, coding);
      headers = withoutHeader(headers, 'content-encoding');
    }
    delivery.notes = notes;
    delivery.start(source, headers, judge !== undefined);
    source.pipe(stages.length === 0 ? delivery : new TapChain(stages, codec, exchange, source, delivery));
  } catch (error) {
    const refusal = GatewayError.is(error)
      ? error
      : new GatewayError('internal', 'The stream could not be started.', { cause: error });
    source.cancel(refusal);
    delivery.fail(refusal);
  }
}

/** Answers with an error that only the plugins before `upTo` see. Never rejects. */
type Refuse = (error: GatewayError, upTo: number) => MaybePromise<void>;

function isEventStream({ dialect, headers }: Answer): boolean {
  return dialect !== undefined || /^text\/event-stream/i.test(headerValue(headers, 'content-type') ?? '');
}

function unreadableStreamError(place: RefusalPlace, { instance, index }: TapStep): GatewayError {
  place.upTo = index;
  return new GatewayError(
    'not_supported',
    `The plugin "${instance.name}" has to judge this stream and cannot read its format. Ask for an answer without streaming.`,
    { plugin: instance.name },
  );
}

/** The client's end of a stream: head before the first byte, back-pressure, record for the log, honest end. */
class StreamDelivery implements StreamTarget, RefusalPlace {
  upTo: number;
  /** Extra frames beside the answer. */
  notes: StreamNotes | undefined;
  private readonly exchange: Exchange;
  private readonly status: number;
  private readonly runtime: EngineRuntime;
  private readonly refuse: Refuse;
  /** Until the head has been sent. */
  private headers = noHeaders;
  private contentType = '';
  private contentEncoding = '';
  private hasLength = false;
  private readonly kept: GrowingBytes;
  private truncated = false;
  /** The last bytes that were sent end a frame. */
  private atFrameEnd = true;
  private notesTold = false;
  private cancelHeadTimer: (() => void) | undefined;
  private finished = false;

  constructor(exchange: Exchange, status: number, runtime: EngineRuntime, refuse: Refuse, upTo: number) {
    this.upTo = upTo;
    this.exchange = exchange;
    this.kept = new GrowingBytes(exchange.pipeline.keepsResponseBytes);
    this.status = status;
    this.runtime = runtime;
    this.refuse = refuse;
  }

  /** `judged`: the head waits for the first byte, so that a refusal before it still has its own status. */
  start(source: StreamSource, headers: HeaderList, judged: boolean): void {
    this.headers = headers;
    this.contentType = headerValue(headers, 'content-type') ?? '';
    this.contentEncoding = headerValue(headers, 'content-encoding') ?? '';
    this.hasLength = headerValue(headers, 'content-length') !== undefined;
    const { sink, body } = this.exchange;
    body.keepBytesOnly();
    sink.onDrain(() => source.resume());
    if (!judged) {
      this.cancelHeadTimer = this.runtime.clock.after(headDelayMs, () => {
        if (this.finished || sink.headSent) return;
        this.sendHead();
        sink.flushHead();
      });
    }
    this.exchange.onAbort(() => {
      source.cancel(this.exchange.failure ?? clientLeft());
      this.leave();
    });
  }

  data(chunk: Buffer): boolean {
    if (this.finished) return false;
    const first = this.notesTold ? undefined : this.firstNote();
    if (first !== undefined) this.put(first);
    return this.put(chunk);
  }

  private firstNote(): Buffer | undefined {
    this.notesTold = true;
    return this.notes?.first();
  }

  private put(chunk: Buffer): boolean {
    const { sink, facts } = this.exchange;
    if (!sink.headSent) this.sendHead();
    if (facts.firstByteAt === 0) facts.firstByteAt = this.runtime.clock.monotonic();
    facts.responseBytes += chunk.length;
    this.atFrameEnd = endsFrame(chunk);
    this.keep(chunk);
    return sink.write(chunk);
  }

  end(): void {
    if (this.finished) return;
    // A frame begins only where the one before it has ended.
    const last = this.atFrameEnd ? this.notes?.last() : undefined;
    if (last !== undefined) this.put(last);
    if (!this.exchange.sink.headSent) this.sendHead();
    this.exchange.sink.end();
    this.finish(this.status, undefined);
  }

  fail(error: GatewayError, told?: Buffer): void {
    if (this.finished) return;
    const { sink, dialect, id } = this.exchange;
    if (this.exchange.aborted) {
      this.leave();
      return;
    }
    if (!sink.headSent) {
      this.finished = true;
      this.stopHeadTimer();
      void this.refuse(error, this.upTo);
      return;
    }
    const eventStream = this.contentType.startsWith('text/event-stream');
    const readable = codingOf(this.contentEncoding) === 'identity';
    // An error event fits only between two frames; within a frame, only the cut connection signals the error.
    const canTell = eventStream && readable && this.atFrameEnd && !this.hasLength;
    const last = told ?? (canTell ? Buffer.from(dialect.encodeStreamError(error, id)) : undefined);
    if (last !== undefined) this.keep(last);
    sink.cut(last);
    this.finish(this.status, error);
  }

  /** The client has left: the log records this, not a later failure of the source. */
  private leave(): void {
    const left = this.exchange.failure ?? clientLeft();
    this.finish(left.status, left);
  }

  private sendHead(): void {
    this.stopHeadTimer();
    sendHead(this.exchange, this.status, this.headers);
    this.headers = noHeaders;
  }

  private stopHeadTimer(): void {
    this.cancelHeadTimer?.();
    this.cancelHeadTimer = undefined;
  }

  private keep(chunk: Buffer): void {
    if (!this.kept.append(chunk)) this.truncated = true;
  }

  private finish(status: number, error: GatewayError | undefined): void {
    if (this.finished) return;
    this.finished = true;
    this.stopHeadTimer();
    settle(
      this.exchange,
      {
        status,
        body: this.kept.bytes,
        truncated: this.truncated,
        contentType: this.contentType,
        contentEncoding: this.contentEncoding,
      },
      error,
      this.runtime,
    );
  }
}

/** A blank line is the last that came, with either line end. */
function endsFrame(chunk: Buffer): boolean {
  const { length } = chunk;
  if (length < 2 || chunk[length - 1] !== lineFeed) return false;
  const before = chunk[length - 2];
  if (before === lineFeed) return true;
  return before === carriageReturn && chunk[length - 3] === lineFeed && chunk[length - 4] === carriageReturn;
}

/** The taps of plugins before `upTo`, nearest the provider first. */
function activeTaps(exchange: Exchange, upTo: number): readonly TapStep[] {
  return exchange.pipeline.taps.filter((step) => step.index < upTo);
}
