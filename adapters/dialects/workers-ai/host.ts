import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import { passOn, refused, translated } from '../chat-plan.ts';
import { workersAiEmbeddings } from './embeddings.ts';
import { workersAiProvider } from './provider.ts';

/** Cloudflare's Workers AI: the base URL ends in `/accounts/{id}/ai`. */
export const workersAiHost: ProviderDialect = {
  name: 'workers-ai',
  plan(call) {
    switch (call.endpoint) {
      case 'embeddings':
        return { kind: 'operation', codec: workersAiEmbeddings };
      case 'messages.count_tokens':
        return refused(call, 'counting of tokens');
      case 'moderations':
        return refused(call, 'moderation');
      case 'rerank':
        return refused(call, 'reranking in this shape');
      default:
        return translated(call, workersAiProvider) ?? passOn(call);
    }
  },
};
