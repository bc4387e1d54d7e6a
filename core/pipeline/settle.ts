import { countedUsage, learnsFrom, unfinishedUsage } from './estimated-usage.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Price, Prices } from '../ports/prices.ts';
import { atTurnEnd, isPromise } from '../base/turns.ts';
import { callHook, type HookRuntime, type HookTimes } from './call-hook.ts';
import type { MaybePromise, Outcome } from './context.ts';
import type { Exchange } from './exchange.ts';
import { rpcError } from '../errors/rpc-error.ts';
import type { Answer } from './answer.ts';
import { bearerChallenge, rpcRequestId } from './keys.ts';
import { type HeaderList, withoutHeader } from '../ports/header-list.ts';
import { decodeWhole, type codingOf } from '../connection/content-encoding.ts';

/** Dependencies of the pipeline for running and settling requests; one object per generation. */
export interface EngineRuntime extends HookRuntime {
  readonly prices: Prices;
  /** Called once per request after its plugins have settled: metrics. */
  onSettled(exchange: Exchange, outcome: Outcome): void;
  /** Default: nothing is timed. */
  readonly hookTimes?: HookTimes | undefined;
}

/** Answer that was sent to the client, as far as it was kept. */
interface SentAnswer {
  readonly status: number;
  readonly body?: Buffer | undefined;
  readonly truncated?: boolean;
  readonly contentType?: string;
  readonly contentEncoding?: string;
}

/**
 * Ends a request: exactly once, whatever happened, after the last byte. Runs every plugin's `settled` hook in
 * file order; a failing one is logged and does not stop the others.
 */
export function settle(
  exchange: Exchange,
  sent: SentAnswer,
  error: GatewayError | undefined,
  runtime: EngineRuntime,
): void {
  if (exchange.settled) return;
  exchange.settled = true;
  const { trace, facts } = exchange;
  const latencyMs = (facts.openSince || runtime.clock.monotonic()) - exchange.startedMonotonic;
  if (facts.openSince > 0 && error?.code === 'client_closed') {
    // The end of such a stream, not one that came too early.
    error = undefined;
    sent = { ...sent, status: 200 };
  }
  if (trace !== undefined) facts.decision = trace.json(exchange, sent.status, error?.code ?? '');
  const outcome = new SettledOutcome(exchange, sent, error, latencyMs, runtime.prices);
  if (exchange.pendingFacts) void exchange.pendingFacts.finally(() => runSettled(exchange, outcome, runtime));
  else atTurnEnd({ run: () => runSettled(exchange, outcome, runtime) });
}

class SettledOutcome implements Outcome {
  readonly kind: Outcome['kind'];
  readonly status: number;
  readonly error: GatewayError | undefined;
  readonly latencyMs: number;
  readonly requestBody: Buffer | undefined;
  readonly responseBody: Buffer | undefined;
  readonly responseTruncated: boolean;
  readonly responseContentType: string;
  readonly responseContentEncoding: string;
  private readonly exchange: Exchange;
  private readonly prices: Prices;
  private known: Price | undefined;

  constructor(
    exchange: Exchange,
    sent: SentAnswer,
    error: GatewayError | undefined,
    latencyMs: number,
    prices: Prices,
  ) {
    this.kind = kindOf(exchange, error);
    this.status = sent.status;
    this.error = error;
    this.latencyMs = latencyMs;
    this.requestBody = exchange.body.loaded ? exchange.body.bytes : undefined;
    this.responseBody = sent.body;
    this.responseTruncated = sent.truncated ?? false;
    this.responseContentType = sent.contentType ?? '';
    this.responseContentEncoding = sent.contentEncoding ?? '';
    this.exchange = exchange;
    this.prices = prices;
  }

  get requestIsJson(): boolean {
    return this.exchange.body.isJsonDocument;
  }

  get responseIsJson(): boolean {
    return this.exchange.answerIsJson && !this.responseTruncated && this.responseContentEncoding === '';
  }

  get price(): Price {
    const { facts, startedAt } = this.exchange;
    this.known ??= this.prices.price(
      facts.usage,
      facts.pricedBy ?? facts.aiService,
      facts.modelAnswered || facts.modelRequested,
      startedAt,
    );
    return this.known;
  }
}

function kindOf(exchange: Exchange, error: GatewayError | undefined): Outcome['kind'] {
  if (error === undefined) return 'completed';
  if (error.code === 'client_closed' || error.code === 'client_stalled') return 'cancelled';
  return error.status < 500 && !exchange.sink.stalled ? 'refused' : 'failed';
}

function runSettled(exchange: Exchange, outcome: Outcome, runtime: EngineRuntime): void {
  let unfinished: Promise<unknown>[] | undefined;
  if (outcome.error !== undefined) estimateUsage(exchange, outcome);
  const { reservation } = exchange;
  exchange.get(learnsFrom)?.learn(exchange, outcome);
  if (reservation !== undefined) {
    const pending = reservation.settle(countedUsage(exchange, outcome, reservation.reserved));
    if (isPromise(pending)) (unfinished ??= []).push(pending);
  }
  for (const step of exchange.pipeline.settled) {
    try {
      const pending = callHook(step.instance, 'settled', runtime, () => step.run(exchange, outcome));
      if (isPromise(pending)) (unfinished ??= []).push(pending.catch(() => undefined));
    } catch {
      // callHook has logged and counted it; an answer that has left cannot be refused any more.
    }
  }
  try {
    runtime.onSettled(exchange, outcome);
  } finally {
    // The generation must not retire under a hook that still works.
    if (unfinished) void Promise.all(unfinished).then(() => exchange.release?.());
    else exchange.release?.();
  }
}

