import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { GatewayError } from '../errors/gateway-error.ts';
import { type Deadline, DeadlineWheel } from '../base/deadline.ts';
import { joinChunks } from '../base/bytes.ts';
import { atTurnEnd } from '../base/turns.ts';
import { withoutHeader } from '../ports/header-list.ts';

/**
 * Bodies from this length on are counted together with the memory of parsing: their text, their values, the copy that
 * is sent.
 */
const countedParsing = 16_384;
/** Memory of parsing per byte of the body, in bytes. */
const parsingBytesPerByte = 2;
/** Longer bodies are received into one buffer of their length, and leave a share of the memory to the others. */
const oneBuffer = 262_144;
/** Bytes counted at first for a body not yet received; later twice the received amount. */
const firstStep = 65_536;
/** Share of the memory reserved for short bodies: slow senders of long ones must not stop ordinary requests. */
const shareOfShort = 1 / 16;
/** Bodies that are forwarded without parsing. */
const upload = /^\s*(?:multipart|audio|image|video)\//i;

/** Upper bound of the memory of parsing, in addition to the body. */
function parsingBytes(bodyBytes: number): number {
  return bodyBytes < countedParsing ? 0 : bodyBytes * parsingBytesPerByte;
}

/** Shared memory bound of all request bodies. */
export class BufferBudget {
  private readonly limit: number;
  private readonly limitOfLong: number;
  private used = 0;

  constructor(limit: number) {
    this.limit = limit;
    this.limitOfLong = Math.floor(limit * (1 - shareOfShort));
  }

  /**
   * Reserves memory; false, without reserving, when there is no room. `isLong`: for a body that leaves a share to the
   * others.
   */
  take(bytes: number, isLong = false): boolean {
    if (!this.hasRoom(bytes, isLong)) return false;
    this.used += bytes;
    return true;
  }

  /** Whether there is room for this number of bytes. */
  hasRoom(bytes: number, isLong = false): boolean {
    return this.used + bytes <= (isLong ? this.limitOfLong : this.limit);
  }

  give(bytes: number): void {
    this.used -= bytes;
  }

  get usedBytes(): number {
    return this.used;
  }
}

export interface BodyLimits extends PaceLimits {
  readonly maxBytes: number;
  readonly budget: BufferBudget;
}

/** The client's request for the pipeline: raw, lazy, and the same on every runtime. */
export class IncomingRequest {
  readonly message: IncomingMessage;
  private readonly response: ServerResponse;
  private readonly limits: BodyLimits;
  private readonly expectsContinue: boolean;
  private collector: BodyCollector | undefined;
  private heldBytes = 0;
  /** The part of these that is counted for parsing. */
  private parsingBytes = 0;
  private consumed = false;

  constructor(
    message: IncomingMessage,
    response: ServerResponse,
    limits: BodyLimits,
    expectsContinue: boolean,
  ) {
    this.message = message;
    this.response = response;
    this.limits = limits;
    this.expectsContinue = expectsContinue;
  }

  header(name: string): string | undefined {
    const value = this.message.headers[name];
    return typeof value === 'string' ? value : value?.[0];
  }

  /** Replaces all headers of this name; undefined removes them. */
  setHeader(name: string, value: string | undefined): void {
    const { message } = this;
    const lower = name.toLowerCase();
    // Node makes `headers` of `rawHeaders` at the first access, so this comes first.
    delete message.headers[lower];
    message.rawHeaders = withoutHeader(message.rawHeaders, lower);
    if (value === undefined) return;
    message.headers[lower] = value;
    message.rawHeaders.push(name, value);
  }

  /** A length or chunked framing announces a body; a GET without either has none. */
  get hasBody(): boolean {
    const { headers } = this.message;
    const length = headers['content-length'];
    return (length !== undefined && length !== '0') || headers['transfer-encoding'] !== undefined;
  }

  /**
   * The client still waits for `100 Continue`: it may never send its body, so the connection serves no other request.
   */
  get awaitsContinue(): boolean {
    return this.expectsContinue && !this.consumed;
  }

