import type { ChatProviderCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import { decodeOpenAiError } from '../openai-error.ts';
import { decodeAnswer } from './decode-answer.ts';
import { encodeRequest } from './encode-request.ts';
import { createEventReader } from './event-reader.ts';

/** Chat completions as the gateway speaks them to hosts. */
export const openAiChatProvider: ChatProviderCodec = {
  encodeRequest,
  decodeAnswer,
  eventReader: createEventReader,
  decodeError: decodeOpenAiError,
};
