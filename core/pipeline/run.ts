import { requireProviderScope } from '../access/scopes.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import {
  type Answer,
  clientLeft,
  clientStalled,
  collectSource,
  isStreamSource,
  type StreamSource,
  type SwitchedProvider,
} from './answer.ts';
import { callHook, callStep, loadBody, type Step } from './call-hook.ts';
import type { MaybePromise } from './context.ts';
import {
  asGatewayError,
  decodedBody,
  deliverSafely,
  type EngineRuntime,
  errorAnswer,
  maxDecodedBytes,
  sendHead,
  settle,
} from './settle.ts';
import type { Exchange } from './exchange.ts';
import { callerKey } from './keys.ts';
import { isJsonType } from '../base/json.ts';
import { codingOf } from '../connection/content-encoding.ts';
import { type HeaderList, headerValue, withoutHeader } from '../ports/header-list.ts';
import { atTurnEnd, type Waiting, isPromise } from '../base/turns.ts';
import { deliverStream } from './deliver-stream.ts';
import { EditableResponse } from './held-answer.ts';
import { type RelayEnd, UpgradeRelay } from '../connection/upgrade.ts';

/** Handles an administration route once the pipeline's request hooks have let the request pass. */
type RouteHandler = (exchange: Exchange) => MaybePromise<Answer>;

/**
 * Walks one request through its pipeline: request hooks in file order until one answers or refuses, then the
 * answer back through the plugins before it, then `settled`. Never rejects.
 */
export async function runExchange(
  exchange: Exchange,
  handleRoute: RouteHandler,
  runtime: EngineRuntime,
): Promise<void> {
  let position = 0;
  let answer: Answer | undefined;
  try {
    if (exchange.pipeline.admit.length > 0) {
      const waiting = admit(exchange, runtime);
      if (waiting !== undefined) await waiting;
      if (exchange.aborted) return settleAborted(exchange, undefined, runtime);
    }
    const times = runtime.hookTimes?.wanted() === true ? runtime.hookTimes : undefined;
    for (const step of exchange.pipeline.request) {
      position = step.index;
      if (exchange.trace !== undefined) exchange.trace.authorise(exchange);
      const loading = loadBody(exchange, step.loadsBody);
      if (loading !== undefined) await loading;
      const begunAt = times === undefined ? 0 : runtime.clock.monotonic();
      const pending = callStep(step, exchange, runtime, () => step.run(exchange));
      const result = (isPromise(pending) ? await pending : pending) ?? undefined;
      if (times !== undefined) times.took(step.instance, runtime.clock.monotonic() - begunAt);
      if (exchange.aborted) return settleAborted(exchange, result, runtime);
      if (step.identifies) requireScope(exchange);
      if (result !== undefined) {
        answer = result;
        break;
      }
    }
    if (answer === undefined && exchange.matched.route) {
      position = exchange.pipeline.instances.length;
      answer = await handleRoute(exchange);
    }
    if (answer === undefined) {
      throw new GatewayError('internal', `No plugin of the pipeline "${exchange.pipeline.name}" answered.`);
    }
  } catch (error) {
    const keeping = keepBodyOfRefused(exchange, error, runtime);
    if (keeping !== undefined) await keeping;
    const refused = deliverSafely(exchange, runtime, () => refuse(exchange, error, position, runtime));
    if (isPromise(refused)) await refused;
    return;
  }
  const ready = answer;
  const upTo = position;
  const delivered = deliverSafely(exchange, runtime, () => deliver(exchange, ready, upTo, runtime));
  if (isPromise(delivered)) await delivered;
}

/** Administration is always admitted: it may be the way to make room. */
function admit(exchange: Exchange, runtime: EngineRuntime): Promise<unknown> | undefined {
  if (exchange.matched.route !== undefined) return undefined;
  let waiting: Promise<unknown>[] | undefined;
  for (const { instance, run } of exchange.pipeline.admit) {
    const pending = callHook(instance, 'admit', runtime, () => run(exchange));
    if (isPromise(pending)) (waiting ??= []).push(pending);
  }
  return waiting && Promise.all(waiting);
}

