import { GatewayError } from '../errors/gateway-error.ts';
import { isJsonType } from '../base/json.ts';
import { codingOf } from '../connection/content-encoding.ts';
import { asGatewayError, decodedBody, errorAnswer, maxDecodedBytes, sendHead } from './reply.ts';
import { type HeaderList, headerValue, withoutHeader } from '../ports/header-list.ts';
import { atTurnEnd, type Waiting } from '../base/turns.ts';
import {
  type Answer,
  clientLeft,
  clientStalled,
  collectSource,
  isStreamSource,
  type StreamSource,
  type SwitchedProvider,
} from './answer.ts';
import { isPromise } from './call-hook.ts';
import { callStep } from './call-step.ts';
import type { Step } from './compile.ts';
import type { MaybePromise } from './context.ts';
import { deliverSafely, type EngineRuntime, settle } from './settle.ts';
import { deliverStream } from './deliver-stream.ts';
import type { Exchange } from './exchange.ts';
import { EditableResponse } from './response-view.ts';
import { type RelayEnd, UpgradeRelay } from '../connection/upgrade-relay.ts';

/** Answers larger than this are settled when the client has taken them, not when they were handed to the socket. */
const settleLaterBytes = 256 * 1024;

/**
 * Sends an answer to the client through the `response` hooks or taps of the plugins before `upTo`, and settles
 * the request when it has left. A hook that refuses replaces the answer by its refusal.
 */
export function deliver(
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
