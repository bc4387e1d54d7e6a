import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type {
  Transport,
  UpgradeAnswer,
  UpgradeCall,
  UpstreamCall,
  UpstreamHandler,
  UpstreamRequest,
} from '../../core/ports/transport.ts';
import { FileStore, JobStore, type NewId } from './stores.ts';
import { type Conversation, MockService, type ServedAnswer } from './service.ts';
import { Readable } from 'node:stream';
import type { ReceivedBody, Faults } from './request.ts';
import { headerValue } from '../../core/ports/header-list.ts';
import { acceptOf, MockSocket } from './web-socket.ts';
import { brotliCompressSync, constants, createBrotliCompress, createGzip, gzipSync } from 'node:zlib';
import type { MockAnswer, PlainAnswer, StreamAnswer } from './answer.ts';
import { createHash, randomInt } from 'node:crypto';

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

/** Creates identifiers from `random` (numbers from 0 to below 1); without it from the system's random source. */
function idsFrom(random: (() => number) | undefined): NewId {
  const pick = random === undefined ? randomInt : (below: number) => Math.floor(random() * below);
  return (prefix) => {
    let id = prefix;
    for (let i = 0; i < 24; i++) id += alphabet.charAt(pick(alphabet.length));
    return id;
  };
}

/** Upper bound of stored bytes of a request body; a longer one is counted and hashed, but not stored. */
const maxHeldBytes = 32 * 1024 * 1024;

/** Reads a stream to its end. Rejects when the stream fails or is destroyed before its end. */
async function bodyFromStream(stream: Readable): Promise<ReceivedBody> {
  const hash = createHash('sha256');
  let chunks: Buffer[] = [];
  let size = 0;
  for await (const piece of stream as AsyncIterable<Uint8Array | string>) {
    const chunk = typeof piece === 'string' ? Buffer.from(piece) : Buffer.from(piece);
    size += chunk.length;
    hash.update(chunk);
    if (size <= maxHeldBytes) chunks.push(chunk);
    else chunks = [];
  }
  const digest = hash.digest('hex');
  return {
    held: size <= maxHeldBytes ? Buffer.concat(chunks) : undefined,
    size,
    digest: () => digest,
  };
}

/** Dependencies of a mock provider. */
interface MockTransportOptions {
  readonly clock: Clock;
  /** Numbers from 0 to below 1, for identifiers. Default: the system's random source. */
  readonly random?: () => number;
}

/**
 * The built-in `mock` provider: a transport that answers in this process. Serves requests with origin `mock:` or
 * `mock:?latency_ms=200&…`. Uploaded files and created jobs exist as long as the transport.
 */
export function createMockTransport(options: MockTransportOptions): Transport {
  const { clock } = options;
  const service = new MockService({
    newId: idsFrom(options.random),
    nowSeconds: () => Math.floor(clock.now() / 1000),
    files: new FileStore(),
    jobs: new JobStore(),
  });
  const open = new Set<MockCall | MockUpgrade>();
  let closed = false;
  const goingAway = () => new GatewayError('shutting_down', 'The mock provider has been closed.');
  return {
    send(request, handler) {
      const call: MockCall = new MockCall(request, handler, clock, () => open.delete(call));
      open.add(call);
      if (closed) queueMicrotask(() => call.abort(goingAway()));
      else void call.run(service);
      return call;
    },
    upgrade(request) {
      const call: MockUpgrade = new MockUpgrade(request, clock, () => open.delete(call));
      open.add(call);
      if (closed) queueMicrotask(() => call.abort(goingAway()));
      else call.run(service);
      return call;
    },
    close() {
      closed = true;
      for (const call of open) call.abort(goingAway());
      return Promise.resolve();
    },
  };
}

const brotliOptions = { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } };

/** An answer in wire form. */
interface WireAnswer {
  readonly status: number;
  /** Flat, including the `content-length` of a whole answer. */
  readonly headers: readonly string[];
  readonly pieces: Iterable<Buffer> | AsyncIterable<Buffer>;
}

/** Renders an answer with the faults that change its bytes: compression, broken frames, a wrong length. */
function wireAnswer(answer: MockAnswer, faults: Faults): WireAnswer {
  return answer.kind === 'plain' ? plainWire(answer, faults) : streamWire(answer, faults);
}

