import type { ChatPart, JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatMessage } from '../../../core/dialects/canonical/chat-request.ts';
import { reportForeignExtras } from '../../../core/dialects/canonical/encode-report.ts';
import { asArray, asObject } from '../json-reading.ts';
import { addPart, type ContentContext } from './encode-content.ts';

/** A conversation as the API wants it: instructions apart, user and assistant in turns, results of tools in user turns. */
export interface EncodedConversation {
  readonly system: JsonObject[];
  readonly messages: JsonObject[];
}

/** Neighbours of one role are joined; what a turn cannot hold is reported. */
export function encodeConversation(
  messages: readonly ChatMessage[],
  context: ContentContext,
): EncodedConversation {
  const system: JsonObject[] = [];
  const turns: { role: string; content: JsonObject[] }[] = [];
  messages.forEach((message, at) => {
    const place = `messages[${at}]`;
    if (message.name !== undefined) context.report.drop(`${place}.name`);
    reportForeignExtras(message.extras, [], context.report, `${place}.`);
    if (message.role === 'system' || message.role === 'developer') {
      // All instructions stand before the conversation.
      if (turns.length > 0) context.report.emulate(place);
      addSystem(system, message.parts, place, context);
      return;
    }
    const content: JsonObject[] = [];
    message.parts.forEach((part, index) => addPart(content, part, `${place}.content[${index}]`, context));
    if (content.length === 0) return;
    const role = message.role === 'assistant' ? 'assistant' : 'user';
    const last = turns.at(-1);
    if (last?.role === role) last.content.push(...content);
    else turns.push({ role, content });
  });
  trimPrefill(turns.at(-1));
  return { system, messages: turns };
}

function addSystem(
  system: JsonObject[],
  parts: readonly ChatPart[],
  place: string,
  context: ContentContext,
): void {
  parts.forEach((part, index) => {
    const inside = `${place}.content[${index}]`;
    if (part.type === 'text' || part.type === 'opaque') addPart(system, part, inside, context);
    else context.report.drop(inside);
  });
}

/** Models refuse a beginning of the answer that ends in white space. */
function trimPrefill(turn: { role: string; content: JsonObject[] } | undefined): void {
  if (turn?.role !== 'assistant') return;
  const last = turn.content.at(-1);
  if (typeof last?.text === 'string') last.text = last.text.trimEnd();
}

/** Names of the tools that were called in the conversation, in their order; undefined when neither call nor result stands in it. */
export function namesOfCalledTools(messages: readonly JsonObject[]): readonly string[] | undefined {
  const names = new Set<string>();
  let found = false;
  for (const message of messages) {
    for (const value of asArray(message.content)) {
      const block = asObject(value);
      const name = asObject(block?.toolUse)?.name;
      if (typeof name === 'string') names.add(name);
      found ||= block?.toolUse !== undefined || block?.toolResult !== undefined;
    }
  }
  return found ? [...names] : undefined;
}
