import type { Conversation, ConversationText } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { collectTexts } from '../collect-texts.ts';
import { asArray, asObject } from '../json-reading.ts';

/** The texts of a Messages request: system, messages, and what tools answered, with their paths. */
export function decodeConversation(_endpoint: EndpointId, body: unknown): Conversation {
  const request = asObject(body);
  const texts: ConversationText[] = [];
  if (request === undefined) return { texts };
  collectTexts(texts, 'system', request.system, ['system']);
  asArray(request.messages).forEach((value, i) => {
    const message = asObject(value);
    if (message === undefined) return;
    const role = typeof message.role === 'string' ? message.role : '';
    collectTexts(texts, role, message.content, ['messages', i, 'content']);
    asArray(message.content).forEach((value, j) => {
      const part = asObject(value);
      if (part === undefined) return;
      const path = ['messages', i, 'content', j];
      // Tool results and documents hold content of their own.
      collectTexts(texts, part.type === 'tool_result' ? 'tool' : role, part.content, [...path, 'content']);
      const source = asObject(part.source);
      if (source?.type === 'text') collectTexts(texts, role, source.data, [...path, 'source', 'data']);
    });
  });
  return { texts };
}
