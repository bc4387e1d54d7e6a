import { GatewayError } from '../errors/gateway-error.ts';
import { codingOf } from '../connection/content-encoding.ts';
import type { Answer, StreamSource, StreamTarget } from '../pipeline/answer.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { Clock } from '../ports/clock.ts';
import { headerValue, type HeaderList } from '../ports/header-list.ts';
import { joinChunks } from '../base/join-chunks.ts';
import type { FailureFacts, UpstreamCall, UpstreamHandler } from '../ports/transport.ts';
import { AnswerScan } from './answer-scan.ts';
import type { TryTimers } from './attempts/try-timers.ts';
import { forwardAnswerHeaders } from './forward-headers.ts';
import { isStreamType } from './stream-type.ts';
import { strippedAnswer } from './stripped-answer.ts';

export interface UpstreamAnswerOptions {
  readonly clock: Clock;
  readonly maxAnswerBytes: number;
  /** The gateway asked for usage on the client's behalf: the extra event must not reach the client. */
  readonly stripUsage: boolean;
  /** The answer is read by a codec: nothing is scanned here, and only a stream that was asked for flows. */
  readonly translated: { readonly streams: boolean } | undefined;
}

/** An attempt that brought no answer. */
export class FailedAttempt {
  readonly error: GatewayError;
  readonly facts: FailureFacts;

  constructor(error: GatewayError, facts: FailureFacts) {
    this.error = error;
    this.facts = facts;
  }
}

/**
 * One answer of a provider: collected when it is a modelled JSON answer, else handed on as a stream while it
 * flows. The bytes stay as they are; usage is scanned beside them.
 */
export class UpstreamAnswer implements UpstreamHandler, StreamSource {
  private readonly exchange: Exchange;
  private resolve: (result: Answer | FailedAttempt) => void;
  private readonly options: UpstreamAnswerOptions;
  private call: UpstreamCall | undefined;
  private timers: TryTimers | undefined;
  private target: StreamTarget | undefined;
  private status = 0;
  private headers: HeaderList = [];
  private streaming = false;
  private bodiless = false;
  private scan: AnswerScan | undefined;
  /** Collected bytes, or what came before `pipe`. */
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

  /** `timers` are the bounds that reach across the answer's phases. */
  started(call: UpstreamCall, timers?: TryTimers): void {
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
    // It was asked for identity and compressed all the same: the event that the client did not ask for is inside.
    const compressed = strips && coding !== 'identity' && coding !== 'unknown';
    this.flow(compressed ? strippedAnswer(answer, coding, exchange.dialect) : answer);
  }

  /** Hands the answer on, and keeps nothing of its head: a stream may be open for long. */
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
    // Whoever translates the stream has seen its tokens by now.
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

  /** Events can be told apart, here or by whoever translates them. */
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
  // An answer has been handed on already.
}

/** One document. Some hosts stream under odd types, so that everything else may be a stream. */
function isWholeJson(contentType: string): boolean {
  return contentType.startsWith('application/json') || contentType.startsWith('text/html');
}
