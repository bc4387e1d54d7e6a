import type { ProviderDialect } from '../../core/dialects/dialect.ts';
import type { DialectName } from '../../core/dialects/endpoint.ts';
import { anthropicClient } from './anthropic-messages/client.ts';
import { anthropicHost } from './anthropic-messages/host.ts';
import { azureOpenAiHost } from './azure-openai/index.ts';
import { createBedrockConverseHost } from './bedrock-converse/index.ts';
import { cohereV2Host } from './cohere-v2/index.ts';
import { googleGeminiHost } from './google-gemini/host.ts';
import { googleVertexHost } from './google-vertex/host.ts';
import { openAiChatHost } from './openai-chat/host.ts';
import { openAiCompletionsHost } from './openai-completions/host.ts';
import { openAiResponsesHost } from './openai-responses/host.ts';
import { workersAiHost } from './workers-ai/host.ts';

/** Every wire format as hosts speak it, by name. */
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
