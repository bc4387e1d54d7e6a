import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import { anthropicClient } from '../anthropic-messages/client.ts';
import { passOn, translated } from '../chat-plan.ts';
import { countTokensOperation } from '../count-tokens.ts';
import { responsesTokenCounting } from './count-tokens.ts';
import { openAiResponsesProvider } from './provider.ts';

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