  /**
   * The whole body, synchronously when it has arrived. Throws `body_too_large`, `overloaded`, `body_timeout` or
   * `client_closed`.
   */
  readBody(): Buffer | Promise<Buffer> {
    const announced = Number(this.header('content-length') ?? 0);
    if (announced > this.limits.maxBytes) throw tooLarge(this.limits.maxBytes);
    if (this.message.complete) return this.receivedBody();
    const isParsed = !upload.test(this.header('content-type') ?? '');
    // Refused before any byte arrives; reserves only received bytes, so that slow senders do not hold what they
    // announce.
    const whole = announced + (isParsed ? parsingBytes(announced) : 0);
    if (!this.limits.budget.hasRoom(whole, announced > oneBuffer)) throw overloaded();
    this.beginBody();
    return new Promise((resolve, reject) => {
      const received = (body: Buffer): void => {
        // Unless it was released meanwhile.
        if (this.collector !== undefined) {
          this.parsingBytes = isParsed ? parsingBytes(body.length) : 0;
          this.heldBytes += body.length + this.parsingBytes;
          this.collector = undefined;
        }
        resolve(body);
      };
      const collected = { announced, isParsed, received, refused: reject };
      this.collector = new BodyCollector(this.message, this.limits, collected);
    });
  }

  /** Body of a request that has already arrived: most come with their head. */
  private receivedBody(): Buffer {
    const { message, limits } = this;
    this.consumed = true;
    if (message.readableLength > limits.maxBytes) throw tooLarge(limits.maxBytes);
    const body = (message.read() as Buffer | null) ?? Buffer.alloc(0);
    this.hold(body.length);
    if (body.length >= countedParsing && !upload.test(this.header('content-type') ?? ''))
      this.holdParsing(body.length);
    return body;
  }

  /** The unread body, for forwarding as a stream. A client that pauses too long breaks it with `body_timeout`. */
  streamBody(): Readable {
    this.beginBody();
    return new StreamedBody(this.message, this.limits);
  }

  /** Counts memory of this request. Throws `overloaded` when there is no room; `isSpare` leaves a share to others. */
  hold(bytes: number, isSpare = false): void {
    if (!this.limits.budget.take(bytes, isSpare)) throw overloaded();
    this.heldBytes += bytes;
  }

  /**
   * Counts the memory of parsing a body of that length, unless it is counted already. Throws `overloaded` when there is
   * no room.
   */
  holdParsing(bodyBytes: number): void {
    const more = parsingBytes(bodyBytes) - this.parsingBytes;
    if (more <= 0) return;
    this.hold(more);
    this.parsingBytes += more;
  }

  /** Releases the memory of the parsed body. */
  releaseParsing(): void {
    this.limits.budget.give(this.parsingBytes);
    this.heldBytes -= this.parsingBytes;
    this.parsingBytes = 0;
  }

  /** Releases the counted memory. A client that is still sending may finish, for a while. */
  release(): void {
    this.collector?.release();
    this.collector = undefined;
    this.limits.budget.give(this.heldBytes);
    this.heldBytes = this.parsingBytes = 0;
    if (this.hasBody && !this.message.complete) this.dropRest();
  }

  /**
   * Cutting at once would lose the answer in transit; reading without limit would leave the client a connection for
   * nothing.
   */
  private dropRest(): void {
    const { message } = this;
    const timer = setTimeout(() => message.socket.destroy(), this.limits.idleTimeoutMs);
    timer.unref();
    message.once('close', () => clearTimeout(timer));
  }

  private beginBody(): void {
    this.consumed = true;
    if (this.expectsContinue) this.response.writeContinue();
  }
}

const deadlines = new DeadlineWheel();

/** Callbacks and facts of a body that is being collected. */
interface Gathering {
  /** Its length; 0 when unknown. */
  readonly announced: number;
  readonly isParsed: boolean;
  /** Takes over the memory counted for it. */
  readonly received: (body: Buffer) => void;
  readonly refused: (error: GatewayError) => void;
}

/** State of a collector until the body is complete or refused. */
interface Collecting extends Gathering {
  readonly deadline: Deadline;
  readonly chunks: Buffer[];
  /** Buffer for all chunks of a long body of known length: joining them at the end would hold up all others. */
  readonly whole: Buffer | undefined;
}

/**
 * Collects one body within its bounds. Its listeners keep it alive as long as the request; it releases everything else
 * at once.
 */
