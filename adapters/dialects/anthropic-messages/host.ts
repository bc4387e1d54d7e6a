import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { passOn, refused, translated } from '../host-endpoints.ts';
import { dialectName } from './content-blocks.ts';
import type { ChatProviderCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import { decodeAnswer } from './answer.ts';
import { decodeError } from './errors.ts';
import { type AnthropicHostForm, encodeRequest } from './encode-request.ts';
import { MessageEventReader } from './event-reader.ts';

/** The Messages wire as hosts speak it, at the address and with the body that `form` tells. */
export function createAnthropicProvider(form: AnthropicHostForm): ChatProviderCodec {
  return {
    encodeRequest: (request, host, report) => encodeRequest(request, host, report, form),
    decodeAnswer,
    eventReader: (contentType, context) => new MessageEventReader(contentType, context),
    decodeError,
  };
}

/** The Messages wire as Anthropic speaks it, below a base URL that ends in the version. */
export const anthropicProvider: ChatProviderCodec = createAnthropicProvider({ path: '/messages' });

/** What Anthropic has no operation for. */
const missing: Partial<Record<EndpointId, string>> = {
  embeddings: 'embeddings',
  rerank: 'reranking',
  'images.generations': 'image generation',
  images: 'image operations',
  'audio.speech': 'speech',
  audio: 'audio operations',
  moderations: 'moderation',
};

/** Hosts of the Messages wire: their own wire passes, other chat is translated, and what they lack is refused. */
export const anthropicHost: ProviderDialect = {
  name: dialectName,
  plan(call) {
    if (call.spoken === dialectName) return passOn(call);
    const operation = missing[call.endpoint];
    if (operation !== undefined) return refused(call, operation);
    return translated(call, anthropicProvider) ?? passOn(call);
  },
};
