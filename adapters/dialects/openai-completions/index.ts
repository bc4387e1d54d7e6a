import type { Dialect, ProviderDialect } from '../../../core/dialects/dialect.ts';
import { openAiChat } from '../openai-chat/index.ts';
import type {
  ChatClientCodec,
  ChatEventReader,
  ChatProviderCodec,
  DecodeContext,
} from '../../../core/dialects/canonical/chat-codec.ts';
import { ChatEventBuilder } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { JsonObject } from '../json-reading.ts';
import { ChunkDecoder, DoneStreamReader } from '../openai-chat/decode-answer.ts';
import { decodeOpenAiError, encodeOpenAiProviderError } from '../openai-shapes.ts';
import { asChat, CompletionsEventWriter, decodeAnswer, encodeAnswer } from './answer.ts';
import { decodeRequest, encodeRequest } from './request.ts';
import { passOn, refused, translated } from '../host-endpoints.ts';

/** Hosts that complete text and have no chat: their own requests travel as they are, conversations become prompts. */
export const openAiCompletionsHost: ProviderDialect = {
  name: 'openai-completions',
  plan(call) {
    if (call.endpoint === 'messages.count_tokens') return refused(call, 'counting of tokens');
    if (call.endpoint !== 'completions') return translated(call, openAiCompletionsProvider) ?? passOn(call);
    const path = call.host.quirks.paths?.completions;
    return path === undefined ? passOn(call) : { kind: 'pass', path: path + call.query };
  },
};

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

/** The OpenAI text completions wire. Its streams and errors are those of chat, with text in place of deltas. */
export const openAiCompletions: Dialect = {
  ...openAiChat,
  name: 'openai-completions',
  chat: openAiCompletionsClient,
};
