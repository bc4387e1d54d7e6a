import { GatewayError } from '../errors/gateway-error.ts';
import { createDecoder, decodeWhole, type Coding, codingOf } from '../connection/content-encoding.ts';
import {
  type Answer,
  clientLeft,
  decodedSource,
  type StreamSource,
  type StreamTarget,
} from '../pipeline/answer.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { Clock } from '../ports/clock.ts';
import { type HeaderList, headerValue, withoutHeader } from '../ports/header-list.ts';
import { joinChunks } from '../base/bytes.ts';
import type {
  FailureFacts,
  Transport,
  UpstreamCall,
  UpstreamHandler,
  UpstreamRequest,
} from '../ports/transport.ts';
import { AttemptTimers } from './attempts/attempt-times.ts';
import { forwardAnswerHeaders } from './forward-headers.ts';
import { learnFacts } from './collected-answer.ts';
import type { AnswerFacts, Dialect, StreamScanner, UsageStripper } from '../dialects/dialect.ts';
import type { Transform } from 'node:stream';
import type { AttemptOptions } from '../pipeline/router.ts';

/** Upper bound of the copy of an answer for the scan; a longer answer is not scanned. */
const maxScanBytes = 1024 * 1024;
/** Upper bound of a stream's compressed bytes that wait for decoding for the scan. */
const maxBacklogBytes = 4 * 1024 * 1024;
/** Upper bound of a decompressed copy. */
const maxDecodedBytes = 16 * 1024 * 1024;

/**
 * Reads usage, model and finish reason from an answer while it flows to the client. Outgoing bytes stay unchanged, except
 * that the usage event that the gateway itself requested is removed.
 */
export class AnswerScan {
  private readonly exchange: Exchange;
  private readonly coding: Coding | 'identity' | 'unknown';
  private readonly scanner: StreamScanner | undefined;
  private readonly decoder: Transform | undefined;
  private readonly stripper: UsageStripper | undefined;
  private readonly keepsCopy: boolean;
  private copy: Buffer[] = [];
  private copied = 0;
  private decodedToken = false;

  constructor(
    exchange: Exchange,
    contentType: string,
    coding: Coding | 'identity' | 'unknown',
    stripUsage: boolean,
  ) {
    this.exchange = exchange;
    this.coding = coding;
    const { dialect, endpoint } = exchange;
    const eventStream = isStreamType(exchange, contentType);
    this.keepsCopy = !eventStream && contentType.includes('json') && coding !== 'unknown';
    if (!eventStream || coding === 'unknown') return;
    this.scanner = dialect.streamScanner(endpoint.id);
    if (coding === 'identity') this.stripper = stripUsage ? dialect.usageStripper?.() : undefined;
    else this.decoder = this.decodeCopy(createDecoder(coding), this.scanner);
  }

  /** Whether outgoing bytes must pass through `strip`. */
  get strips(): boolean {
    return this.stripper !== undefined;
  }

  /** Whether `push` detects tokens. */
  get tellsTokens(): boolean {
    return this.scanner !== undefined;
  }

  /** Returns true once a token has been seen. */
  push(chunk: Buffer): boolean {
    if (this.decoder) {
      // A copy far behind its original would fill the memory: give up, and usage stays unknown.
      if (this.decoder.writableLength > maxBacklogBytes) this.decoder.destroy();
      else this.decoder.write(chunk);
      return this.decodedToken;
    }
    if (this.scanner) return this.scanner.scan(chunk);
    if (this.keepsCopy && this.copied <= maxScanBytes) {
      this.copied += chunk.length;
      this.copy.push(chunk);
    }
    return false;
  }

  strip(chunk: Buffer): Buffer | undefined {
    return this.stripper?.push(chunk);
  }

  stripRest(): Buffer | undefined {
    return this.stripper?.finish();
  }

  /** Scans a collected answer. Returns its facts; undefined when it has to be decoded first. */
  pushWhole(body: Buffer): AnswerFacts | undefined {
    if (this.coding === 'identity') {
      const { exchange } = this;
      const found = exchange.dialect.scanAnswer(exchange.endpoint.id, body);
      // Large embeddings are scanned around their vectors, not parsed; for other endpoints usage proves a complete parse.
      exchange.answerIsJson = found.usage !== undefined && exchange.endpoint.id !== 'embeddings';
      learnFacts(this.exchange, found);
      return found;
    }
    if (this.coding !== 'unknown') this.learnLater(body, this.coding);
    return undefined;
  }

