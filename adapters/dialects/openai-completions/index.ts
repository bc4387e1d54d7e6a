import type { Dialect } from '../../../core/dialects/dialect.ts';
import { openAiChat } from '../openai-chat/index.ts';
import { openAiCompletionsClient } from './codec.ts';

/** The OpenAI text completions wire. Its streams and errors are those of chat, with text in place of deltas. */
export const openAiCompletions: Dialect = {
  ...openAiChat,
  name: 'openai-completions',
  chat: openAiCompletionsClient,
};
