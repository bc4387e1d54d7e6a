import { forwardedTrace, readTraceParent, spanIdOfRequest } from '../../core/base/trace-context.ts';
import { joinChunks } from '../../core/base/bytes.ts';
import { readSseFrame, SseSplitter } from '../../core/base/sse.ts';
import { isJsonObject, parseJson } from '../../core/base/json.ts';
import { type Answer, isStreamSource, type StreamSource } from '../../core/pipeline/answer.ts';
import { headerValue } from '../../core/ports/header-list.ts';
import type { RequestFacts } from '../../core/pipeline/facts.ts';
import type { JsonValue, RequestContext } from '../../core/pipeline/plugin.ts';
import { type RpcBody, type RpcMessage, rpcMessages } from './messages.ts';
import { PassedStream } from './server-answer.ts';

/** Notes on the log row of a call. */
export const callRecord = {
  method: recordMethod,
  openStream: recordOpenStream,
  messages: recordMessages,
  answer: recordAnswer,
};

/** Operations that the log names; everything else that clients may ask for is `mcp`. */
const operations: ReadonlyMap<string, string> = new Map([
  ['initialize', 'mcp.initialize'],
  ['ping', 'mcp.ping'],
  ['tools/list', 'mcp.tools.list'],
  ['tools/call', 'mcp.tools.call'],
  ['prompts/list', 'mcp.prompts.list'],
  ['prompts/get', 'mcp.prompts.get'],
  ['resources/list', 'mcp.resources.list'],
  ['resources/templates/list', 'mcp.resources.templates.list'],
  ['resources/read', 'mcp.resources.read'],
  ['resources/subscribe', 'mcp.resources.subscribe'],
  ['resources/unsubscribe', 'mcp.resources.unsubscribe'],
  ['completion/complete', 'mcp.completion.complete'],
  ['logging/setLevel', 'mcp.logging.set_level'],
  ['subscriptions/listen', 'mcp.listen'],
]);
const ofKinds = { notification: 'mcp.notification', response: 'mcp.response' } as const;
const ofMethods: Readonly<Record<string, string>> = { GET: 'mcp.listen', DELETE: 'mcp.end' };

/** Notes for the log what a request without messages asks for: `GET` and `DELETE`. */
function recordMethod({ method, facts }: RequestContext): void {
  facts.operation = ofMethods[method] ?? '';
}

/** Notes for the log that the answer is a stream that goes on until one side leaves; `now` is the monotonic clock. */
function recordOpenStream({ facts }: RequestContext, now: number): void {
  facts.stream = true;
  facts.openSince = now;
  facts.upstreamStartedAt ||= now;
}

/**
 * Notes for the log what the messages ask for, and takes the place in a trace that they name in `_meta.traceparent`. The
 * server gets the gateway's own span in that member.
 */
function recordMessages(context: RequestContext, { messages, isBatch }: RpcBody): void {
  const [message] = messages as readonly [RpcMessage];
  const { kind, method } = message;
  if (isBatch) context.facts.operation = 'mcp.batch';
  else context.facts.operation = kind === 'request' ? (operations.get(method) ?? 'mcp') : ofKinds[kind];
  for (const one of messages) joinTrace(context, one, isBatch);
}

function joinTrace(context: RequestContext, { method, params }: RpcMessage, isBatch: boolean): void {
  const meta = Object.hasOwn(params, '_meta') ? params['_meta'] : undefined;
  if (!isJsonObject(meta)) return;
  const parent = readTraceParent(rpcMessages.textOf(meta, 'traceparent') ?? '');
  if (parent === undefined) return;
  const { facts, id } = context;
  // Headers win: of the request, and those of the gateway's own.
  if (facts.sampled === undefined) {
    if (facts.traceId === id) facts.traceId = parent.traceId;
    facts.parentSpanId ||= parent.parentId;
    facts.spanId ||= spanIdOfRequest(id);
    const name = method === 'tools/call' ? rpcMessages.textOf(params, 'name') : undefined;
    facts.spanName ||= (name === undefined ? method : `${method} ${name}`).slice(0, longestName);
    facts.sampled = parent.sampled;
  }
  const own = forwardedTrace(facts, id, undefined).parent;
  // The message may be sent with the client's bytes, and may be written anew.
  meta['traceparent'] = own;
  if (!isBatch) context.body.set(['params', '_meta', 'traceparent'], own);
}

const longestName = 255;
/** Larger messages are not looked at. */
const maxReadBytes = 262_144;

/**
 * Notes for the log whether the answer says that something has failed, which no status tells: an error of JSON-RPC, or
 * the result of a tool with `isError`. Bytes pass as they are.
 */
function recordAnswer({ facts }: RequestContext, answer: Answer): Answer {
  const { status, headers, body } = answer;
  if (status !== 200 || body === null) return answer;
  const isStream = headerValue(headers, 'content-type') === 'text/event-stream';
  facts.stream = isStream;
  if (isStreamSource(body)) return { ...answer, body: new ReadAnswer(body, facts, isStream) };
  const reader = new AnswerReader(facts, isStream);
  reader.read(body);
  reader.finish();
  return answer;
}

/** Reads the messages of an answer as far as they may tell a failure. */
class AnswerReader {
  readonly #facts: RequestFacts;
  /** Undefined for one JSON document. */
  readonly #events: SseSplitter | undefined;
  #chunks: Buffer[] = [];
  #size = 0;

  constructor(facts: RequestFacts, isStream: boolean) {
    this.#facts = facts;
    if (!isStream) return;
    this.#events = new SseSplitter((frame, isWhole) => {
      if (isWhole && mayTellFailure(frame)) this.#note(parseJson(readSseFrame(frame).data ?? ''));
    }, maxReadBytes);
  }

  read(chunk: Buffer): void {
    if (this.#events !== undefined) return this.#events.push(chunk);
    this.#size += chunk.length;
    if (this.#size <= maxReadBytes) this.#chunks.push(chunk);
    else this.#chunks = [];
  }

  finish(): void {
    if (this.#events !== undefined) return this.#events.finish();
    const document = joinChunks(this.#chunks);
    if (this.#size <= maxReadBytes && mayTellFailure(document))
      this.#note(parseJson(document.toString('utf8')));
  }

  #note(json: JsonValue | undefined): void {
    for (const message of Array.isArray(json) ? json : [json]) {
      if (!isJsonObject(message) || Object.hasOwn(message, 'method')) continue;
      const { result } = message;
      const isToolError = isJsonObject(result) && result['isError'] === true;
      if (!isToolError && !isJsonObject(message['error'])) continue;
      this.#facts.answerFailed = true;
      this.#facts.finishReason = isToolError ? 'tool_error' : 'error';
    }
  }
}

/** Most results have `"isError": false`, which tells none. */
const isToolFailure = /"isError"\s*:\s*true/;

function mayTellFailure(bytes: Buffer): boolean {
  if (bytes.includes('"error"')) return true;
  return bytes.includes('"isError"') && isToolFailure.test(bytes.toString('latin1'));
}

/** An answer that is read on its way. */
class ReadAnswer extends PassedStream {
  readonly #reader: AnswerReader;

  constructor(source: StreamSource, facts: RequestFacts, isStream: boolean) {
    super(source);
    this.#reader = new AnswerReader(facts, isStream);
  }

  override data(chunk: Buffer): boolean {
    this.#reader.read(chunk);
    return super.data(chunk);
  }

  override end(): void {
    this.#reader.finish();
    super.end();
  }
}