/** Checks the caller's scope for providers before any other plugin can answer. Routes of plugins check their own scopes. */
function requireScope(exchange: Exchange): void {
  if (exchange.matched.route !== undefined) return;
  const key = exchange.get(callerKey);
  if (key !== undefined) requireProviderScope(key, exchange);
}

/** How long a refused request may take to send the rest of its body, in milliseconds. */
const refusedBodyMs = 500;

/**
 * Reads the body of a known caller that is over a limit, for the log: only where a plugin keeps bodies, and only a body
 * no longer than it keeps.
 */
function keepBodyOfRefused(
  exchange: Exchange,
  error: unknown,
  { clock }: EngineRuntime,
): Promise<void> | undefined {
  const { body, endpoint, pipeline, incoming } = exchange;
  if (!GatewayError.is(error) || error.status !== 429 || exchange.aborted) return undefined;
  if (body.loaded || !body.present || !endpoint.modelled || incoming.awaitsContinue) return undefined;
  const length = exchange.header('content-length');
  if (length === undefined || Number(length) > pipeline.keepsResponseBytes) return undefined;
  if (exchange.get(callerKey) === undefined) return undefined;
  const loading = body.bring();
  if (loading === undefined) return undefined;
  return new Promise((resolve) => {
    const cancel = clock.after(refusedBodyMs, resolve);
    const done = (): void => {
      cancel();
      resolve();
    };
    loading.then(done, done);
  });
}

function settleAborted(exchange: Exchange, answer: Answer | undefined, runtime: EngineRuntime): void {
  const left = exchange.failure ?? clientLeft();
  if (answer !== undefined && isStreamSource(answer.body)) answer.body.cancel(left);
  settle(exchange, { status: left.status }, left, runtime);
}

/** Answers larger than this are settled when the client has taken them, not when they were handed to the socket. */
const settleLaterBytes = 256 * 1024;

/**
 * Sends an answer to the client through the `response` hooks or taps of the plugins before `upTo`, and settles
 * the request when it has left. A hook that refuses replaces the answer by its refusal.
 */
function deliver(
  exchange: Exchange,
  answer: Answer,
  upTo: number,
  runtime: EngineRuntime,
): MaybePromise<void> {
  if (answer.switched !== undefined)
    return deliverUpgrade(exchange, answer.headers, answer.switched, runtime);
  const steps = responseSteps(exchange, upTo);
  if (isStreamSource(answer.body)) {
    const stream = { ...answer, body: answer.body };
    const isDocument =
      answer.dialect === undefined && isJsonType(headerValue(answer.headers, 'content-type'));
    if (steps.length > 0 && isDocument) return deliverCollected(exchange, stream, upTo, runtime);
    return deliverStream(exchange, stream, upTo, runtime, (error, from) =>
      deliverSafely(exchange, runtime, () => refuse(exchange, error, from, runtime)),
    );
  }
  if (steps.length === 0 || answer.body === null)
    return sendWhole(exchange, answer, answer.body, undefined, runtime);
  return deliverThroughHooks(exchange, { ...answer, body: answer.body }, steps, runtime);
}

/** Answers with an error; only plugins before `upTo` see it. */
export function refuse(
  exchange: Exchange,
  thrown: unknown,
  upTo: number,
  runtime: EngineRuntime,
): MaybePromise<void> {
  const error = asGatewayError(thrown);
  if (error.code === 'internal') {
    runtime.log.error('A request failed inside the gateway', {
      request: exchange.id,
      error: error.cause ?? error,
    });
  }
  if (exchange.aborted) {
    const left = exchange.failure ?? clientLeft();
    return settle(exchange, { status: left.status }, left, runtime);
  }
  const answer = errorAnswer(exchange, error);
  const steps = responseSteps(exchange, upTo);
  const body = answer.body as Buffer;
  if (steps.length === 0) return sendWhole(exchange, answer, body, error, runtime);
  return deliverThroughHooks(exchange, { ...answer, body }, steps, runtime, error);
}

