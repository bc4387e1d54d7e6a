import { GatewayError } from '../errors/gateway-error.ts';
import { codingOf, decodeWhole } from '../http/content-encoding.ts';
import { asGatewayError, errorAnswer, sendHead } from '../http/reply.ts';
import { headerValue } from '../ports/header-list.ts';
import { isStreamSource, type Answer } from './answer.ts';
import { callHook, isPromise } from './call-hook.ts';
import { clientLeft } from './client-left.ts';
import type { Step } from './compile.ts';
import type { MaybePromise } from './context.ts';
import { deliverStream } from './deliver-stream.ts';
import type { Exchange } from './exchange.ts';
import { EditableResponse, withoutHeader } from './response-view.ts';
import { settle, type EngineRuntime } from './settle.ts';

/** Answers larger than this are settled when the client has taken them, not when they were handed to the socket. */
const settleLaterBytes = 256 * 1024;
/** A compressed answer that a response hook wants to read may grow to this. */
const maxDecodedBytes = 64 * 1024 * 1024;

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
  if (isStreamSource(answer.body)) {
    const { body } = answer;
    return deliverStream(exchange, { ...answer, body }, upTo, runtime, (error) =>
      refuse(exchange, error, upTo, runtime),
    );
  }
  const steps = exchange.pipeline.response.filter((step) => step.index < upTo);
  if (steps.length === 0 || answer.body === null)
    return sendWhole(exchange, answer, answer.body, undefined, runtime);
  return deliverThroughHooks(exchange, answer, answer.body, steps, runtime);
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
  const steps = exchange.pipeline.response.filter((step) => step.index < upTo);
  const body = answer.body as Buffer;
  if (steps.length === 0) return sendWhole(exchange, answer, body, error, runtime);
  return deliverThroughHooks(exchange, answer, body, steps, runtime, error);
}

async function deliverThroughHooks(
  exchange: Exchange,
  answer: Answer,
  body: Buffer,
  steps: readonly Step<'response'>[],
  runtime: EngineRuntime,
  error?: GatewayError,
): Promise<void> {
  const coding = codingOf(headerValue(answer.headers, 'content-encoding'));
  let { headers } = answer;
  let bytes = body;
  let position = steps[0]?.index ?? 0;
  try {
    if (coding !== 'identity') {
      if (coding === 'unknown')
        throw new GatewayError(
          'upstream_invalid',
          'The answer is compressed in a way that the gateway cannot read.',
        );
      bytes = await decodeWhole(body, coding, maxDecodedBytes);
      headers = withoutHeader(headers, 'content-encoding');
    }
    const view = new EditableResponse(answer.status, headers, bytes, answer.source ?? 'gateway');
    exchange.response = view;
    for (const step of steps) {
      position = step.index;
      const pending = callHook(step.instance, 'response', runtime, () => step.run(exchange));
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
  const { sink, facts } = exchange;
  if (exchange.aborted || sink.headSent) {
    const left = exchange.failure ?? error ?? clientLeft();
    settle(exchange, { status: left.status }, left, runtime);
    return;
  }
  // Without a body the provider's own length stands (HEAD); else the length is what is sent.
  sendHead(exchange, answer.status, answer.headers, body === null ? undefined : body.length);
  if (facts.firstByteAt === 0) facts.firstByteAt = runtime.clock.monotonic();
  if (body === null) sink.end();
  else sink.end(body);
  facts.responseBytes = body?.length ?? 0;
  const keeps = exchange.pipeline.keepsResponseBytes;
  const sent = {
    status: answer.status,
    body: keeps > 0 && body !== null ? body.subarray(0, keeps) : undefined,
    truncated: body !== null && body.length > keeps,
    contentType: headerValue(answer.headers, 'content-type') ?? '',
    contentEncoding: headerValue(answer.headers, 'content-encoding') ?? '',
  };
  if (body === null || body.length <= settleLaterBytes) {
    settle(exchange, sent, error, runtime);
    return;
  }
  sink.onClose((complete) => {
    const left = sink.stalled
      ? new GatewayError('client_stalled', 'The client stopped reading its answer.')
      : clientLeft();
    settle(exchange, sent, complete ? error : left, runtime);
  });
}
