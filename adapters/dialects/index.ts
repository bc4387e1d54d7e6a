import type { Dialect, ProviderDialect } from '../../core/dialects/dialect.ts';
import type { DialectName } from '../../core/dialects/endpoint.ts';
import { anthropicClient, anthropicMessages } from './anthropic-messages/index.ts';
import { googleGemini } from './google-gemini/index.ts';
import { openAiChat } from './openai-chat/index.ts';
import { openAiCompletions, openAiCompletionsHost } from './openai-completions/index.ts';
import { openAiResponses } from './openai-responses/index.ts';
import { anthropicHost } from './anthropic-messages/host.ts';
import { azureOpenAiHost } from './azure-openai/index.ts';
import { createBedrockConverseHost } from './bedrock-converse/index.ts';
import { cohereV2Host } from './cohere-v2/index.ts';
import { googleGeminiHost } from './google-gemini/host.ts';
import { googleVertexHost } from './google-vertex/host.ts';
import { openAiChatHost } from './openai-chat/host.ts';
import { openAiResponsesHost } from './openai-responses/host.ts';
import { workersAiHost } from './workers-ai/host.ts';

/** Every wire format on the provider side, by name. */
export const providerDialects: ReadonlyMap<DialectName, ProviderDialect> = new Map(
  [
    openAiChatHost,
    openAiCompletionsHost,
    openAiResponsesHost,
    azureOpenAiHost,
    anthropicHost,
    googleGeminiHost,
    googleVertexHost,
    createBedrockConverseHost({ anthropicClient }),
    cohereV2Host,
    workersAiHost,
  ].map((dialect) => [dialect.name, dialect]),
);

/** Every wire format on the client side, by name. */
export const dialects: ReadonlyMap<DialectName, Dialect> = new Map(
  [openAiChat, openAiCompletions, openAiResponses, anthropicMessages, googleGemini].map((dialect) => [
    dialect.name,
    dialect,
  ]),
);