/** Of the plugins before `upTo`. */
function responseSteps({ pipeline }: Exchange, upTo: number): readonly Step<'response'>[] {
  return pipeline.response.length === 0
    ? pipeline.response
    : pipeline.response.filter(({ index }) => index < upTo);
}

/** A JSON document of an endpoint that is not modelled is streamed; for a hook it has to be whole. */
async function deliverCollected(
  exchange: Exchange,
  answer: Answer & { readonly body: StreamSource },
  upTo: number,
  runtime: EngineRuntime,
): Promise<void> {
  let body: Buffer;
  try {
    body = await collectSource(exchange, answer.body, maxDecodedBytes);
  } catch (error) {
    return refuse(exchange, error, upTo, runtime);
  }
  return deliver(
    exchange,
    { ...answer, headers: withoutHeader(answer.headers, 'content-length'), body },
    upTo,
    runtime,
  );
}

async function deliverThroughHooks(
  exchange: Exchange,
  answer: Answer & { readonly body: Buffer },
  steps: readonly Step<'response'>[],
  runtime: EngineRuntime,
  error?: GatewayError,
): Promise<void> {
  const { body } = answer;
  const coding = codingOf(headerValue(answer.headers, 'content-encoding'));
  let { headers } = answer;
  let bytes = body;
  let position = steps[0]?.index ?? 0;
  try {
    if (coding !== 'identity') {
      bytes = await decodedBody(coding, body);
      headers = withoutHeader(headers, 'content-encoding');
    }
    const view = new EditableResponse(
      { status: answer.status, headers, bytes },
      answer.source ?? 'gateway',
      exchange,
    );
    exchange.response = view;
    for (const step of steps) {
      position = step.index;
      const pending = callStep(step, exchange, runtime, () => step.run(exchange));
      if (isPromise(pending)) await pending;
    }
    const unread = view.bytes === bytes && coding !== 'identity';
    const final = { ...answer, status: view.status, headers: unread ? answer.headers : view.headers };
    return sendWhole(exchange, final, unread ? body : view.bytes, error, runtime);
  } catch (thrown) {
    return refuse(exchange, thrown, position, runtime);
  }
}

function sendWhole(
  exchange: Exchange,
  answer: Answer,
  body: Buffer | null,
  error: GatewayError | undefined,
  runtime: EngineRuntime,
): void {
  if (answer.isJson === true) exchange.answerIsJson = true;
  atTurnEnd(new WholeAnswer(exchange, answer, body, error, runtime));
}

/** An answer that leaves in one piece. */
class WholeAnswer implements Waiting {
  private readonly exchange: Exchange;
  private readonly answer: Answer;
  private readonly body: Buffer | null;
  private readonly error: GatewayError | undefined;
  private readonly runtime: EngineRuntime;
  private headReady = false;

  constructor(
    exchange: Exchange,
    answer: Answer,
    body: Buffer | null,
    error: GatewayError | undefined,
    runtime: EngineRuntime,
  ) {
    this.exchange = exchange;
    this.answer = answer;
    this.body = body;
    this.error = error;
    this.runtime = runtime;
  }

  run(): void {
    void deliverSafely(this.exchange, this.runtime, () => (this.headReady ? this.send() : this.prepare()));
  }

