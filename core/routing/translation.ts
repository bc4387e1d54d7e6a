import { randomBytes } from 'node:crypto';
import {
  type AnswerContext,
  type AnsweredRequest,
  type ChatClientCodec,
  type ChatEventReader,
  type ChatEventWriter,
  type ChatProviderCodec,
  type DecodeContext,
  type EncodedRequest,
  EncodeReport,
} from '../dialects/canonical/chat-codec.ts';
import { answerEvents } from '../dialects/canonical/answer-events.ts';
import type { ChatAnswer, ProviderError } from '../dialects/canonical/chat-answer.ts';
import { collectAnswer } from '../dialects/canonical/collect-answer.ts';
import type { JsonObject } from '../dialects/canonical/chat-part.ts';
import type { ChatRequest } from '../dialects/canonical/chat-request.ts';
import type { AnswerFacts } from '../dialects/dialect.ts';
import type { HostFacts } from '../dialects/host-facts.ts';
import type { OperationCodec } from '../dialects/upstream-plan.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { keptAnswer } from '../pipeline/keys.ts';
import { ownTurn } from '../base/turns.ts';
import type { LargeChat, LargeTranslation } from '../ports/large-translation.ts';
import { decodeWhole, codingOf } from '../connection/content-encoding.ts';
import {
  type Answer,
  decodedSource,
  isStreamSource,
  type StreamSource,
  type StreamTarget,
} from '../pipeline/answer.ts';
import type { Clock } from '../ports/clock.ts';
import { type HeaderList, headerValue } from '../ports/header-list.ts';
import { learnFacts, noteAnswer } from './collected-answer.ts';
import type { ChatEvent } from '../dialects/canonical/chat-event.ts';

/**
 * A provider's stream in the client's dialect: bytes → events → bytes, with back-pressure both ways. An error event, a
 * truncated stream and a broken connection all reach the client as an error of its own dialect, never as an end.
 */
export class TranslatedStream implements StreamSource, StreamTarget {
  private readonly source: StreamSource;
  private readonly reader: ChatEventReader;
  private readonly writer: ChatEventWriter;
  private readonly exchange: Exchange;
  private readonly clock: Clock;
  private target: StreamTarget | undefined;
  private over = false;

  constructor(
    source: StreamSource,
    codecs: { readonly reader: ChatEventReader; readonly writer: ChatEventWriter },
    exchange: Exchange,
    clock: Clock,
  ) {
    this.source = source;
    this.reader = codecs.reader;
    this.writer = codecs.writer;
    this.exchange = exchange;
    this.clock = clock;
  }

  pipe(target: StreamTarget): void {
    this.target = target;
    this.source.pipe(this);
  }

  resume(): void {
    this.source.resume();
  }

  cancel(error: GatewayError): void {
    this.over = true;
    this.source.cancel(error);
  }

  data(chunk: Buffer): boolean {
    return this.over ? false : this.emit(this.reader.push(chunk));
  }

  end(): void {
    if (this.over) return;
    this.emit(this.reader.finish());
    // `over` is already set when the last events were an error.
    if (this.over) return;
    this.over = true;
    this.target?.end();
  }

  fail(error: GatewayError): void {
    if (this.over) return;
    const { status, message, type } = error;
    const code = error.shownCode;
    const event: ChatEvent = {
      type: 'error',
      error: code === null ? { status, message, type } : { status, message, type, code },
    };
    this.stop(event, error, false);
  }

  private emit(events: readonly ChatEvent[]): boolean {
    if (events.length === 0) return true;
    let room = true;
    try {
      const last = events[events.length - 1] as ChatEvent;
      const good = last.type === 'error' ? events.slice(0, -1) : events;
      for (const event of good) this.learn(event);
      const bytes = good.length === 0 ? undefined : this.writer.write(good);
      if (bytes !== undefined && this.target !== undefined) room = this.target.data(bytes);
      if (last.type === 'error') this.stop(last, reportedError(last.error), true);
    } catch (cause) {
      const error = GatewayError.is(cause)
        ? cause
        : new GatewayError(
            'upstream_invalid',
            "The provider's stream cannot be said in the client's format.",
            {
              cause,
              source: 'provider',
            },
          );
      this.over = true;
      this.source.cancel(error);
      this.target?.fail(error);
    }
    return room && !this.over;
  }

