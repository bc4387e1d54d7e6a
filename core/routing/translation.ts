import { randomBytes } from 'node:crypto';
import type {
  AnswerContext,
  AnsweredRequest,
  ChatClientCodec,
  ChatEventReader,
  ChatEventWriter,
  ChatProviderCodec,
  DecodeContext,
  EncodedRequest,
} from '../dialects/canonical/chat-codec.ts';
import { answerEvents } from '../dialects/canonical/answer-events.ts';
import type { ChatAnswer } from '../dialects/canonical/chat-answer.ts';
import { collectAnswer } from '../dialects/canonical/collect-answer.ts';
import type { JsonObject } from '../dialects/canonical/chat-part.ts';
import type { ChatRequest } from '../dialects/canonical/chat-request.ts';
import { EncodeReport } from '../dialects/canonical/encode-report.ts';
import type { ProviderError } from '../dialects/canonical/provider-error.ts';
import type { AnswerFacts } from '../dialects/dialect.ts';
import type { HostFacts } from '../dialects/host-facts.ts';
import type { OperationCodec } from '../dialects/upstream-plan.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { keptAnswer } from '../pipeline/keys.ts';
import { ownTurn } from '../base/in-turns.ts';
import type { LargeChat, LargeTranslation } from '../ports/large-translation.ts';

/** Translating a shorter body takes fewer milliseconds than others may wait for. */
const threadBytes = 1_048_576;

/** An answer in the client's wire, and what it tells. */
export interface TranslatedBody {
  readonly body: Buffer;
  readonly contentType: string;
  readonly facts: AnswerFacts;
}

/** One request that goes to its target in another wire than it came in, and the way back. */
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

/** The JSON object of the request, which translation needs. Throws `invalid_json`. */
export function bodyObject(json: unknown): JsonObject {
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) return json as JsonObject;
  throw new GatewayError('invalid_json', 'The request body is no JSON object. Send one.');
}

/** What the translation of an exchange needs beside the codecs. */
export interface TranslationSetup {
  readonly exchange: Exchange;
  readonly body: JsonObject;
  readonly host: HostFacts;
  readonly strict: boolean;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Chat through the canonical form. Throws what the codecs refuse. */
export function translateChat(setup: TranslationSetup, codec: ChatProviderCodec): Translation {
  return encodedChat(setup, codec, decodedChat(setup));
}

/** The same for a large request, in a thread of its own where there is one; else others have a turn in between. */
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
      // Without a thread it takes longer, and is done all the same.
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

/** An operation beyond chat, in the host's own shape. Throws what the codec refuses. */
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

/** A list of images tells when it was made; codecs have no clock. */
function documentOf(body: JsonObject, { exchange, now }: TranslationSetup): Buffer {
  const isUndated = exchange.endpoint.id === 'images.generations' && body['created'] === undefined;
  const dated = isUndated ? { created: Math.floor(now / 1000), ...body } : body;
  return Buffer.from(JSON.stringify(dated), 'utf8');
}

/** What a provider reported, as an error that can be thrown. */
export function reportedError(error: ProviderError): GatewayError {
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
