import { joinChunks } from '../../core/base/bytes.ts';
import { readSseFrame, replaceSseData, SseSplitter } from '../../core/base/sse.ts';
import { isJsonObject, parseJson, writeJson } from '../../core/base/json.ts';
import {
  clientLeft,
  collectSource,
  type StreamSource,
  type StreamTarget,
} from '../../core/pipeline/answer.ts';
import {
  GatewayError,
  type JsonObject,
  type JsonValue,
  type MaybePromise,
  type RequestContext,
} from '../../core/pipeline/plugin.ts';
import type { McpCall, McpHandler, McpHead, McpRequest, McpUpstream } from '../../core/ports/mcp.ts';

/** Most bytes that arrive before the answer is read; then the server is paused. */
const maxWaiting = 65_536;

/** One answer of a server: its head, and its body as it comes. */
export class ServerAnswer implements McpHandler, StreamSource {
  readonly #call: McpCall;
  readonly #headed: Promise<McpHead>;
  readonly #ended: () => void;
  #resolve: (head: McpHead) => void = () => undefined;
  #reject: (error: GatewayError) => void = () => undefined;
  #target: StreamTarget | undefined;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #isPaused = false;
  #over: 'ended' | GatewayError | undefined;

  /** `ended` is called when nothing more comes of it. */
  constructor(upstream: McpUpstream, request: McpRequest, ended: () => void) {
    this.#ended = ended;
    this.#headed = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#headed.catch(() => undefined);
    this.#call = upstream.send(request, this);
  }

  /** Rejects when no answer comes; aborts the call when the client leaves. */
  async received(context: RequestContext): Promise<McpHead> {
    const forget = context.onAbort(() => this.cancel(clientLeft()));
    try {
      return await this.#headed;
    } finally {
      forget();
    }
  }

  head(head: McpHead): void {
    this.#resolve(head);
  }