/** Estimates the usage that a broken-off answer did not report. */
function estimateUsage(exchange: Exchange, { kind, responseBody }: Outcome): void {
  const usage = unfinishedUsage(exchange, kind, responseBody);
  if (usage === undefined) return;
  exchange.facts.usage = usage;
  exchange.facts.isUsageEstimated = true;
}

/** Delivering must not throw; if it does, the connection is cut and the request still settles. Never rejects. */
export function deliverSafely(
  exchange: Exchange,
  runtime: EngineRuntime,
  send: () => MaybePromise<void>,
): MaybePromise<void> {
  try {
    const pending = send();
    return isPromise(pending) ? pending.catch((error: unknown) => cut(exchange, runtime, error)) : undefined;
  } catch (error) {
    return cut(exchange, runtime, error);
  }
}

function cut(exchange: Exchange, runtime: EngineRuntime, error: unknown): void {
  runtime.log.error('An answer could not be delivered', { request: exchange.id, error });
  exchange.sink.cut();
  const failure = new GatewayError('internal', 'The answer could not be delivered.', { cause: error });
  settle(exchange, { status: failure.status }, failure, runtime);
}

/** Reason phrases that Node does not know; existing clients know the statuses. */
const statusTexts: Readonly<Record<number, string>> = {
  246: 'Hooks failed',
  446: 'Hooks failed',
  499: 'Client closed',
};

/** Sends the head of an answer: its own headers, the length when it is known, and the gateway's headers. */
export function sendHead(
  exchange: Exchange,
  status: number,
  headers: HeaderList,
  contentLength?: number,
): void {
  const list = [...headers];
  if (contentLength !== undefined) list.push('content-length', String(contentLength));
  exchange.answerHeaders.append(exchange, list);
  if (exchange.incoming.awaitsContinue) list.push('connection', 'close');
  exchange.sink.head(status, list, statusTexts[status]);
}

/** A JSON answer of the gateway itself. */
export function jsonAnswer(status: number, value: unknown, headers: readonly string[] = []): Answer {
  return jsonTextAnswer(status, JSON.stringify(value), headers);
}

/** The same of a value that has been written. */
export function jsonTextAnswer(status: number, text: string, headers: readonly string[] = []): Answer {
  return {
    status,
    headers: ['content-type', 'application/json', ...headers],
    body: Buffer.from(text, 'utf8'),
    source: 'gateway',
  };
}

/** The answer for an error, in the shape of the client's API. */
export function errorAnswer(exchange: Exchange, error: GatewayError): Answer {
  if (exchange.matched.route) return adminErrorAnswer(error);
  if (exchange.endpoint.id === 'mcp') return rpcErrorAnswer(exchange, error);
  return {
    status: error.status,
    headers: ['content-type', 'application/json', ...error.headers],
    body: Buffer.from(exchange.dialect.encodeError(error, exchange.id)),
    source: error.source,
  };
}

/** `{ "success": false, "data": { "message", "errorCode" } }`: the shape of the administration interface. */
function adminErrorAnswer(error: GatewayError): Answer {
  const body = {
    success: false,
    data: { message: error.message, errorCode: error.adminCode },
    ...error.extra,
  };
  return jsonAnswer(error.status, body, error.headers);
}

/** These concern what a message asks for, not the HTTP request: a client reads them in a successful answer. */
const ofMessages: ReadonlySet<string> = new Set([
  'mcp_capability_refused',
  'mcp_connection_missing',
  'hooks_failed',
]);

/** The headers of the error; refusals of the credential tell the client where to get a token (RFC 6750, RFC 9728). */
function challenged(exchange: Exchange, error: GatewayError): readonly string[] {
  const { code, status, headers, source } = error;
  const challenge = exchange.get(bearerChallenge);
  const lacksScope = code === 'scope_missing';
  if (challenge === undefined || source === 'provider' || (status !== 401 && !lacksScope)) return headers;
  let reason = lacksScope ? 'error="insufficient_scope", ' : '';
  // A request without any credential gets no error code (RFC 6750, 3.1).
  const hasCredential = code !== 'key_missing' || exchange.header('authorization') !== undefined;
  if (status === 401 && hasCredential) reason = 'error="invalid_token", ';
  const value = `Bearer ${reason}scope="${challenge.scope}", resource_metadata="${challenge.resourceMetadata}"`;
  return [...withoutHeader(headers, 'www-authenticate'), 'www-authenticate', value];
}

/** A JSON-RPC error: the shape in which clients of MCP expect errors. */
function rpcErrorAnswer(exchange: Exchange, error: GatewayError): Answer {
  const id = exchange.get(rpcRequestId) ?? null;
  const seen = id !== null && ofMessages.has(error.code) ? 200 : error.status;
  return jsonAnswer(seen, rpcError(exchange.id, id, error), challenged(exchange, error));
}

/** Makes a `GatewayError` of anything thrown; an unexpected value is reported as `internal` without its text. */
export function asGatewayError(thrown: unknown): GatewayError {
  if (GatewayError.is(thrown)) return thrown;
  return new GatewayError(
    'internal',
    'The gateway failed to handle this request. Its log says why, under the request id.',
    {
      cause: thrown,
    },
  );
}

/** Largest decoded size of a compressed answer that is read. */
export const maxDecodedBytes = 64 * 1024 * 1024;

/** A whole body without its content coding. Throws `upstream_invalid` for an unknown coding. */
export function decodedBody(coding: ReturnType<typeof codingOf>, body: Buffer): MaybePromise<Buffer> {
  if (coding === 'identity') return body;
  if (coding !== 'unknown') return decodeWhole(body, coding, maxDecodedBytes);
  throw new GatewayError(
    'upstream_invalid',
    'The answer is compressed in a way that the gateway cannot read.',
  );
}