  /** Call it at the end of the stream, complete or not. */
  finish(): void {
    if (this.decoder) this.decoder.end();
    else if (this.scanner) learnFacts(this.exchange, this.scanner.facts);
    else if (this.copied > 0 && this.copied <= maxScanBytes) this.pushWhole(Buffer.concat(this.copy));
    this.copy = [];
  }

  private decodeCopy(decoder: Transform, scanner: StreamScanner): Transform {
    decoder.on('data', (chunk: Buffer) => {
      if (scanner.scan(chunk)) this.decodedToken = true;
    });
    // The answer has been forwarded unchanged; a copy that cannot be decoded only leaves its facts unknown.
    this.exchange.pendingFacts = new Promise((resolve) => {
      const done = (): void => {
        learnFacts(this.exchange, scanner.facts);
        resolve();
      };
      decoder.once('end', done).once('error', done).once('close', done);
    });
    return decoder;
  }

  private learnLater(body: Buffer, coding: Coding): void {
    const { dialect, endpoint } = this.exchange;
    this.exchange.pendingFacts = decodeWhole(body, coding, maxDecodedBytes).then(
      (decoded) => learnFacts(this.exchange, dialect.scanAnswer(endpoint.id, decoded)),
      () => undefined,
    );
  }
}

interface UpstreamAnswerOptions {
  readonly clock: Clock;
  readonly maxAnswerBytes: number;
  /** The gateway requested usage on the client's behalf: the extra event must not reach the client. */
  readonly stripUsage: boolean;
  /** A codec reads the answer: no scan here, and only a requested stream flows. */
  readonly translated: { readonly streams: boolean } | undefined;
}

/** An attempt without an answer. */
class FailedAttempt {
  readonly error: GatewayError;
  readonly facts: FailureFacts;

  constructor(error: GatewayError, facts: FailureFacts) {
    this.error = error;
    this.facts = facts;
  }
}

/**
 * One answer of a provider: collected when it is a modelled JSON answer, else handed on as a stream while it flows. The
 * bytes stay unchanged; usage is scanned beside them.
 */
class UpstreamAnswer implements UpstreamHandler, StreamSource {
  private readonly exchange: Exchange;
  private resolve: (result: Answer | FailedAttempt) => void;
  private readonly options: UpstreamAnswerOptions;
  private call: UpstreamCall | undefined;
  private timers: AttemptTimers | undefined;
  private target: StreamTarget | undefined;
  private status = 0;
  private headers: HeaderList = [];
  private streaming = false;
  private bodiless = false;
  private scan: AnswerScan | undefined;
  /** Collected bytes, or those that arrived before `pipe`. */
  private chunks: Buffer[] = [];
  private size = 0;
  private over: 'no' | 'ended' | GatewayError = 'no';

  constructor(
    exchange: Exchange,
    resolve: (result: Answer | FailedAttempt) => void,
    options: UpstreamAnswerOptions,
  ) {
    this.exchange = exchange;
    this.resolve = resolve;
    this.options = options;
  }

  /** `timers` are the timeouts that span the answer's phases. */
  started(call: UpstreamCall, timers?: AttemptTimers): void {
    this.call = call;
    this.timers = timers;
    // The answer may have failed before.
    if (this.over !== 'no') timers?.over();
  }

  head(status: number, headers: HeaderList): void {
    const { exchange } = this;
    this.status = status;
    this.headers = headers;
    const contentType = (headerValue(headers, 'content-type') ?? '').toLowerCase();
    const isStream = isStreamType(exchange, contentType);
    const eventStream = isStream && (status === 200 || contentType.startsWith('text/event-stream'));
    const coding = codingOf(headerValue(headers, 'content-encoding'));
    const { translated } = this.options;
    if (translated !== undefined) {
      this.streaming = translated.streams && status === 200 && !isWholeJson(contentType);
      if (!this.streaming) return;
      this.flow({ status, headers: forwardAnswerHeaders(headers, false, exchange.knownNames), body: this });
      return;
    }
    const bodiless = exchange.method === 'HEAD' || status === 204 || status === 304;
    this.bodiless = bodiless;
    const strips = this.options.stripUsage && eventStream && status === 200;
    this.scan = bodiless ? undefined : new AnswerScan(exchange, contentType, coding, strips);
    this.streaming = !bodiless && (eventStream || !exchange.endpoint.modelled);
    if (!this.streaming) return;
    const answer: Answer & { body: StreamSource } = {
      status,
      headers: forwardAnswerHeaders(headers, !strips, exchange.knownNames),
      body: this,
      source: 'provider',
      ...(eventStream ? { dialect: exchange.endpoint.dialect } : {}),
    };
    // The provider compressed despite `identity`: the usage event that the client did not request is inside.
    const compressed = strips && coding !== 'identity' && coding !== 'unknown';
    this.flow(compressed ? strippedAnswer(answer, coding, exchange.dialect) : answer);
  }