class BodyCollector {
  private readonly limits: BodyLimits;
  private readonly pace: BodyPace;
  private collecting: Collecting | undefined;
  private length = 0;
  private counted = 0;

  constructor(message: IncomingMessage, limits: BodyLimits, gathering: Gathering) {
    this.limits = limits;
    this.pace = new BodyPace(limits);
    this.pace.wait();
    const deadline = deadlines.create(() => this.refuse(tooSlow(limits.idleTimeoutMs)));
    deadline.set(limits.idleTimeoutMs);
    const { announced } = gathering;
    // Memory is not committed before it is written to.
    const whole = announced > oneBuffer ? Buffer.allocUnsafeSlow(announced) : undefined;
    this.collecting = { ...gathering, deadline, chunks: [], whole };
    message.on('data', (chunk: Buffer) => this.add(chunk));
    message.on('end', () => this.finish());
    message.on('close', () => {
      if (this.collecting !== undefined) this.refuse(leftWhileSending());
    });
    if (!this.count(this.collecting, 0)) this.refuse(overloaded());
  }

  /** Releases the memory counted for an incomplete or refused body. */
  release(): void {
    if (this.counted > 0) this.limits.budget.give(this.counted);
    this.counted = 0;
  }

  private add(chunk: Buffer): void {
    const { collecting, limits } = this;
    // After a refusal the rest is discarded, so that the client can still read the reason.
    if (collecting === undefined) return;
    collecting.deadline.refresh();
    const tooSlowly = this.pace.received(chunk.length);
    if (tooSlowly !== undefined) return this.refuse(tooSlowly);
    const length = this.length + chunk.length;
    if (length > limits.maxBytes) return this.refuse(tooLarge(limits.maxBytes));
    if (!this.count(collecting, length)) return this.refuse(overloaded());
    const { whole, chunks } = collecting;
    if (whole === undefined) chunks.push(chunk);
    else chunk.copy(whole, this.length);
    this.length = length;
  }

  /** Counts the memory of this many bytes, and in advance some of an announced body. False when there is no room. */
  private count({ announced, isParsed }: Gathering, length: number): boolean {
    const held = (bytes: number): number => bytes + (isParsed ? parsingBytes(bytes) : 0);
    if (length > 0 && held(length) <= this.counted) return true;
    const ahead = announced > length ? Math.min(announced, Math.max(2 * length, firstStep)) : length;
    const more = held(ahead) - this.counted;
    if (!this.limits.budget.take(more, Math.max(announced, length) > oneBuffer)) return false;
    this.counted += more;
    return true;
  }

  private finish(): void {
    const { collecting } = this;
    if (collecting === undefined) return;
    this.collecting = undefined;
    const { deadline, chunks, whole, received } = collecting;
    deadline.clear();
    const body = whole?.subarray(0, this.length) ?? joinChunks(chunks);
    atTurnEnd({ run: () => received(body) });
  }

  private refuse(error: GatewayError): void {
    const { collecting } = this;
    if (collecting === undefined) return;
    this.collecting = undefined;
    collecting.deadline.clear();
    collecting.refused(error);
  }
}

/** Bounds of a slow request body. */
interface PaceLimits {
  /** Longest pause between two chunks. */
  readonly idleTimeoutMs: number;
  /** Minimum average rate once a body takes longer than `idleTimeoutMs`; 0: none. */
  readonly minBytesPerSecond: number;
  readonly totalTimeoutMs: number;
}

/**
 * Measures one body chunk by chunk. The idle timeout of the reader covers pauses; this finds a client that sends a byte
 * now and then. Only time spent waiting for the client counts.
 */
class BodyPace {
  private readonly limits: PaceLimits;
  private bytes = 0;
  private waitedMs = 0;
  private since: number | undefined;

  constructor(limits: PaceLimits) {
    this.limits = limits;
  }

  /** Starts the time of waiting for the client. */
  wait(): void {
    this.since ??= performance.now();
  }

  /** Stops it: the reader wants no more for now. */
  pause(): void {
    if (this.since === undefined) return;
    this.waitedMs += performance.now() - this.since;
    this.since = undefined;
  }

