import type { ChatMessage } from './chat-request.ts';

/**
 * The messages with the tool's name on every result that follows its call: some wires name the tool instead of the
 * call.
 */
export function nameToolResults(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const names = new Map<string, string>();
  return messages.map((message) => {
    for (const part of message.parts) if (part.type === 'tool-call') names.set(part.id, part.name);
    if (message.role !== 'tool') return message;
    return {
      ...message,
      parts: message.parts.map((part) => {
        if (part.type !== 'tool-result' || part.name !== undefined) return part;
        const name = names.get(part.callId);
        return name === undefined ? part : { ...part, name };
      }),
    };
  });
}
