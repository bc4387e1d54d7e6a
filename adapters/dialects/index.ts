import type { Dialect } from '../../core/dialects/dialect.ts';
import type { DialectName } from '../../core/dialects/endpoint.ts';
import { anthropicMessages } from './anthropic-messages/index.ts';
import { googleGemini } from './google-gemini/index.ts';
import { openAiChat } from './openai-chat/index.ts';
import { openAiCompletions } from './openai-completions/index.ts';
import { openAiResponses } from './openai-responses/index.ts';

export { providerDialects } from './provider-dialects.ts';

/** Every wire format that clients speak to the gateway, by name. */
export const dialects: ReadonlyMap<DialectName, Dialect> = new Map(
  [openAiChat, openAiCompletions, openAiResponses, anthropicMessages, googleGemini].map((dialect) => [
    dialect.name,
    dialect,
  ]),
);