function plainWire(answer: PlainAnswer, faults: Faults): WireAnswer {
  const headers = [...answer.headers];
  let body = answer.body;
  if (faults.malformed_after_chunks !== undefined) body = body.subarray(0, Math.floor(body.length / 2));
  if (faults.encoding !== undefined) {
    body = faults.encoding === 'gzip' ? gzipSync(body) : brotliCompressSync(body, brotliOptions);
    headers.push('content-encoding', faults.encoding);
  }
  const promised = faults.content_length_mismatch === true ? body.length + 64 : body.length;
  headers.push('content-length', String(promised));
  const cut = Math.max(faults.reset_after_chunks ?? 0, faults.stall_after_chunks ?? 0);
  return { status: answer.status, headers, pieces: cutEvenly(body, cut + 1) };
}

function streamWire(answer: StreamAnswer, faults: Faults): WireAnswer {
  const pieces = streamBytes(answer, faults);
  if (faults.encoding === undefined) return { status: answer.status, headers: answer.headers, pieces };
  return {
    status: answer.status,
    headers: [...answer.headers, 'content-encoding', faults.encoding],
    pieces: compressed(pieces, faults.encoding),
  };
}

function* streamBytes(answer: StreamAnswer, faults: Faults): Generator<Buffer> {
  let index = 0;
  for (const frame of answer.frames) {
    if (index === faults.error_after_chunks) {
      yield Buffer.from(answer.errorFrame);
      return;
    }
    yield Buffer.from(index === faults.malformed_after_chunks ? cutFrame(frame) : frame);
    index += 1;
  }
  if (faults.no_done !== true && answer.closing !== '') yield Buffer.from(answer.closing);
}

/** A frame whose JSON stops halfway: still a frame, no longer JSON. */
function cutFrame(frame: string): string {
  return `${frame.slice(0, Math.floor(frame.length / 2))}\n\n`;
}

function* cutEvenly(body: Buffer, parts: number): Generator<Buffer> {
  const size = Math.max(1, Math.ceil(body.length / parts));
  for (let start = 0; start < body.length; start += size) yield body.subarray(start, start + size);
}

/** Compresses piece by piece and flushes after each, so that every piece can be decoded on arrival. */
async function* compressed(pieces: Iterable<Buffer>, encoding: 'gzip' | 'br'): AsyncGenerator<Buffer> {
  const encoder = encoding === 'gzip' ? createGzip() : createBrotliCompress(brotliOptions);
  let ready: Buffer[] = [];
  const take = (): Buffer => {
    const taken = Buffer.concat(ready);
    ready = [];
    return taken;
  };
  encoder.on('data', (chunk: Buffer) => ready.push(chunk));
  try {
    for (const piece of pieces) {
      encoder.write(piece);
      await new Promise<void>((resolve) => {
        encoder.flush(resolve);
      });
      yield take();
    }
    await new Promise<void>((resolve, reject) => {
      encoder.once('end', resolve).once('error', reject);
      encoder.end();
    });
    yield take();
  } finally {
    encoder.destroy();
  }
}

/** One WebSocket upgrade request: the Realtime API switches protocols, every other path answers in HTTP. */
class MockUpgrade implements UpgradeCall {
  readonly answer: Promise<UpgradeAnswer>;
  readonly #request: UpstreamRequest;
  readonly #clock: Clock;
  readonly #onOver: () => void;
  #settle: { resolve(answer: UpgradeAnswer): void; reject(error: GatewayError): void } | undefined;
  #connection: MockSocket | undefined;
  #stopWaiting: (() => void) | undefined;

  /** `onOver` runs when the call has failed, was declined, or its connection has closed. */
  constructor(request: UpstreamRequest, clock: Clock, onOver: () => void) {
    this.#request = request;
    this.#clock = clock;
    this.#onOver = onOver;
    this.answer = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
  }

  run(service: MockService): void {
    const { origin, method, path: target, headers, headTimeoutMs: bound } = this.#request;
    const received = { origin, method, target, headers, body: bodyFromBytes(new Uint8Array()) };
    const found = service.converse(received);
    const { faults } = found;
    const wait = faults.stall_before_head === true ? Infinity : (faults.latency_ms ?? 0);
    if (bound > 0 && bound < wait) this.#after(bound, () => this.#fail(headTimedOut(bound)));
    else if (wait !== Infinity) this.#after(wait, () => this.#head(found));
  }

