import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Deadline, DeadlineWheel } from '../../core/base/deadline.ts';
import type { HeaderList } from '../../core/ports/header-list.ts';
import type { Log } from '../../core/ports/log.ts';
import type { UpstreamCall, UpstreamHandler, UpstreamRequest } from '../../core/ports/transport.ts';
import { atTurnEnd, type Waiting } from '../../core/base/turns.ts';
import type { Connection } from './connection.ts';
import type { OriginPool } from './origin-pool.ts';
import { type CallPhase, transportErrors } from './transport-errors.ts';

/**
 * A request body in transmission: forwards `source` with its back-pressure and never destroys it.
 *
 * undici destroys the stream that it sends when a call ends early; for the body of an incoming request that would cut
 * the client's connection before its answer is written. The owner of the source handles the unread remainder.
 */
export class RequestBody extends Readable {
  readonly #source: Readable;
  readonly #onBroken: (cause: Error | undefined) => void;
  #attached = false;
  /** A read of the source is pending. */
  waiting = false;
  /** Forwarded bytes so far. */
  passedBytes = 0;

  /** `onBroken` is called once when the source fails or closes before its end. */
  constructor(source: Readable, onBroken: (cause: Error | undefined) => void) {
    super();
    this.#source = source;
    this.#onBroken = onBroken;
  }

  override _read(): void {
    this.waiting = true;
    if (!this.#attached) this.#attach();
    this.#source.resume();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    if (this.#attached) {
      this.#detach();
      this.#source.pause();
    }
    callback(error);
  }

