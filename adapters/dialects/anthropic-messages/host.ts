import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { passOn, refused, translated } from '../chat-plan.ts';
import { dialectName } from './own-dialect.ts';
import { anthropicProvider } from './provider.ts';

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
