import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type {
  ChatEventReader,
  ChatProviderCodec,
  DecodeContext,
} from '../../../core/dialects/canonical/chat-codec.ts';
import { ChatEventBuilder } from '../../../core/dialects/canonical/chat-event-builder.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { parseExactObject } from '../exact-json.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { ChunkDecoder } from '../openai-chat/chunk-decoder.ts';
import { decodeAnswerObject } from '../openai-chat/decode-answer.ts';
import { DoneStreamReader } from '../openai-chat/event-reader.ts';
import { decodeOpenAiError } from '../openai-error.ts';
import { asChat } from './as-chat.ts';
import { encodeRequest } from './encode-request.ts';

/** Cloudflare's Workers AI as the gateway speaks it. */
export const workersAiProvider: ChatProviderCodec = {
  encodeRequest,
  decodeAnswer,
  eventReader: createEventReader,
  decodeError: decodeOpenAiError,
};

function decodeAnswer(body: Buffer, context: DecodeContext): ChatAnswer {
  const chat = asChat(parseResult(body, 'no result of a model'));
  if (!Array.isArray(chat.choices)) throw noAnswer('a result without "response"');
  const answer = decodeAnswerObject(chat, context);
  // The wire tells no finish reason: what came whole is over.
  return { ...answer, choices: answer.choices.map((choice) => ended(choice)) };
}

function ended(choice: ChatAnswer['choices'][number]): ChatAnswer['choices'][number] {
  if (choice.finish.raw !== '') return choice;
  const hasCalls = choice.parts.some(({ type }) => type === 'tool-call');
  return { ...choice, finish: { ...choice.finish, reason: hasCalls ? 'tool-calls' : 'stop' } };
}

/** The envelope of an answer. Throws `upstream_invalid` for what is none, and for a failure that came with a good status. */
export function parseResult(body: Buffer, what: string): JsonObject {
  const json = parseExactObject(body.toString('utf8'));
  if (json === undefined) throw noAnswer(what);
  if (json.success !== false) return json;
  const message = asText(asObject(asArray(json.errors)[0])?.message) ?? 'unknown error';
  throw new GatewayError('upstream_invalid', `The provider reported an error inside its answer: ${message}`, {
    source: 'provider',
  });
}

function noAnswer(what: string): GatewayError {
  return new GatewayError(
    'upstream_invalid',
    `The provider answered with ${what} (Workers AI was expected).`,
    {
      source: 'provider',
    },
  );
}

function createEventReader(contentType: string, context: DecodeContext): ChatEventReader {
  const builder = new ChatEventBuilder();
  return new DoneStreamReader(contentType, builder, new WorkersAiDecoder(builder, context));
}

class WorkersAiDecoder extends ChunkDecoder {
  private saidSomething = false;

  override read(json: JsonObject): void {
    const chat = asChat(json);
    this.saidSomething ||= Array.isArray(chat.choices);
    super.read(chat);
  }

  /** The marker is all that tells the end; newer models tell a finish reason, which then stands. */
  marked(): void {
    if (this.saidSomething && !this.hasFinished) {
      super.read({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
    }
  }
}