  /** Sends the client an error in its own dialect. `cancels`: the source still flows. */
  private stop(event: ChatEvent, error: GatewayError, cancels: boolean): void {
    if (this.over) return;
    this.over = true;
    if (cancels) this.source.cancel(error);
    this.target?.fail(error, this.tell(event));
  }

  /** The event in the client's dialect; undefined when its writer failed. */
  private tell(event: ChatEvent): Buffer | undefined {
    try {
      return this.writer.write([event]);
    } catch {
      return undefined;
    }
  }

  private learn(event: ChatEvent): void {
    const { facts } = this.exchange;
    const { type } = event;
    if (type === 'text-delta' || type === 'reasoning-delta' || type === 'arguments-delta') {
      if (facts.firstTokenAt === 0) facts.firstTokenAt = this.clock.monotonic();
    } else if (type === 'start') {
      if (event.model !== '') facts.modelAnswered = event.model;
      if (event.usage !== undefined) facts.usage = event.usage;
    } else if (type === 'usage') {
      facts.usage = event.usage;
    } else if (type === 'finish') {
      const { raw } = event.finish;
      if (raw !== '') facts.finishReason = facts.finishReason === '' ? raw : `${facts.finishReason},${raw}`;
    }
  }
}

/** Upper bound of a decompressed answer. */
const maxDecodedBytes = 64 * 1024 * 1024;
/** Headers that describe the provider's bytes, not the client's. */
const ofTheBody: ReadonlySet<string> = new Set([
  'content-type',
  'content-length',
  'content-encoding',
  'transfer-encoding',
  'content-md5',
  'etag',
]);

/** The provider's answer in the client's dialect. Throws `upstream_invalid` for an answer that cannot be parsed. */
export async function translatedAnswer(
  exchange: Exchange,
  raw: Answer,
  translation: Translation,
  clock: Clock,
): Promise<Answer> {
  const contentType = headerValue(raw.headers, 'content-type') ?? '';
  const coding = codingOf(headerValue(raw.headers, 'content-encoding'));
  if (coding === 'unknown') {
    throw invalid('The answer is compressed in a way that the gateway cannot read.');
  }
  const { body } = raw;
  if (body !== null && isStreamSource(body)) {
    const codecs = translation.stream?.(contentType);
    if (codecs === undefined) throw invalid('The provider answered with a stream where none was asked for.');
    const source = coding === 'identity' ? body : decodedSource(body, coding);
    return {
      status: raw.status,
      headers: headersAs(raw.headers, codecs.writer.contentType),
      body: new TranslatedStream(source, codecs, exchange, clock),
      source: 'provider',
      dialect: exchange.dialect.name,
    };
  }
  const bytes = await plainBytes(body ?? Buffer.alloc(0), coding);
  noteAnswer(exchange, raw, bytes);
  if (raw.status < 200 || raw.status >= 300) {
    const { told } = translation.error(raw.status, bytes);
    const headers = headersAs(raw.headers, 'application/json');
    return { status: raw.status, headers, body: told, source: 'provider', isJson: true };
  }
  const whole = readWhole(exchange, translation, bytes, contentType);
  learnFacts(exchange, whole.facts);
  const isJson = whole.contentType === 'application/json';
  const headers = headersAs(raw.headers, whole.contentType);
  return { status: raw.status, headers, body: whole.body, source: 'provider', isJson, facts: whole.facts };
}

/** Translates a complete answer. The error for one that cannot be parsed names the provider. */
function readWhole(
  exchange: Exchange,
  translation: Translation,
  bytes: Buffer,
  contentType: string,
): TranslatedBody {
  try {
    return translation.whole(bytes, contentType);
  } catch (error) {
    if (!GatewayError.is(error) || error.code !== 'upstream_invalid') throw error;
    throw new GatewayError(error.code, error.message, {
      source: 'provider',
      extra: { provider: exchange.facts.provider },
      cause: error,
    });
  }
}

function invalid(message: string): GatewayError {
  return new GatewayError('upstream_invalid', message, { source: 'provider' });
}

