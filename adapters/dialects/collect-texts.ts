import type { ConversationText } from '../../core/dialects/dialect.ts';
import { asObject } from './json-reading.ts';

/**
 * Adds every text of a content value: a string, an array of strings, or parts of any type that hold a `text` (or
 * `refusal`) string. Parts without text (images, token numbers) are left out.
 */
export function collectTexts(
  texts: ConversationText[],
  role: string,
  content: unknown,
  path: readonly (string | number)[],
): void {
  if (typeof content === 'string') {
    texts.push({ role, text: content, path });
    return;
  }
  if (!Array.isArray(content)) return;
  content.forEach((part: unknown, i) => {
    if (typeof part === 'string') {
      texts.push({ role, text: part, path: [...path, i] });
      return;
    }
    const members = asObject(part);
    if (members === undefined) return;
    for (const member of ['text', 'refusal']) {
      const text = members[member];
      if (typeof text === 'string') texts.push({ role, text, path: [...path, i, member] });
    }
  });
}