  abort(error: GatewayError): void {
    if (this.#connection === undefined) this.#fail(error);
    else this.#connection.destroy();
  }

  #after(ms: number, run: () => void): void {
    if (ms > 0) this.#stopWaiting = this.#clock.after(ms, run);
    else queueMicrotask(run);
  }

  #head(found: Conversation | ServedAnswer): void {
    if (this.#settle === undefined) return;
    if (found.faults.reset_before_head === true) {
      this.#fail(reset('before its head', 'reset_before_head'));
    } else if ('session' in found) {
      this.#switch(found);
    } else {
      const { answer } = found;
      const body = answer.kind === 'plain' ? answer.body : Buffer.alloc(0);
      this.#resolve({ kind: 'declined', status: answer.status, headers: answer.headers, body });
      this.#onOver();
    }
  }

  #switch({ session, faults }: Conversation): void {
    const { headers } = this.#request;
    const connection = new MockSocket({
      session,
      clock: this.#clock,
      pauseMs: faults.chunk_latency_ms,
      resetAfter: faults.reset_after_chunks,
    });
    this.#connection = connection;
    connection.once('close', this.#onOver);
    const offered =
      headerValue(headers, 'sec-websocket-protocol')
        ?.split(',')
        .map((one) => one.trim()) ?? [];
    const protocol = offered.includes('realtime') ? 'realtime' : offered[0];
    this.#resolve({
      kind: 'switched',
      connection,
      headers: [
        ...['upgrade', 'websocket', 'connection', 'Upgrade'],
        ...['sec-websocket-accept', acceptOf(headerValue(headers, 'sec-websocket-key') ?? '')],
        ...(protocol === undefined ? [] : ['sec-websocket-protocol', protocol]),
      ],
    });
  }

  #resolve(answer: UpgradeAnswer): void {
    this.#settle?.resolve(answer);
    this.#settle = undefined;
  }

  #fail(error: GatewayError): void {
    this.#stopWaiting?.();
    if (this.#settle === undefined) return;
    this.#settle.reject(error);
    this.#settle = undefined;
    this.#onOver();
  }
}

const notStale = { stale: false };

/** One request to the mock provider: reads the body, sends the answer with its delays, ends exactly once. */
class MockCall implements UpstreamCall {
  readonly #request: UpstreamRequest;
  readonly #handler: UpstreamHandler;
  readonly #clock: Clock;
  #over = false;
  #resumed = false;
  #wake: (() => void) | undefined;
  #cancelTimer: (() => void) | undefined;
  readonly #onOver: () => void;

  /** `onOver` runs at every end of the call. */
  constructor(request: UpstreamRequest, handler: UpstreamHandler, clock: Clock, onOver: () => void) {
    this.#request = request;
    this.#handler = handler;
    this.#clock = clock;
    this.#onOver = onOver;
  }

  /** Serves the request; the handler is not called before the current turn has ended. */
  async run(service: MockService): Promise<void> {
    await Promise.resolve();
    try {
      await this.#play(service);
    } catch (cause) {
      this.abort(
        GatewayError.is(cause)
          ? cause
          : new GatewayError('internal', 'The mock provider failed while it answered.', { cause }),
      );
    }
  }

  resume(): void {
    this.#resumed = true;
    this.#wake?.();
  }

