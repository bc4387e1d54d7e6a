import type { Conversation, ConversationText } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { collectTexts } from '../collect-texts.ts';
import { asArray, asObject, type JsonObject } from '../json-reading.ts';

/** The texts of a generateContent request: system instruction, contents, and what tools answered, with their paths. */
export function decodeConversation(_endpoint: EndpointId, body: unknown): Conversation {
  const request = asObject(body);
  const texts: ConversationText[] = [];
  if (request === undefined) return { texts };
  for (const name of ['systemInstruction', 'system_instruction']) {
    const instruction = request[name];
    // A bare string is taken, too.
    collectTexts(texts, 'system', instruction, [name]);
    const content = asObject(instruction);
    if (content !== undefined) collectParts(texts, 'system', content, [name]);
  }
  asArray(request.contents).forEach((value, i) => {
    const content = asObject(value);
    if (content !== undefined) collectParts(texts, roleOf(content), content, ['contents', i]);
  });
  return { texts };
}

function collectParts(
  texts: ConversationText[],
  role: string,
  content: JsonObject,
  path: readonly (string | number)[],
): void {
  // One part may stand without an array.
  const parts = asObject(content.parts);
  if (parts !== undefined) collectTexts(texts, role, parts.text, [...path, 'parts', 'text']);
  collectTexts(texts, role, content.parts, [...path, 'parts']);
  asArray(content.parts).forEach((value, i) => {
    const part = asObject(value);
    for (const name of ['functionResponse', 'function_response']) {
      const answer = asObject(asObject(part?.[name])?.response);
      if (answer !== undefined)
        collectStrings(texts, answer, [...path, 'parts', i, name, 'response'], maxDepth);
    }
  });
}

/** Tools answer with objects of any depth; deeper than this nothing is looked at. */
const maxDepth = 16;

function collectStrings(
  texts: ConversationText[],
  value: unknown,
  path: readonly (string | number)[],
  depth: number,
): void {
  if (typeof value === 'string') texts.push({ role: 'tool', text: value, path });
  else if (depth > 0 && typeof value === 'object' && value !== null) {
    for (const [name, inner] of Object.entries(value)) {
      const step = Array.isArray(value) ? Number(name) : name;
      collectStrings(texts, inner, [...path, step], depth - 1);
    }
  }
}

function roleOf({ role }: JsonObject): string {
  if (role === 'model') return 'assistant';
  if (role === 'function') return 'tool';
  return typeof role === 'string' && role !== '' ? role : 'user';
}
