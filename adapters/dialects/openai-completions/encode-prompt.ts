import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatMessage } from '../../../core/dialects/canonical/chat-request.ts';
import { reportForeignExtras, type EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';

const labels: Readonly<Record<ChatMessage['role'], string>> = {
  system: 'System',
  developer: 'System',
  user: 'User',
  assistant: 'Assistant',
  tool: 'Tool',
};

/**
 * A conversation as one prompt: a single text of a user is the prompt itself, anything longer is told as labelled turns
 * (reported as emulated) that end where the assistant is to speak. What is no text is reported as dropped.
 */
export function encodePrompt(messages: readonly ChatMessage[], report: EncodeReport): string {
  const texts = messages.map((message, i) => textOf(message.parts, `messages[${i}]`, report));
  messages.forEach(({ extras, name }, i) => {
    reportForeignExtras(extras, ['openai-completions'], report, `messages[${i}].`);
    if (name !== undefined) report.drop(`messages[${i}].name`);
  });
  if (messages.length === 1 && messages[0]?.role === 'user') return texts[0] as string;
  report.emulate('messages');
  const turns = messages.map(({ role }, i) => `${labels[role]}: ${texts[i] as string}`);
  return [...turns, 'Assistant:'].join('\n\n');
}

function textOf(parts: readonly ChatPart[], place: string, report: EncodeReport): string {
  const texts: string[] = [];
  parts.forEach((part, i) => {
    const where = `${place}.content[${i}]`;
    if (part.type === 'text' || part.type === 'refusal') texts.push(part.text);
    else if (part.type === 'tool-result') texts.push(textOf(part.content, where, report));
    else report.drop(where);
    if (part.cache !== undefined) report.drop(`${where}.cache_control`);
    if (part.type === 'text' && part.signature !== undefined) report.drop(`${where}.signature`);
    if (part.type === 'text' && part.citations !== undefined) report.drop(`${where}.citations`);
    reportForeignExtras(part.extras, ['openai-completions'], report, `${where}.`);
  });
  return texts.join('');
}