  abort(error: GatewayError): void {
    if (this.#over) return;
    this.#finish();
    this.#handler.fail(error, notStale);
  }

  async #play(service: MockService): Promise<void> {
    const { origin, method, path: target, headers } = this.#request;
    const body = await this.#body();
    if (this.#over) return;
    const { answer, faults } = service.serve({ origin, method, target, headers, body });
    await this.#beforeHead(faults);
    if (this.#over) return;
    const wire = wireAnswer(answer, faults);
    this.#handler.head(wire.status, wire.headers);
    if (method !== 'HEAD') await this.#bodyOf(wire.pieces, faults);
    if (this.#over) return;
    if (faults.content_length_mismatch === true && answer.kind === 'plain' && method !== 'HEAD') {
      await this.#turn();
      throw reset('before the promised length', 'content_length_mismatch');
    }
    this.#finish();
    this.#handler.end();
  }

  async #body(): Promise<ReceivedBody> {
    const { body } = this.#request;
    if (!(body instanceof Readable)) return bodyFromBytes(body ?? new Uint8Array());
    try {
      return await bodyFromStream(body);
    } catch (cause) {
      throw new GatewayError('client_closed', 'The request body ended before it was complete.', { cause });
    }
  }

  async #beforeHead(faults: Faults): Promise<void> {
    const bound = this.#request.headTimeoutMs;
    if (faults.latency_ms !== undefined) await this.#pass(faults.latency_ms, bound, 'head');
    if (this.#over) return;
    if (faults.stall_before_head === true) await this.#pass(Infinity, bound, 'head');
    if (faults.reset_before_head === true && !this.#over) {
      await this.#turn();
      throw reset('before its head', 'reset_before_head');
    }
  }

  async #bodyOf(pieces: Iterable<Buffer> | AsyncIterable<Buffer>, faults: Faults): Promise<void> {
    const bound = this.#request.idleTimeoutMs;
    let index = 0;
    for await (const piece of pieces) {
      if (this.#over) return;
      if (index > 0 || faults.reset_after_chunks === 0) await this.#turn();
      if (index === faults.reset_after_chunks) throw reset('in mid-answer', 'reset_after_chunks');
      if (index === faults.stall_after_chunks) await this.#pass(Infinity, bound, 'idle');
      if (index > 0 && faults.chunk_latency_ms !== undefined && !this.#over) {
        await this.#pass(faults.chunk_latency_ms, bound, 'idle');
      }
      if (this.#over) return;
      await this.#give(piece);
      index += 1;
    }
  }

  /** Delivers a piece and, under back-pressure, waits for `resume`. */
  async #give(piece: Buffer): Promise<void> {
    this.#resumed = false;
    if (this.#handler.data(piece) || this.#over) return;
    while (!this.#resumed && !this.#over) await this.#sleep();
  }

  /** Waits. When the caller's timeout is shorter, waits for that and fails the call. */
  async #pass(ms: number, boundMs: number, phase: 'head' | 'idle'): Promise<void> {
    const bounded = boundMs > 0 && boundMs < ms;
    const wait = bounded ? boundMs : ms;
    let elapsed = false;
    if (wait !== Infinity) {
      this.#cancelTimer = this.#clock.after(wait, () => {
        elapsed = true;
        this.#wake?.();
      });
    }
    while (!elapsed && !this.#over) await this.#sleep();
    this.#cancelTimer = undefined;
    if (!bounded || this.#over) return;
    throw timedOut(phase, boundMs);
  }

  #sleep(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  /** A turn of the event loop: chunks arrive separately, and written data leave before a reset. */
  #turn(): Promise<void> {
    return new Promise((resolve) => {
      setImmediate(resolve);
    });
  }

  #finish(): void {
    this.#over = true;
    this.#cancelTimer?.();
    this.#wake?.();
    const { body } = this.#request;
    if (body instanceof Readable && !body.destroyed) body.destroy();
    this.#onOver();
  }
}

/** Error for a caller's timeout before the head. */
function headTimedOut(boundMs: number): GatewayError {
  return timedOut('head', boundMs);
}

function timedOut(phase: 'head' | 'idle', boundMs: number): GatewayError {
  const what = phase === 'head' ? 'sent no head' : 'sent nothing';
  return new GatewayError(
    'upstream_timeout',
    `The mock provider ${what} for ${boundMs} ms; ask it for less delay or raise the ${phase} timeout.`,
  );
}

/** A connection that the mock provider cuts because of a fault. */
function reset(when: string, word: string): GatewayError {
  return new GatewayError(
    'upstream_reset',
    `The mock provider cut the connection ${when}, as \`${word}\` asks.`,
  );
}

/** Wraps a body that is already in memory. */
function bodyFromBytes(bytes: Uint8Array): ReceivedBody {
  const held = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return { held, size: held.length, digest: () => createHash('sha256').update(held).digest('hex') };
}