async function plainBytes(body: Buffer, coding: 'identity' | 'gzip' | 'deflate' | 'br'): Promise<Buffer> {
  if (coding === 'identity') return body;
  try {
    return await decodeWhole(body, coding, maxDecodedBytes);
  } catch (cause) {
    throw new GatewayError('upstream_invalid', `The provider's answer is no valid ${coding} data.`, {
      cause,
      source: 'provider',
    });
  }
}

function headersAs(headers: HeaderList, contentType: string): string[] {
  const kept = ['content-type', contentType];
  for (let i = 0; i < headers.length; i += 2) {
    if (!ofTheBody.has((headers[i] as string).toLowerCase())) {
      kept.push(headers[i] as string, headers[i + 1] as string);
    }
  }
  return kept;
}

/** Size from which a body is translated on a thread; shorter ones block other requests only briefly. */
const threadBytes = 1_048_576;

/** An answer in the client's dialect, and its facts. */
interface TranslatedBody {
  readonly body: Buffer;
  readonly contentType: string;
  readonly facts: AnswerFacts;
}

/** Translation of one request to its target's dialect, and of the answer back. */
export interface Translation {
  readonly encoded: EncodedRequest;
  readonly report: EncodeReport;
  /** A stream is expected. */
  readonly streams: boolean;
  /** A complete answer. Throws GatewayError `upstream_invalid`. */
  whole(body: Buffer, contentType: string): TranslatedBody;
  /** An answer with an error status. */
  error(status: number, body: Buffer): { readonly told: Buffer; readonly error: ProviderError };
  /** Present when `streams`. */
  stream?(contentType: string): { readonly reader: ChatEventReader; readonly writer: ChatEventWriter };
}

/** A fresh id with 96 random bits. */
function newId(prefix: string): string {
  return prefix + randomBytes(12).toString('hex');
}