  /** Hands the answer on and releases its head, because a stream may be open for long. */
  private flow(answer: Answer): void {
    const { resolve } = this;
    this.resolve = ignore;
    this.headers = noHeaders;
    resolve(answer);
  }

  data(chunk: Buffer): boolean {
    const { facts } = this.exchange;
    if (facts.firstByteAt === 0) facts.firstByteAt = this.options.clock.monotonic();
    if (this.over !== 'no') return false;
    if (!this.streaming) return this.collect(chunk);
    const first = this.scan?.push(chunk) ?? false;
    if (first && facts.firstTokenAt === 0) facts.firstTokenAt = this.options.clock.monotonic();
    const room = this.pass(chunk);
    // The stream's translation has detected its tokens by now.
    if (this.timers !== undefined && (facts.firstTokenAt !== 0 || !this.tellsTokens))
      this.timers.firstToken();
    return room;
  }

  end(): void {
    if (this.over !== 'no') return;
    this.finish('ended');
    if (this.streaming) {
      const rest = this.scan?.strips ? this.scan.stripRest() : undefined;
      if (rest !== undefined) this.chunks.push(rest);
      this.scan?.finish();
      if (this.target) this.flushEnd(this.target);
      return;
    }
    const body = joinChunks(this.chunks);
    this.chunks = [];
    const headers = forwardAnswerHeaders(this.headers, this.bodiless, this.exchange.knownNames);
    const { status } = this;
    if (this.bodiless) return this.resolve({ status, headers, body: null, source: 'provider' });
    const facts = this.scan?.pushWhole(body);
    this.resolve(
      facts === undefined
        ? { status, headers, body, source: 'provider' }
        : { status, headers, body, source: 'provider', facts },
    );
  }

  fail(error: GatewayError, facts: FailureFacts): void {
    if (this.over !== 'no') return;
    this.finish(error);
    if (!this.streaming) {
      this.resolve(new FailedAttempt(error, facts));
      return;
    }
    this.scan?.finish();
    this.target?.fail(error);
  }

  pipe(target: StreamTarget): void {
    this.target = target;
    const { chunks } = this;
    this.chunks = [];
    let room = true;
    for (const chunk of chunks) room = target.data(chunk);
    if (this.over === 'ended') target.end();
    else if (this.over !== 'no') target.fail(this.over);
    else if (room) this.call?.resume();
  }

  resume(): void {
    if (this.over === 'no') this.call?.resume();
  }

  cancel(error: GatewayError): void {
    if (this.over !== 'no') return;
    this.finish(error);
    this.scan?.finish();
    this.call?.abort(error);
  }

  private pass(chunk: Buffer): boolean {
    const bytes = this.scan?.strips ? this.scan.strip(chunk) : chunk;
    if (bytes === undefined) return true;
    if (this.target) return this.target.data(bytes);
    this.chunks.push(bytes);
    return false;
  }

  /** Whether tokens are detected, here or by the translation. */
  private get tellsTokens(): boolean {
    return this.options.translated !== undefined || this.scan?.tellsTokens === true;
  }

  private finish(how: 'ended' | GatewayError): void {
    this.over = how;
    this.exchange.facts.upstreamEndedAt = this.options.clock.monotonic();
    this.timers?.over();
  }

  private flushEnd(target: StreamTarget): void {
    for (const chunk of this.chunks) target.data(chunk);
    this.chunks = [];
    target.end();
  }

