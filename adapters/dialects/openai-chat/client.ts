import type { ChatClientCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import { encodeOpenAiProviderError } from '../openai-error.ts';
import { decodeRequest } from './decode-request.ts';
import { encodeAnswer } from './encode-answer.ts';
import { OpenAiChatEventWriter } from './event-writer.ts';

/** Chat completions as callers speak them to the gateway. */
export const openAiChatClient: ChatClientCodec = {
  decodeRequest,
  encodeAnswer,
  eventWriter: (context) => new OpenAiChatEventWriter(context),
  encodeProviderError: (error, { provider }) => Buffer.from(encodeOpenAiProviderError(error, provider)),
};