  data(chunk: Buffer): boolean {
    if (this.#target !== undefined) return this.#target.data(chunk);
    this.#waiting.push(chunk);
    this.#waitingBytes += chunk.length;
    this.#isPaused = this.#waitingBytes >= maxWaiting;
    return !this.#isPaused;
  }

  end(): void {
    this.#over = 'ended';
    this.#ended();
    this.#target?.end();
  }

  fail(error: GatewayError): void {
    this.#over = error;
    this.#ended();
    this.#reject(error);
    this.#target?.fail(error);
  }

  pipe(target: StreamTarget): void {
    this.#target = target;
    const waiting = this.#waiting;
    this.#waiting = [];
    let hasRoom = true;
    for (const chunk of waiting) hasRoom = target.data(chunk);
    if (this.#over === 'ended') target.end();
    else if (this.#over !== undefined) target.fail(this.#over);
    else if (this.#isPaused && hasRoom) this.#call.resume();
  }

  resume(): void {
    if (this.#over === undefined) this.#call.resume();
  }

  cancel(error: GatewayError): void {
    this.#target = undefined;
    if (this.#over !== undefined) return;
    this.#ended();
    this.#call.abort(error);
  }

  /** The whole body, when all of it has come with the head; else undefined, and it is still to be read. */
  arrived(): Buffer | undefined {
    return this.#over === 'ended' && this.#target === undefined ? joinChunks(this.#waiting) : undefined;
  }

  /** The whole body. Throws `upstream_too_large` beyond `maxBytes`. */
  collect(context: RequestContext, maxBytes: number): Promise<Buffer> {
    return collectSource(context, this, maxBytes, tooLarge);
  }
}

/** A stream that is looked at on its way: a subclass says what it does with the bytes, or with the end. */
export class PassedStream implements StreamSource, StreamTarget {
  protected readonly source: StreamSource;
  /** Undefined when nothing more is passed on. */
  protected target: StreamTarget | undefined;

  constructor(source: StreamSource) {
    this.source = source;
  }

  pipe(target: StreamTarget): void {
    this.target = target;
    this.source.pipe(this);
  }

  resume(): void {
    this.source.resume();
  }

  cancel(error: GatewayError): void {
    this.target = undefined;
    this.source.cancel(error);
  }

  data(chunk: Buffer): boolean {
    return this.target?.data(chunk) ?? false;
  }

  end(): void {
    this.#release()?.end();
  }

  fail(error: GatewayError, told?: Buffer): void {
    this.#release()?.fail(error, told);
  }

  #release(): StreamTarget | undefined {
    const { target } = this;
    this.target = undefined;
    return target;
  }
}

/** Changes a message on its way; returns the same object for one that stays. */
export type ChangeMessage = (message: JsonObject) => MaybePromise<JsonObject>;

/** Every JSON-RPC message in a body of this type. Throws `upstream_invalid` for one that cannot be read. */
export function messagesIn(body: Buffer, contentType: string): readonly JsonObject[] {
  if (contentType !== 'text/event-stream') {
    const json = parseJson(body.toString('utf8'));
    return (Array.isArray(json) ? json : [json]).map(requireObject);
  }
  const found: JsonObject[] = [];
  const splitter = new SseSplitter((frame) => {
    const { data } = readSseFrame(frame);
    if (data !== undefined && data !== '') found.push(requireObject(parseJson(data)));
  }, body.length + 1);
  splitter.push(body);
  splitter.finish();
  return found;
}

function requireObject(json: JsonValue | undefined): JsonObject {
  if (isJsonObject(json)) return json;
  throw new GatewayError(
    'upstream_invalid',
    'The MCP server answered with something that is no JSON-RPC message; its log may say why.',
    { source: 'provider' },
  );
}

/** A JSON body with its messages changed; the same bytes when none is. */
export async function changedBody(body: Buffer, change: ChangeMessage): Promise<Buffer> {
  const json = parseJson(body.toString('utf8'));
  const isList = Array.isArray(json);
  const messages = (isList ? json : [json]).map(requireObject);
  const changed: JsonObject[] = [];
  for (const message of messages) changed.push(await change(message));
  if (changed.every((message, index) => message === messages[index])) return body;
  return Buffer.from(writeJson(isList ? changed : changed[0]));
}

/** An event stream whose messages are changed one after the other; the bytes of the others stay. */
export class ChangedEvents extends PassedStream {
  readonly #change: ChangeMessage;
  readonly #splitter: SseSplitter;
  /** Frames that wait for one that is being changed. */
  readonly #frames: Buffer[] = [];
  #isBusy = false;
  #hasEnded = false;

  constructor(source: StreamSource, change: ChangeMessage, maxBytes: number) {
    super(source);
    this.#change = change;
    this.#splitter = new SseSplitter((frame, isWhole) => {
      if (isWhole) this.#frames.push(frame);
      else this.#break(tooLarge(maxBytes));
    }, maxBytes);
  }

  override data(chunk: Buffer): boolean {
    if (this.target === undefined) return false;
    this.#splitter.push(chunk);
    return this.#pass();
  }

  override end(): void {
    this.#splitter.finish();
    this.#hasEnded = true;
    this.#pass();
  }

  /** Passes on all frames that need not wait. False: the source shall pause. */
  #pass(): boolean {
    let hasRoom = true;
    while (!this.#isBusy && this.target !== undefined) {
      const frame = this.#frames.shift();
      if (frame === undefined) {
        if (this.#hasEnded) super.end();
        break;
      }
      const { data } = readSseFrame(frame);
      if (data === undefined || data === '') {
        hasRoom = this.target.data(frame);
        continue;
      }
      const json = parseJson(data);
      const changed = this.#changed(json);
      if (changed instanceof Promise) {
        this.#isBusy = true;
        void changed.then(
          (message) => {
            this.#isBusy = false;
            this.#put(frame, json, message);
            if (this.#pass()) this.source.resume();
          },
          (error: unknown) => this.#break(asError(error)),
        );
        return false;
      }
      hasRoom = this.#put(frame, json, changed);
    }
    return hasRoom && !this.#isBusy;
  }

  /** Of a list of messages each. */
  #changed(json: JsonValue | undefined): MaybePromise<JsonValue> {
    try {
      if (Array.isArray(json))
        return Promise.all(json.map(async (one) => await this.#change(requireObject(one))));
      return this.#change(requireObject(json));
    } catch (error) {
      return Promise.reject(asError(error));
    }
  }

  #put(frame: Buffer, before: JsonValue | undefined, after: JsonValue): boolean {
    if (this.target === undefined) return false;
    return this.target.data(after === before ? frame : replaceSseData(frame, writeJson(after)));
  }

  #break(error: GatewayError): void {
    this.source.cancel(error);
    this.fail(error);
  }
}

function asError(thrown: unknown): GatewayError {
  if (GatewayError.is(thrown)) return thrown;
  return new GatewayError('internal', 'The gateway failed to read the answer of an MCP server.', {
    cause: thrown,
  });
}

function tooLarge(maxBytes: number): GatewayError {
  return new GatewayError(
    'upstream_too_large',
    `A message of the MCP server is larger than ${maxBytes} bytes (max_message_bytes of the plugin mcp), too large for the gateway to read.`,
    { source: 'provider' },
  );
}