  /** A chunk has arrived. Returns the reason for refusing the body, if any. */
  received(bytes: number): GatewayError | undefined {
    const { idleTimeoutMs, minBytesPerSecond, totalTimeoutMs } = this.limits;
    this.bytes += bytes;
    this.pause();
    this.wait();
    if (this.waitedMs > totalTimeoutMs) return tookTooLong(totalTimeoutMs);
    if (this.waitedMs > idleTimeoutMs && this.bytes * 1000 < minBytesPerSecond * this.waitedMs)
      return belowMinimumRate(minBytesPerSecond, Math.round(this.waitedMs / 1000));
    return undefined;
  }
}

/** The body exceeds the limit of one request. */
function tooLarge(maxBytes: number): GatewayError {
  return new GatewayError(
    'body_too_large',
    `The request body is larger than ${maxBytes} bytes. Send less, or raise server.max_body_bytes.`,
  );
}

/** The client paused for too long; its remaining bytes must not be read as a new request. */
function tooSlow(idleTimeoutMs: number): GatewayError {
  return new GatewayError(
    'body_timeout',
    `No byte of the request body arrived for ${idleTimeoutMs} ms. Send the body without long pauses.`,
    { headers: ['connection', 'close'] },
  );
}

/** Bytes arrive so slowly that the client would hold its connection for ever. `seconds`: the time taken already. */
function belowMinimumRate(minBytesPerSecond: number, seconds: number): GatewayError {
  return new GatewayError(
    'body_timeout',
    `After ${seconds} s the request body comes at less than ${minBytesPerSecond} bytes a second on average. Send it faster, or lower server.body_min_bytes_per_second.`,
    { headers: ['connection', 'close'] },
  );
}

/** The whole body takes longer than the total timeout. */
function tookTooLong(totalTimeoutMs: number): GatewayError {
  return new GatewayError(
    'body_timeout',
    `The request body is not complete after ${totalTimeoutMs} ms. Send it faster, or raise server.body_timeout_ms.`,
    { headers: ['connection', 'close'] },
  );
}

/** The connection ended before the body did. */
function leftWhileSending(): GatewayError {
  return new GatewayError('client_closed', 'The client left while it was sending its request.');
}

/** All bodies in memory together are at their limit. */
function overloaded(): GatewayError {
  return new GatewayError(
    'overloaded',
    'The gateway holds as many request bodies as it may. Try again shortly.',
    { headers: ['retry-after', '1'] },
  );
}

/**
 * A request body streamed to the provider, with the back-pressure of both sides. Destroying it leaves the client's
 * connection open, so that an answer can still be written. Breaks with `body_timeout` when the client pauses too long
 * or sends too slowly (not when the provider does), and with `client_closed` when it leaves.
 */
class StreamedBody extends Readable {
  private readonly message: IncomingMessage;
  private readonly idleTimeoutMs: number;
  private readonly pace: BodyPace;
  private timer: NodeJS.Timeout | undefined;
  private reading = false;

  constructor(message: IncomingMessage, limits: PaceLimits) {
    super();
    this.message = message;
    this.idleTimeoutMs = limits.idleTimeoutMs;
    this.pace = new BodyPace(limits);
    // A reader receives the failure; without a reader it does not matter.
    this.on('error', () => undefined);
    message.on('close', this.onClose);
  }

  override _read(): void {
    if (!this.reading) {
      this.reading = true;
      this.message.on('data', this.onData).on('end', this.onEnd);
    }
    this.timer ??= setTimeout(() => this.destroy(tooSlow(this.idleTimeoutMs)), this.idleTimeoutMs);
    this.pace.wait();
    this.message.resume();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.stopTimer();
    this.message.off('data', this.onData).off('end', this.onEnd).off('close', this.onClose);
    callback(error);
  }

  private readonly onData = (chunk: Buffer): void => {
    const tooSlowly = this.pace.received(chunk.length);
    if (tooSlowly !== undefined) {
      this.destroy(tooSlowly);
      return;
    }
    if (this.push(chunk)) {
      this.timer?.refresh();
      return;
    }
    this.stopTimer();
    this.message.pause();
  };

  private readonly onEnd = (): void => {
    this.stopTimer();
    this.push(null);
  };

  private readonly onClose = (): void => {
    if (!this.message.readableEnded) this.destroy(leftWhileSending());
  };

  private stopTimer(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.pace.pause();
  }
}
