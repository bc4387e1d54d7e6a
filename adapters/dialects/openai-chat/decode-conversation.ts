import type { Conversation, ConversationText } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { asArray, asObject, type JsonObject } from '../json-reading.ts';
import { collectTexts } from '../collect-texts.ts';

/** The texts of a request of the OpenAI family, with the path of each in the body. */
export function decodeConversation(endpoint: EndpointId, body: unknown): Conversation {
  const request = asObject(body);
  const texts: ConversationText[] = [];
  if (request !== undefined) collect(endpoint, request, texts);
  return { texts };
}

function collect(endpoint: EndpointId, request: JsonObject, texts: ConversationText[]): void {
  switch (endpoint) {
    case 'chat.completions':
      collectMessages(texts, request.messages, 'messages');
      return;
    case 'completions':
      collectTexts(texts, 'user', request.prompt, ['prompt']);
      return;
    case 'embeddings':
    case 'moderations':
      collectTexts(texts, 'user', request.input, ['input']);
      return;
    case 'rerank':
      collectTexts(texts, 'user', request.query, ['query']);
      collectTexts(texts, 'document', request.documents, ['documents']);
      return;
    default:
      // A path that is not known may still be one of these under another name (/deployments/x/chat/completions).
      collectMessages(texts, request.messages, 'messages');
      collectTexts(texts, 'user', request.prompt, ['prompt']);
      collectTexts(texts, 'user', request.input, ['input']);
      collectMessages(texts, request.input, 'input');
  }
}

function collectMessages(texts: ConversationText[], messages: unknown, member: string): void {
  asArray(messages).forEach((value, i) => {
    const message = asObject(value);
    const role = typeof message?.role === 'string' ? message.role : '';
    collectTexts(texts, role, message?.content, [member, i, 'content']);
    // What a client sends back of an answer stands here instead of the content, where it is translated.
    collectTexts(texts, role, message?.content_blocks, [member, i, 'content_blocks']);
  });
}
