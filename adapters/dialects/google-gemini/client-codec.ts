import type { ChatClientCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import { decodeGeminiRequest } from './decode-request.ts';
import { encodeGeminiAnswer } from './encode-answer.ts';
import { providerErrorJson } from './error-shape.ts';
import { GeminiEventWriter } from './event-writer.ts';

/** What callers of `generateContent` and `streamGenerateContent` speak. */
export const geminiClient: ChatClientCodec = {
  decodeRequest: decodeGeminiRequest,
  encodeAnswer: encodeGeminiAnswer,
  eventWriter: (context) => new GeminiEventWriter(context),
  encodeProviderError: (error, context) => Buffer.from(providerErrorJson(error, context)),
};
