import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import { passOn, refused, translated } from '../chat-plan.ts';
import { openAiResponsesProvider } from './provider.ts';

/** A host whose chat is the Responses API; everything else of OpenAI's it has as OpenAI has it. */
export const openAiResponsesHost: ProviderDialect = {
  name: 'openai-responses',
  plan(call) {
    if (call.endpoint === 'messages.count_tokens') return refused(call, 'token counting in this form');
    if (call.endpoint === 'responses') return passOn(call);
    return translated(call, openAiResponsesProvider) ?? passOn(call);
  },
};
