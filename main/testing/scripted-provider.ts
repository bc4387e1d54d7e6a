import { setImmediate as turn } from 'node:timers/promises';
import { dialects } from '../../adapters/dialects/index.ts';
import { parseObject } from '../../adapters/dialects/json-reading.ts';
import type { ChatAnswer } from '../../core/dialects/canonical/chat-answer.ts';
import type { AnswerContext } from '../../core/dialects/canonical/chat-codec.ts';
import { ChatEventBuilder } from '../../core/dialects/canonical/chat-event-builder.ts';
import type { ChatEvent } from '../../core/dialects/canonical/chat-event.ts';
import { noUsage } from '../../core/dialects/usage.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { headerValue } from '../../core/ports/header-list.ts';
import type {
  Transport,
  UpstreamCall,
  UpstreamHandler,
  UpstreamRequest,
} from '../../core/ports/transport.ts';
import type { ProviderAnswer, ProviderRequest, Wire } from './contract.ts';
import { speaking } from './wires.ts';

/** Answers in the wire of the provider that is asked, in this process. */
export class ScriptedProvider implements Transport {
  /** Answer to all requests from now on. */
  answer: ProviderAnswer = {};
  /** Requests that it received. Readers may empty the list. */
  readonly requests: ProviderRequest[] = [];
  readonly #other: Transport;
  readonly #open = new Set<PlayedCall>();

  /** `other` answers requests to all other hosts. */
  constructor(other: Transport) {
    this.#other = other;
  }

  /** The provider's `base_url`. */
  static address(wire: Wire): string {
    return `mock:?wire=${wire}`;
  }

  send(request: UpstreamRequest, handler: UpstreamHandler): UpstreamCall {
    const [, wire] = /^mock:\?wire=([a-z]+)/.exec(request.origin) ?? [];
    if (wire === undefined) return this.#other.send(request, handler);
    const call = new PlayedCall(handler, () => this.#open.delete(call));
    this.#open.add(call);
    void this.#play(call, wire as Wire, request);
    return call;
  }

  async close(): Promise<void> {
    for (const call of this.#open) call.abort(new GatewayError('shutting_down', 'The test has ended.'));
    await this.#other.close();
  }

  async #play(call: PlayedCall, wire: Wire, request: UpstreamRequest): Promise<void> {
    const { answer } = this;
    try {
      const bytes = await bytesOf(request.body);
      const headers: Record<string, string> = {};
      for (let at = 0; at + 1 < request.headers.length; at += 2)
        headers[(request.headers[at] ?? '').toLowerCase()] = request.headers[at + 1] ?? '';
      const body = parseObject(bytes.toString('utf8')) ?? {};
      this.requests.push({ wire, path: request.path, headers, body });
      const said = encode(wire, request, body, answer);
      await turn();
      call.head(said.status, said.contentType);
      for (const [at, chunk] of said.chunks.entries()) {
        await turn();
        if (at === answer.breaksAfter) throw new GatewayError('upstream_reset', 'The provider broke off.');
        await call.data(chunk);
      }
      call.end();
    } catch (error) {
      call.abort(
        GatewayError.is(error)
          ? error
          : new GatewayError('internal', 'The scripted provider failed.', { cause: error }),
      );
    }
  }
}

/** One request on its way; ends exactly once. */
class PlayedCall implements UpstreamCall {
  readonly #handler: UpstreamHandler;
  readonly #onOver: () => void;
  #over = false;
  #wake: (() => void) | undefined;

  constructor(handler: UpstreamHandler, onOver: () => void) {
    this.#handler = handler;
    this.#onOver = onOver;
  }

  resume(): void {
    this.#wake?.();
  }

