import type {
  ChatClientCodec,
  ChatEventReader,
  ChatProviderCodec,
  DecodeContext,
} from '../../../core/dialects/canonical/chat-codec.ts';
import { ChatEventBuilder } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { JsonObject } from '../json-reading.ts';
import { ChunkDecoder } from '../openai-chat/chunk-decoder.ts';
import { DoneStreamReader } from '../openai-chat/event-reader.ts';
import { decodeOpenAiError, encodeOpenAiProviderError } from '../openai-error.ts';
import { asChat, decodeAnswer } from './decode-answer.ts';
import { decodeRequest } from './decode-request.ts';
import { encodeAnswer } from './encode-answer.ts';
import { encodeRequest } from './encode-request.ts';
import { CompletionsEventWriter } from './event-writer.ts';

/** Text completions as callers speak them to the gateway. */
export const openAiCompletionsClient: ChatClientCodec = {
  decodeRequest,
  encodeAnswer,
  eventWriter: (context) => new CompletionsEventWriter(context),
  encodeProviderError: (error, { provider }) => Buffer.from(encodeOpenAiProviderError(error, provider)),
};

/** Text completions as the gateway speaks them to hosts that have no chat. */
export const openAiCompletionsProvider: ChatProviderCodec = {
  encodeRequest,
  decodeAnswer,
  eventReader: createEventReader,
  decodeError: decodeOpenAiError,
};

function createEventReader(contentType: string, context: DecodeContext): ChatEventReader {
  const builder = new ChatEventBuilder();
  return new DoneStreamReader(contentType, builder, new CompletionsDecoder(builder, context));
}

/** Reads the chunks of a stream of text. */
class CompletionsDecoder extends ChunkDecoder {
  override read(json: JsonObject): void {
    super.read(asChat(json));
  }
}