/** Inputs for the translation of an exchange, beside the codecs. */
interface TranslationSetup {
  readonly exchange: Exchange;
  readonly body: JsonObject;
  readonly host: HostFacts;
  readonly strict: boolean;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Translates chat through the canonical form. Throws the codecs' refusal. */
export function translateChat(setup: TranslationSetup, codec: ChatProviderCodec): Translation {
  return encodedChat(setup, codec, decodedChat(setup));
}

/** As `translateChat` for a large request: on a thread where there is one, else in steps between which others run. */
export async function translateLargeChat(
  setup: TranslationSetup,
  codec: ChatProviderCodec,
  large: { readonly chat: LargeChat; readonly translation: LargeTranslation | undefined },
): Promise<Translation> {
  if (large.translation !== undefined && large.chat.body.length >= threadBytes) {
    try {
      const { encoded, request, dropped, emulated } = await large.translation.encode(large.chat);
      const report = new EncodeReport();
      report.dropped.push(...dropped);
      report.emulated.push(...emulated);
      return chatTranslation(setup, codec, { request, encoded, report });
    } catch (error) {
      // Without a thread, translate here.
      if (GatewayError.is(error)) throw error;
    }
  }
  await ownTurn();
  const decoded = decodedChat(setup);
  await ownTurn();
  return encodedChat(setup, codec, decoded);
}

function decodedChat({ exchange, body, host }: TranslationSetup): ChatRequest {
  return clientCodec(exchange).decodeRequest({
    body,
    model: host.model,
    stream: exchange.facts.stream,
    query: exchange.query,
    header: (name) => exchange.header(name),
  });
}

function encodedChat(setup: TranslationSetup, codec: ChatProviderCodec, decoded: ChatRequest): Translation {
  const report = new EncodeReport();
  const encoded = codec.encodeRequest(decoded, setup.host, report);
  return chatTranslation(setup, codec, { request: decoded, encoded, report });
}

function chatTranslation(
  setup: TranslationSetup,
  codec: ChatProviderCodec,
  {
    request,
    encoded,
    report,
  }: Pick<Translation, 'encoded' | 'report'> & { readonly request: AnsweredRequest },
): Translation {
  const { exchange, host } = setup;
  const client = clientCodec(exchange);
  const context: AnswerContext & DecodeContext = {
    request,
    query: exchange.query,
    strict: setup.strict,
    provider: host.provider,
    requestId: exchange.id,
    now: Math.floor(setup.now / 1000),
    newId,
    kept: exchange.get(keptAnswer),
  };
  const readStream = (bytes: Buffer, contentType: string): ChatAnswer => {
    const reader = codec.eventReader(contentType, context);
    const events = [...reader.push(bytes), ...reader.finish()];
    const failed = events.find((event) => event.type === 'error');
    if (failed !== undefined) throw reportedError(failed.error);
    return collectAnswer(events);
  };
  return {
    encoded,
    report,
    streams: request.stream,
    whole(bytes, contentType) {
      const isStream = /^(?:text\/event-stream|application\/vnd\.amazon\.eventstream)/i.test(contentType);
      const answer = isStream ? readStream(bytes, contentType) : codec.decodeAnswer(bytes, context);
      const facts = factsOf(answer);
      if (!request.stream) {
        return { body: client.encodeAnswer(answer, context), contentType: 'application/json', facts };
      }
      const writer = client.eventWriter(context);
      const frames = writer.write(answerEvents(answer)) ?? Buffer.alloc(0);
      return { body: frames, contentType: writer.contentType, facts };
    },
    error: (status, bytes) => errorOf(codec, client, setup, status, bytes),
    stream: (contentType) => ({
      reader: codec.eventReader(contentType, context),
      writer: client.eventWriter(context),
    }),
  };
}

/** Translates an operation other than chat to the host's own format. Throws the codec's refusal. */
export function translateOperation(setup: TranslationSetup, codec: OperationCodec): Translation {
  const { body, host } = setup;
  const client = clientCodec(setup.exchange);
  const report = new EncodeReport();
  return {
    encoded: codec.encodeRequest(body, host, report),
    report,
    streams: false,
    whole(bytes, type) {
      const answer = codec.decodeAnswer(bytes, type, body);
      const facts: AnswerFacts = {};
      if (answer.usage !== undefined) facts.usage = answer.usage;
      if (answer.model !== undefined) facts.model = answer.model;
      return {
        body: Buffer.isBuffer(answer.body) ? answer.body : documentOf(answer.body, setup),
        contentType: answer.contentType ?? 'application/json',
        facts,
      };
    },
    error: (status, bytes) => errorOf(codec, client, setup, status, bytes),
  };
}

/** Adds the creation time to a list of images, because codecs have no clock. */
function documentOf(body: JsonObject, { exchange, now }: TranslationSetup): Buffer {
  const isUndated = exchange.endpoint.id === 'images.generations' && body['created'] === undefined;
  const dated = isUndated ? { created: Math.floor(now / 1000), ...body } : body;
  return Buffer.from(JSON.stringify(dated), 'utf8');
}

/** A provider's error as a `GatewayError`. */
function reportedError(error: ProviderError): GatewayError {
  return new GatewayError('provider_error', error.message, {
    param: error.param ?? null,
    reported: { status: error.status, type: error.type, code: error.code },
  });
}

function errorOf(
  codec: Pick<ChatProviderCodec, 'decodeError'>,
  client: ChatClientCodec,
  { exchange, host }: TranslationSetup,
  status: number,
  bytes: Buffer,
): ReturnType<Translation['error']> {
  const error = codec.decodeError(status, bytes);
  const told = client.encodeProviderError(error, { provider: host.provider, requestId: exchange.id });
  return { told, error };
}

function clientCodec({ dialect }: Exchange): ChatClientCodec {
  if (dialect.chat === undefined) {
    throw new GatewayError(
      'not_supported',
      `Requests in the dialect "${dialect.name}" cannot be translated. Name a provider that speaks it.`,
      { param: 'provider' },
    );
  }
  return dialect.chat;
}

function factsOf(answer: ChatAnswer): AnswerFacts {
  const facts: AnswerFacts = {};
  if (answer.usage !== undefined) facts.usage = answer.usage;
  if (answer.model !== '') facts.model = answer.model;
  const reasons = answer.choices.map(({ finish }) => finish.raw).filter((raw) => raw !== '');
  if (reasons.length > 0) facts.finishReason = reasons.join(',');
  return facts;
}
