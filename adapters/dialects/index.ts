import type { Dialect } from '../../core/dialects/dialect.ts';
import type { DialectName } from '../../core/dialects/endpoint.ts';
import { anthropicMessages } from './anthropic-messages/index.ts';
import { openAiChat } from './openai-chat/index.ts';
import { openAiResponses } from './openai-responses/index.ts';

/** Every wire format that the gateway speaks, by name. */
export const dialects: ReadonlyMap<DialectName, Dialect> = new Map(
  [openAiChat, openAiResponses, anthropicMessages].map((dialect) => [dialect.name, dialect]),
);
