import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import { anthropicClient } from '../anthropic-messages/index.ts';
import { countTokensOperation, passOn, translated } from '../host-endpoints.ts';
import { encodeRequest, responsesTokenCounting } from './encode-request.ts';
import type { ChatProviderCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import { decodeOpenAiError } from '../openai-shapes.ts';
import { decodeAnswer } from './answer.ts';
import { createEventReader } from './event-reader.ts';

/** The provider's side of the Responses API. */
export const openAiResponsesProvider: ChatProviderCodec = {
  encodeRequest,
  decodeAnswer,
  eventReader: createEventReader,
  decodeError: decodeOpenAiError,
};

const tokenCount = countTokensOperation(anthropicClient, responsesTokenCounting);

/** A host whose chat is the Responses API; everything else of OpenAI's it has as OpenAI has it. */
export const openAiResponsesHost: ProviderDialect = {
  name: 'openai-responses',
  plan(call) {
    if (call.endpoint === 'messages.count_tokens') return { kind: 'operation', codec: tokenCount };
    if (call.endpoint === 'responses') return passOn(call);
    return translated(call, openAiResponsesProvider) ?? passOn(call);
  },
};
