import type { Conversation, ConversationText } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { collectTexts } from '../collect-texts.ts';
import { asArray, asObject } from '../json-reading.ts';

/** The texts of a Responses request: instructions, input, and what tools answered, with their paths. */
export function decodeConversation(_endpoint: EndpointId, body: unknown): Conversation {
  const request = asObject(body);
  const texts: ConversationText[] = [];
  if (request === undefined) return { texts };
  collectTexts(texts, 'system', request.instructions, ['instructions']);
  if (typeof request.input === 'string') collectTexts(texts, 'user', request.input, ['input']);
  asArray(request.input).forEach((value, i) => {
    const item = asObject(value);
    if (item === undefined) return;
    const role = typeof item.role === 'string' ? item.role : 'user';
    collectTexts(texts, role, item.content, ['input', i, 'content']);
    collectTexts(texts, 'tool', item.output, ['input', i, 'output']);
  });
  return { texts };
}
