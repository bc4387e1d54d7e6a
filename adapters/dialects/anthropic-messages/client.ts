import type { ChatClientCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import { decodeRequest } from './decode-request.ts';
import { encodeAnswer } from './encode-answer.ts';
import { providerErrorJson } from './encode-error.ts';
import { MessageEventWriter } from './event-writer.ts';

/** The Messages wire as callers speak it. */
export const anthropicClient: ChatClientCodec = {
  decodeRequest,
  encodeAnswer,
  eventWriter: (context) => new MessageEventWriter(context),
  encodeProviderError: (error, context) => Buffer.from(providerErrorJson(error, context)),
};
