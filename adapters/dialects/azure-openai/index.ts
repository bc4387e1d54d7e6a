import { openAiChatProvider } from '../openai-chat/provider.ts';
import { createAzureOpenAiHost } from './host.ts';

/** Azure's OpenAI service. */
export const azureOpenAiHost = createAzureOpenAiHost(openAiChatProvider);