  private collect(chunk: Buffer): boolean {
    this.timers?.firstToken();
    this.size += chunk.length;
    if (this.size > this.options.maxAnswerBytes) {
      const error = new GatewayError(
        'upstream_too_large',
        `The provider's answer is larger than ${this.options.maxAnswerBytes} bytes (max_answer_bytes of the provider plugin).`,
        { source: 'provider' },
      );
      this.finish(error);
      this.call?.abort(error);
      this.resolve(new FailedAttempt(error, { stale: false }));
      return false;
    }
    this.chunks.push(chunk);
    return true;
  }
}

const noHeaders: HeaderList = Object.freeze([]);

function ignore(): void {
  // The answer has already been handed on.
}

/** Whether the type means one document. Some hosts stream under unusual types, so any other type may be a stream. */
function isWholeJson(contentType: string): boolean {
  return contentType.startsWith('application/json') || contentType.startsWith('text/html');
}

/** A compressed stream, decoded and without the usage event that the gateway requested on the client's behalf. */
function strippedAnswer(
  answer: Answer & { readonly body: StreamSource },
  coding: Coding,
  dialect: Dialect,
): Answer {
  const stripper = dialect.usageStripper?.();
  if (stripper === undefined) return answer;
  const source = decodedSource(answer.body, coding);
  const body: StreamSource = {
    pipe(target: StreamTarget) {
      const pass = (bytes: Buffer | undefined): boolean => bytes === undefined || target.data(bytes);
      source.pipe({
        data: (chunk) => pass(stripper.push(chunk)),
        end() {
          pass(stripper.finish());
          target.end();
        },
        fail: (error, told) => target.fail(error, told),
      });
    },
    resume: () => source.resume(),
    cancel: (error) => source.cancel(error),
  };
  return { ...answer, headers: withoutHeader(answer.headers, 'content-encoding'), body };
}

/** One request to a provider. */
export interface Sending {
  readonly exchange: Exchange;
  readonly options: AttemptOptions;
  readonly transport: Transport;
  readonly clock: Clock;
  readonly request: UpstreamRequest;
  /** Remove the usage event that the gateway requested. */
  readonly stripUsage: boolean;
  /** Set when a codec reads the answer. */
  readonly translated: { readonly streams: boolean } | undefined;
}

/**
 * Sends the request, once more on a fresh connection when a pooled one is stale. Rejects with the failure.
 */
export function sendRequest(sending: Sending): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { exchange } = sending;
    begin(sending, (result) => {
      if (!(result instanceof FailedAttempt)) return resolve(result);
      // The provider had closed the pooled connection: not a failure of the provider, and no byte was served.
      if (!result.facts.stale || !isResendable(sending) || exchange.aborted) return reject(result.error);
      exchange.facts.resent = true;
      // Do not send within the callback of the failed connection.
      queueMicrotask(() =>
        begin(sending, (again) => {
          if (again instanceof FailedAttempt) reject(again.error);
          else resolve(again);
        }),
      );
    });
  });
}

function begin(sending: Sending, resolve: (result: Answer | FailedAttempt) => void): void {
  const { exchange, options, clock, stripUsage, translated } = sending;
  const { maxAnswerBytes } = options;
  const answer = new UpstreamAnswer(exchange, resolve, { clock, maxAnswerBytes, stripUsage, translated });
  const call = sending.transport.send(sending.request, answer);
  answer.started(call, timersOf(options, clock, call));
  exchange.onAbort(abortOf(exchange, call));
}

// Functions outside of the class, so that closures that live as long as a stream capture only what they need.

function timersOf(options: AttemptOptions, clock: Clock, call: UpstreamCall): AttemptTimers | undefined {
  if (options.requestTimeoutMs === 0 && options.firstTokenTimeoutMs === 0) return undefined;
  return new AttemptTimers(options, clock, (error) => call.abort(error));
}

function abortOf(exchange: Exchange, call: UpstreamCall): () => void {
  return () => call.abort(exchange.failure ?? clientLeft());
}

function isResendable({ request: { body } }: Sending): boolean {
  return body === null || body instanceof Uint8Array;
}

/** Whether this content type is a stream of the client's dialect: events, or the framing that its request asks for. */
function isStreamType({ dialect, facts, query }: Exchange, contentType: string): boolean {
  if (contentType.startsWith('text/event-stream')) return true;
  const framings = facts.stream ? dialect.frames?.framings : undefined;
  return framings !== undefined && contentType.startsWith(framings.contentTypeFor(query));
}