  #attach(): void {
    this.#attached = true;
    if (this.#source.readableEnded) {
      this.push(null);
      return;
    }
    if (this.#source.destroyed) {
      this.#onBroken(this.#source.errored ?? undefined);
      return;
    }
    this.#source
      .on('data', this.#onData)
      .on('end', this.#onEnd)
      .on('error', this.#onError)
      .on('close', this.#onClose);
  }

  #detach(): void {
    this.#source
      .off('data', this.#onData)
      .off('end', this.#onEnd)
      .off('error', this.#onError)
      .off('close', this.#onClose);
  }

  readonly #onData = (chunk: Buffer): void => {
    this.waiting = false;
    this.passedBytes += chunk.length;
    if (!this.push(chunk)) this.#source.pause();
  };

  readonly #onEnd = (): void => {
    this.waiting = false;
    this.#detach();
    this.push(null);
  };

  readonly #onError = (error: Error): void => {
    this.#detach();
    this.#onBroken(error);
  };

  readonly #onClose = (): void => {
    this.#detach();
    this.#onBroken(undefined);
  };
}

/** State that calls share. */
export interface HttpCallEnvironment {
  readonly log: Log;
  readonly deadlines: DeadlineWheel;
  countFailure(code: string): void;
}

/**
 * undici has one parser for the whole process, which must not be entered from its own callbacks, as resuming or sending
 * inside a handler would do. Above zero inside a handler.
 */
let handlerDepth = 0;

/**
 * One request and its answer. It implements undici's handler with raw headers, which avoids an object of headers per
 * answer. A paused call keeps the bytes of the read during which it paused (at most the socket's buffer, about 128
 * KiB); the rest stays in the socket.
 */
export class HttpCall implements UpstreamCall, Dispatcher.DispatchHandler, Waiting {
  /** Null after dispatch: an answer may last long, and its request is no longer needed. */
  #request: UpstreamRequest | null;
  readonly #connectTimeoutMs: number;
  readonly #headTimeoutMs: number;
  readonly #idleTimeoutMs: number;
  readonly #handler: UpstreamHandler;
  readonly #pool: OriginPool;
  readonly #environment: HttpCallEnvironment;
  #phase: CallPhase = 'connecting';
  #connection: Connection | null = null;
  #body: RequestBody | null = null;
  #passedBytes = 0;
  readonly #deadline: Deadline;
  #paused = false;
  /** The rest of the read during which the handler paused. */
  #backlog: Buffer[] = [];
  #status = 0;
  #receivedBytes = 0;

  constructor(
    request: UpstreamRequest,
    handler: UpstreamHandler,
    pool: OriginPool,
    environment: HttpCallEnvironment,
  ) {
    this.#request = request;
    this.#connectTimeoutMs = request.connectTimeoutMs;
    this.#headTimeoutMs = request.headTimeoutMs;
    this.#idleTimeoutMs = request.idleTimeoutMs;
    this.#handler = handler;
    this.#pool = pool;
    this.#environment = environment;
    this.#deadline = environment.deadlines.create(() => this.#timedOut());
    pool.pending += 1;
  }

  /** Sends the request at the end of this turn of the event loop, together with others that are ready. */
  start(): void {
    atTurnEnd(this);
  }

  resume(): void {
    if (handlerDepth > 0) {
      queueMicrotask(() => this.resume());
      return;
    }
    if (!this.#paused || this.#phase === 'done') return;
    this.#paused = false;
    if (this.#phase === 'body') this.#deadline.set(this.#idleTimeoutMs);
    this.#deliverBacklog();
    if (this.#paused || this.#over()) return;
    if (this.#phase === 'draining') this.#finish(undefined, false);
    else this.#connection?.flow();
  }

  abort(error: GatewayError): void {
    this.#finish(error, false);
  }

  /** The request is about to be written. */
  onConnect(): void {
    if (this.#phase !== 'connecting') return;
    this.#phase = 'head';
    this.#pool.pending -= 1;
    this.#pool.running += 1;
    this.#connection?.requestStarts();
    this.#deadline.set(this.#headTimeoutMs);
  }

  onHeaders(status: number, rawHeaders: Buffer[]): boolean {
    if (this.#phase !== 'head' || status < 200) return true;
    this.#phase = 'body';
    this.#status = status;
    this.#deadline.set(this.#idleTimeoutMs);
    handlerDepth += 1;
    try {
      this.#handler.head(status, toHeaderList(rawHeaders));
    } finally {
      handlerDepth -= 1;
    }
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (this.#phase !== 'body') return true;
    this.#receivedBytes += chunk.length;
    this.#deadline.refresh();
    if (this.#paused) this.#backlog.push(chunk);
    else if (!this.#deliver(chunk)) this.#connection?.hold();
    return true;
  }

  onComplete(): void {
    if (this.#paused && this.#phase === 'body') {
      this.#phase = 'draining';
      this.#release('body', true);
      return;
    }
    handlerDepth += 1;
    try {
      this.#finish(undefined, false);
    } finally {
      handlerDepth -= 1;
    }
  }

  onError(cause: unknown): void {
    if (this.#phase === 'done' || this.#phase === 'draining') return;
    // A 304 may carry the length of its omitted body; undici reports that body as missing.
    if ((this.#status === 304 || this.#status === 204) && isLengthMismatch(cause)) {
      this.#finish(undefined, false);
      return;
    }
    this.#fail(cause);
  }

  #fail(cause: unknown): void {
    const error = transportErrors.of(cause, this.#place());
    if (error.code === 'internal') {
      this.#environment.log.error('an answer could not be processed', {
        peer: this.#pool.peer,
        error: cause,
      });
    }
    this.#finish(error, error.code === 'upstream_reset' && this.#connection?.stale === true);
  }

  #deliver(chunk: Buffer): boolean {
    handlerDepth += 1;
    try {
      this.#paused = !this.#handler.data(chunk);
    } finally {
      handlerDepth -= 1;
    }
    return !this.#paused;
  }

  #deliverBacklog(): void {
    try {
      while (!this.#paused && !this.#over()) {
        const chunk = this.#backlog.shift();
        if (chunk === undefined) return;
        this.#deliver(chunk);
      }
    } catch (cause) {
      this.#fail(cause);
    }
  }

  #over(): boolean {
    return this.#phase === 'done';
  }

  /** Sends the request. */
  run(): void {
    const request = this.#request;
    this.#request = null;
    if (this.#phase === 'done' || request === null) return;
    if (this.#pool.closed) {
      this.#finish(transportErrors.closed(), false);
      return;
    }
    const { method, path, headers, body } = request;
    this.#connection = this.#pool.acquire();
    this.#connection.call = this;
    this.#deadline.set(this.#connectTimeoutMs);
    this.#connection.dispatch(
      {
        method,
        path,
        headers: wireHeaders(headers, body !== null && !(body instanceof Readable)) as string[],
        body: body instanceof Readable ? this.#stream(body) : body,
      },
      this,
    );
  }

  #stream(source: Readable): Readable {
    const body = new RequestBody(source, (cause) => this.#finish(transportErrors.bodyBroken(cause), false));
    // The server's timeout starts when it has the whole request.
    body.once('end', () => {
      if (this.#phase === 'head') this.#deadline.refresh();
    });
    body.on('error', () => undefined);
    this.#body = body;
    return body;
  }

  #timedOut(): void {
    switch (this.#phase) {
      case 'connecting':
        this.#finish(transportErrors.connectTimedOut(this.#pool.peer, this.#connectTimeoutMs), false);
        return;
      case 'head':
        if (this.#uploading()) this.#deadline.set(this.#headTimeoutMs);
        else this.#finish(transportErrors.answerTimedOut(this.#place(), this.#headTimeoutMs), false);
        return;
      case 'body':
        // While the reader is slow there is no timeout for the server; `resume` restarts it.
        if (!this.#paused)
          this.#finish(transportErrors.answerTimedOut(this.#place(), this.#idleTimeoutMs), false);
        return;
      case 'draining':
      case 'done':
    }
  }

  /** The body is still being sent, and the server does not block it. */
  #uploading(): boolean {
    const body = this.#body;
    if (body === null || body.readableEnded) return false;
    const progressed = body.waiting || body.passedBytes !== this.#passedBytes;
    this.#passedBytes = body.passedBytes;
    return progressed;
  }

  #place(): { peer: string; phase: CallPhase; receivedBytes: number } {
    return { peer: this.#pool.peer, phase: this.#phase, receivedBytes: this.#receivedBytes };
  }

  #finish(error: GatewayError | undefined, stale: boolean): void {
    const phase = this.#phase;
    if (phase === 'done') return;
    // First, because releasing the connection makes undici report its end.
    this.#phase = 'done';
    if (phase !== 'draining') this.#release(phase, error === undefined);
    this.#backlog = [];
    if (error !== undefined) this.#environment.countFailure(error.code);
    this.#report(error, stale);
  }

  /** Releases everything that the call holds at the end of `phase`. */
  #release(phase: CallPhase, answered: boolean): void {
    if (phase === 'connecting') this.#pool.pending -= 1;
    else this.#pool.running -= 1;
    this.#deadline.clear();
    this.#body?.destroy();
    this.#releaseConnection(answered);
  }

  #releaseConnection(answered: boolean): void {
    const connection = this.#connection;
    if (connection === null) {
      this.#pool.settle();
    } else if (answered) {
      connection.answerEnds();
    } else {
      connection.call = null;
      connection.destroy();
    }
  }

  #report(error: GatewayError | undefined, stale: boolean): void {
    try {
      if (error === undefined) this.#handler.end();
      else this.#handler.fail(error, { stale });
    } catch (cause) {
      this.#environment.log.error('the receiver of an answer failed', {
        peer: this.#pool.peer,
        error: cause,
      });
    }
  }
}

/** Raw header bytes of undici as a flat list. */
export function toHeaderList(rawHeaders: readonly Buffer[]): HeaderList {
  const list = new Array<string>(rawHeaders.length);
  for (let i = 0; i < rawHeaders.length; i += 1) list[i] = (rawHeaders[i] as Buffer).toString('latin1');
  return list;
}

function isLengthMismatch(cause: unknown): boolean {
  return cause instanceof Error && 'code' in cause && cause.code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH';
}

/**
 * The headers without those of one connection or of the framing, which the transport writes itself: `connection`,
 * `keep-alive`, `upgrade`, `transfer-encoding`, `expect`, and `content-length` when the body is bytes. Returns the same
 * list when there is nothing to remove.
 */
export function wireHeaders(headers: HeaderList, bodyIsBytes: boolean): HeaderList {
  for (let i = 0; i < headers.length; i += 2) {
    if (isOwned(headers[i] as string, bodyIsBytes)) return withoutOwnedHeaders(headers, i, bodyIsBytes);
  }
  return headers;
}

function withoutOwnedHeaders(headers: HeaderList, first: number, bodyIsBytes: boolean): HeaderList {
  const kept = headers.slice(0, first);
  for (let i = first + 2; i < headers.length; i += 2) {
    const name = headers[i] as string;
    if (!isOwned(name, bodyIsBytes)) kept.push(name, headers[i + 1] as string);
  }
  return kept;
}

function isOwned(name: string, bodyIsBytes: boolean): boolean {
  // By length first: nearly every header is distinguished without lower-casing it.
  switch (name.length) {
    case 6:
      return name.toLowerCase() === 'expect';
    case 7:
      return name.toLowerCase() === 'upgrade';
    case 10: {
      const lower = name.toLowerCase();
      return lower === 'connection' || lower === 'keep-alive';
    }
    case 14:
      return bodyIsBytes && name.toLowerCase() === 'content-length';
    case 17:
      return name.toLowerCase() === 'transfer-encoding';
    default:
      return false;
  }
}
