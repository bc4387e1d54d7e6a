import type { ChatPart, Extras, ToolResultPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatMessage } from '../../../core/dialects/canonical/chat-request.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { asObject, asText, type JsonObject } from '../json-reading.ts';
import { unreadable } from '../openai-chat/member-reading.ts';
import { attachSignature } from './attach-signature.ts';
import { decodeInputContent, type InputPart } from './input-content.ts';
import { contentPart, partsOfItem, phaseExtras } from './output-parts.ts';
import { providerItem } from './provider-items.ts';

type Role = ChatMessage['role'];

interface OpenMessage {
  readonly role: Role;
  readonly parts: ChatPart[];
  readonly extras?: Extras;
}

const roles: ReadonlySet<unknown> = new Set(['system', 'developer', 'user', 'assistant']);

/** What a client sends after a call that its own wire alone has. */
const clientAnswers: ReadonlySet<unknown> = new Set([
  'computer_call_output',
  'local_shell_call_output',
  'shell_call_output',
  'apply_patch_call_output',
  'mcp_approval_response',
  'tool_search_output',
]);

/**
 * The conversation that `input` holds. What the assistant said in one turn (thoughts, texts, calls) becomes one message,
 * results of tools that follow each other another. Throws `invalid_request` for what cannot be read, `not_supported` for
 * references to items that only their provider stores.
 */
export function decodeInput(input: unknown): readonly ChatMessage[] {
  if (typeof input === 'string') return [{ role: 'user', parts: [{ type: 'text', text: input }] }];
  if (!Array.isArray(input)) throw unreadable('input', 'be a string or an array of items', input);
  const messages: OpenMessage[] = [];
  input.forEach((value: unknown, i) => {
    const item = asObject(value);
    if (item === undefined) throw unreadable(`input[${i}]`, 'be an item', value);
    addItem(messages, item, `input[${i}]`);
  });
  return messages;
}

function addItem(messages: OpenMessage[], item: JsonObject, place: string): void {
  const { type } = item;
  if (type === 'item_reference') throw referenceRefused(place);
  if (type === 'message' || (type === undefined && 'role' in item)) return addMessage(messages, item, place);
  if (type === 'function_call_output' || type === 'custom_tool_call_output') {
    turnOf(messages, 'tool').push(toolResult(item, place));
    return;
  }
  if (clientAnswers.has(type)) {
    messages.push({ role: 'user', parts: [providerItem(item)] });
    return;
  }
  if (asText(type) === undefined) throw unreadable(`${place}.type`, 'name the kind of the item', type);
  const isCall = type === 'function_call' || type === 'custom_tool_call';
  if (isCall && asText(item.call_id) === undefined)
    throw unreadable(`${place}.call_id`, 'be a string', item.call_id);
  if (isCall && asText(item.name) === undefined) throw unreadable(`${place}.name`, 'be a string', item.name);
  const { parts, carried } = partsOfItem(item, (prefix) => prefix);
  const turn = turnOf(messages, 'assistant');
  turn.push(...parts);
  if (carried !== undefined) attachSignature(turn, carried);
}

function addMessage(messages: OpenMessage[], item: JsonObject, place: string): void {
  const { role } = item;
  if (!roles.has(role))
    throw unreadable(`${place}.role`, "be 'user', 'assistant', 'system' or 'developer'", role);
  if (role !== 'assistant') {
    messages.push({ role: role as Role, parts: [...decodeInputContent(item.content, `${place}.content`)] });
    return;
  }
  turnOf(messages, 'assistant').push(...assistantParts(item, `${place}.content`));
}

function assistantParts(item: JsonObject, place: string): readonly ChatPart[] {
  const { content } = item;
  if (Array.isArray(content))
    return content.map((part: unknown) => contentPart(asObject(part) ?? {}, item.phase));
  const extras = phaseExtras(item.phase);
  const parts = decodeInputContent(content, place);
  return extras === undefined ? parts : parts.map((part) => ({ ...part, extras }));
}

/** The parts of the last message when it is of this role, else of a new one. */
function turnOf(messages: OpenMessage[], role: Role): ChatPart[] {
  const last = messages.at(-1);
  if (last?.role === role) return last.parts;
  const parts: ChatPart[] = [];
  messages.push({ role, parts });
  return parts;
}

function toolResult(item: JsonObject, place: string): ToolResultPart {
  const callId = asText(item.call_id);
  if (callId === undefined) throw unreadable(`${place}.call_id`, 'be a string', item.call_id);
  const parts = decodeInputContent(item.output, `${place}.output`);
  return {
    type: 'tool-result',
    callId,
    kind: item.type === 'custom_tool_call_output' ? 'custom' : 'function',
    content: parts.map(resultPart),
  };
}

/** A kind of content that is not known is kept as its JSON text. */
function resultPart(part: ChatPart): InputPart {
  if (part.type === 'text' || part.type === 'image' || part.type === 'file' || part.type === 'audio')
    return part;
  return { type: 'text', text: JSON.stringify('value' in part ? part.value : part) };
}

function referenceRefused(place: string): GatewayError {
  return new GatewayError(
    'not_supported',
    `${place} refers to an item that only the provider which made it stores, and this request goes to another one. Send the item itself: clients do so with "store": false and "include": ["reasoning.encrypted_content"]; or have the gateway keep answers (plugin "stored-responses").`,
    { param: place },
  );
}