  /** Makes the head. It leaves with the body once those of all other answers of this turn have been made. */
  private prepare(): void {
    const { exchange, answer, body, error, runtime } = this;
    const { sink, facts } = exchange;
    if (exchange.aborted || sink.headSent) {
      const left = exchange.failure ?? error ?? clientLeft();
      settle(exchange, { status: left.status }, left, runtime);
      return;
    }
    // Without a body the provider's own length stands (HEAD); else the length is that of the sent bytes, not a plugin's claim.
    const isOwn = body !== null && answer.source !== 'provider';
    const headers = isOwn ? withoutHeader(answer.headers, 'content-length') : answer.headers;
    sendHead(exchange, answer.status, headers, body === null ? undefined : body.length);
    if (facts.firstByteAt === 0) facts.firstByteAt = runtime.clock.monotonic();
    this.headReady = true;
    atTurnEnd(this);
  }

  private send(): void {
    const { exchange, answer, body, error, runtime } = this;
    const { sink, facts } = exchange;
    if (body === null) sink.end();
    else sink.end(body);
    facts.responseBytes = body?.length ?? 0;
    const keeps = exchange.pipeline.keepsResponseBytes;
    const sent = {
      status: answer.status,
      body: keeps > 0 && body !== null ? beginningOf(body, keeps) : undefined,
      truncated: body !== null && body.length > keeps,
      contentType: headerValue(answer.headers, 'content-type') ?? '',
      contentEncoding: headerValue(answer.headers, 'content-encoding') ?? '',
    };
    if (body === null || body.length <= settleLaterBytes) {
      settle(exchange, sent, error, runtime);
      return;
    }
    sink.onClose((complete) => {
      settle(exchange, sent, complete ? error : (exchange.failure ?? clientLeft()), runtime);
    });
  }
}

function beginningOf(body: Buffer, length: number): Buffer {
  return body.length <= length ? body : body.subarray(0, length);
}

/** Switches the client to WebSocket, relays until both connections have closed, and settles the request then. */
function deliverUpgrade(
  exchange: Exchange,
  headers: HeaderList,
  provider: SwitchedProvider,
  runtime: EngineRuntime,
): void {
  const { upgrade, sink, facts } = exchange;
  const { connection, idleTimeoutMs } = provider;
  if (upgrade === undefined || exchange.aborted) {
    connection.destroy();
    const left = exchange.failure ?? clientLeft();
    settle(exchange, { status: left.status }, left, runtime);
    return;
  }
  const own: string[] = [];
  exchange.answerHeaders.append(exchange, own);
  let client;
  try {
    client = upgrade.switch([...headers, ...withoutConnection(own)]);
  } catch (error) {
    connection.destroy();
    throw error;
  }
  sink.switchedAway(client.socket);
  for (const side of [client.socket, connection]) side.once('end', () => (sink.ended = true));
  const relay = new UpgradeRelay({
    client: client.socket,
    early: client.early,
    provider: connection,
    idleTimeoutMs,
    stallTimeoutMs: sink.stallTimeoutMs,
    over(end, { sent, received }) {
      facts.requestBytes = sent;
      facts.responseBytes = received;
      facts.upstreamEndedAt = runtime.clock.monotonic();
      settle(exchange, { status: 101 }, exchange.failure ?? errorOf(end, idleTimeoutMs), runtime);
    },
  });
  relay.start();
}

/** The gateway's `connection: close` belongs to answers in HTTP. */
function withoutConnection(headers: HeaderList): string[] {
  const kept: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string;
    if (name.toLowerCase() !== 'connection') kept.push(name, headers[i + 1] as string);
  }
  return kept;
}

function errorOf(end: RelayEnd, idleTimeoutMs: number): GatewayError | undefined {
  switch (end) {
    case 'closed':
      return undefined;
    case 'client-lost':
      return clientLeft();
    case 'stalled':
      return clientStalled();
    case 'provider-lost':
      return new GatewayError(
        'upstream_reset',
        "The provider's WebSocket broke without an end. Connect again.",
      );
    case 'idle':
      return new GatewayError(
        'upstream_timeout',
        `Neither side of the WebSocket sent a byte for ${idleTimeoutMs} ms (idle_timeout_ms of the provider plugin). Send pings, or raise it.`,
      );
  }
}