  abort(error: GatewayError): void {
    if (this.#finish()) this.#handler.fail(error, { stale: false });
  }

  head(status: number, contentType: string): void {
    if (!this.#over) this.#handler.head(status, ['content-type', contentType]);
  }

  /** Waits while there is no room for more. */
  async data(chunk: Buffer): Promise<void> {
    if (this.#over) return;
    const resumed = new Promise<void>((resolve) => (this.#wake = resolve));
    if (!this.#handler.data(chunk) && !this.#over) await resumed;
  }

  end(): void {
    if (this.#finish()) this.#handler.end();
  }

  #finish(): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.#onOver();
    this.#wake?.();
    return true;
  }
}

async function bytesOf(body: UpstreamRequest['body']): Promise<Buffer> {
  if (body === null || body instanceof Uint8Array) return Buffer.from(body ?? []);
  const chunks: Buffer[] = [];
  for await (const chunk of body as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

interface Encoded {
  readonly status: number;
  readonly contentType: string;
  readonly chunks: readonly Buffer[];
}

/** The answer in the bytes of the wire. */
function encode(
  wire: Wire,
  { path, headers }: UpstreamRequest,
  body: NonNullable<ReturnType<typeof parseObject>>,
  answer: ProviderAnswer,
): Encoded {
  const { inPath, listener } = speaking[wire];
  const codec = dialects.get(listener.dialect)?.chat;
  if (codec === undefined) throw new Error(`The wire ${wire} has no codec.`);
  const stream = inPath ? path.includes(':streamGenerateContent') : body.stream === true;
  const [, query = ''] = /(\?.*)$/.exec(path) ?? [];
  const requestId = 'req-scripted';
  if (answer.status !== undefined) {
    const error = { status: answer.status, message: 'The provider answers with an error.' };
    const chunk = codec.encodeProviderError(error, { provider: 'scripted', requestId });
    return { status: answer.status, contentType: 'application/json', chunks: [chunk] };
  }
  const model = 'test-model';
  const header = (name: string): string | undefined => headerValue(headers, name);
  let ids = 0;
  const context: AnswerContext = {
    request: codec.decodeRequest({ body, model, stream, query, header }),
    query,
    strict: true,
    now: 1_790_000_000,
    newId: (prefix) => `${prefix}${String((ids += 1)).padStart(8, '0')}`,
    provider: 'scripted',
    requestId,
  };
  const events = eventsOf(answer, model);
  if (!stream) {
    const whole = codec.encodeAnswer(wholeOf(answer, model), context);
    return { status: 200, contentType: 'application/json', chunks: [whole] };
  }
  const writer = codec.eventWriter(context);
  const frames = events.flatMap((event) => writer.write([event]) ?? []);
  return { status: 200, contentType: writer.contentType, chunks: cutInto(frames, answer.chunkBytes) };
}

const usage = { ...noUsage, promptTokens: 7, completionTokens: 5, totalTokens: 12 };

const pieces = (text: string | readonly string[]): readonly string[] =>
  typeof text === 'string' ? [text] : text;
const joined = (text: string | readonly string[]): string => pieces(text).join('');
const finishOf = ({ calls = [] }: ProviderAnswer): ChatAnswer['choices'][number]['finish'] =>
  calls.length > 0 ? { reason: 'tool-calls', raw: 'tool_calls' } : { reason: 'stop', raw: 'stop' };

function wholeOf(answer: ProviderAnswer, model: string): ChatAnswer {
  const { text = '', reasoning = '', calls = [] } = answer;
  const call = ({ name, arguments: given }: (typeof calls)[number], at: number) => ({
    type: 'tool-call' as const,
    id: `call_${at + 1}`,
    name,
    kind: 'function' as const,
    arguments: joined(given),
  });
  const parts = [
    ...(joined(reasoning) === '' ? [] : [{ type: 'reasoning' as const, text: joined(reasoning) }]),
    ...(joined(text) === '' ? [] : [{ type: 'text' as const, text: joined(text) }]),
    ...calls.map(call),
  ];
  return { id: 'answer-1', model, choices: [{ index: 0, parts, finish: finishOf(answer) }], usage };
}

function eventsOf(answer: ProviderAnswer, model: string): readonly ChatEvent[] {
  const builder = new ChatEventBuilder();
  builder.start({ id: 'answer-1', model });
  const [choice] = wholeOf(answer, model).choices;
  const told = [...(answer.calls ?? [])];
  for (const [at, part] of (choice?.parts ?? []).entries()) {
    const key = String(at);
    if (part.type === 'reasoning') {
      builder.open(0, key, { ...part, text: '' });
      for (const piece of pieces(answer.reasoning ?? '')) builder.reasoning(0, key, piece);
    } else if (part.type === 'text') {
      builder.open(0, key, { ...part, text: '' });
      for (const piece of pieces(answer.text ?? '')) builder.text(0, key, piece);
    } else if (part.type === 'tool-call') {
      builder.open(0, key, { ...part, arguments: '' });
      for (const piece of pieces(told.shift()?.arguments ?? '')) builder.arguments(0, key, piece);
    }
    builder.close(0, key);
  }
  builder.finish(0, finishOf(answer));
  builder.usage(usage);
  builder.complete();
  return builder.take();
}

function cutInto(frames: readonly Buffer[], chunkBytes: number | undefined): readonly Buffer[] {
  if (chunkBytes === undefined) return frames;
  const bytes = Buffer.concat(frames);
  const size = Math.max(1, chunkBytes);
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
    bytes.subarray(at * size, (at + 1) * size),
  );
}
