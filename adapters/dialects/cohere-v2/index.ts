import type { ChatProviderCodec } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import type { UpstreamCallFacts, UpstreamPlan } from '../../../core/dialects/upstream-plan.ts';
import { passOn, refused, translated } from '../host-endpoints.ts';
import { decodeCohereAnswer } from './answer.ts';
import { decodeCohereError } from './errors.ts';
import { cohereEmbeddings, cohereRerank } from './operations.ts';
import { encodeCohereRequest } from './encode-request.ts';
import { CohereEventReader } from './event-reader.ts';

/** Cohere's chat, second version, as the gateway speaks it. */
export const cohereV2Provider: ChatProviderCodec = {
  encodeRequest: encodeCohereRequest,
  decodeAnswer: decodeCohereAnswer,
  eventReader: (contentType, context) => new CohereEventReader(contentType, context),
  decodeError: decodeCohereError,
};

/** Operations that Cohere has in no shape. */
const missing: { readonly [endpoint in EndpointId]?: string } = {
  moderations: 'moderation',
  'images.generations': 'image generation',
  images: 'image operations',
  'audio.speech': 'speech',
  'messages.count_tokens': 'token counting in this shape',
};

/** Hosts that speak Cohere's second version. Their base URL is the host alone: paths carry their version. */
export const cohereV2Host: ProviderDialect = {
  name: 'cohere-v2',
  plan(call: UpstreamCallFacts): UpstreamPlan {
    switch (call.endpoint) {
      case 'embeddings':
        return { kind: 'operation', codec: cohereEmbeddings };
      case 'rerank':
        return call.path === '/v2/rerank' ? passOn(call) : { kind: 'operation', codec: cohereRerank };
      case 'models':
        return passOn(/^\/v\d/.test(call.path) ? call : { ...call, path: `/v1${call.path}` });
      default: {
        const operation = missing[call.endpoint];
        if (operation !== undefined) return refused(call, operation);
        return translated(call, cohereV2Provider) ?? passOn(call);
      }
    }
  },
};
