import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import { passOn, refused, translated } from '../chat-plan.ts';
import { openAiCompletionsProvider } from './codec.ts';

/** Hosts that complete text and have no chat: their own requests travel as they are, conversations become prompts. */
export const openAiCompletionsHost: ProviderDialect = {
  name: 'openai-completions',
  plan(call) {
    if (call.endpoint === 'messages.count_tokens') return refused(call, 'counting of tokens');
    if (call.endpoint !== 'completions') return translated(call, openAiCompletionsProvider) ?? passOn(call);
    const path = call.host.quirks.paths?.completions;
    return path === undefined ? passOn(call) : { kind: 'pass', path: path + call.query };
  },
};
