import type {
  ChatPart,
  JsonObject,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatMessage } from '../../../core/dialects/canonical/chat-request.ts';
import { stringifyExact } from '../exact-json.ts';
import { asArray, asObject, asText } from '../json-reading.ts';
import { decodeAnnotations } from './annotations.ts';
import { decodeBlock, decodeContent } from './decode-content.ts';
import { cacheMember, given, unknownMembers, unreadable } from './member-reading.ts';

const knownMembers: ReadonlySet<string> = new Set([
  'role',
  'content',
  'name',
  'cache_control',
  'tool_calls',
  'tool_call_id',
  'function_call',
  'refusal',
  'audio',
  'annotations',
  'reasoning_content',
  'reasoning',
  'content_blocks',
  // What a client sends back of an answer as it got it, and says nothing to a model.
  'provider_fields',
  'images',
  'executed_tools',
]);

/** Names of calls that wait for their results: legacy messages and some clients name the function instead of the call. */
type CallsByName = Map<string, string[]>;

/** The conversation of a chat request. Throws `invalid_request` with the member that cannot be read. */
export function decodeMessages(value: unknown): readonly ChatMessage[] {
  if (!Array.isArray(value)) throw unreadable('messages', 'be an array', value);
  const calls: CallsByName = new Map();
  return value.map((item: unknown, i) => {
    const message = asObject(item);
    const place = `messages[${i}]`;
    if (message === undefined) throw unreadable(place, 'be an object', item);
    return decodeMessage(message, place, calls);
  });
}

function decodeMessage(message: JsonObject, place: string, calls: CallsByName): ChatMessage {
  const name = asText(message.name);
  const unknown = unknownMembers(message, knownMembers);
  const extras = unknown === undefined ? undefined : { 'openai-chat': unknown };
  const { role } = message;
  switch (role) {
    case 'system':
    case 'developer':
    case 'user': {
      const parts = decodeContent(message.content, `${place}.content`);
      return given<ChatMessage>({ role, parts: marked(parts, message), name, extras });
    }
    case 'assistant': {
      const parts = marked(assistantParts(message, place), message);
      noteCalls(parts, calls);
      return given<ChatMessage>({ role, parts, name, extras });
    }
    case 'tool':
    case 'function':
      return given<ChatMessage>({
        role: 'tool',
        parts: marked([toolResult(message, place, calls)], message),
        extras,
      });
    default:
      throw unreadable(`${place}.role`, "be 'system', 'developer', 'user', 'assistant' or 'tool'", role);
  }
}

/** A marker on the message itself means its last part. */
function marked(parts: readonly ChatPart[], message: JsonObject): readonly ChatPart[] {
  const cache = cacheMember(message);
  const last = parts.at(-1);
  return cache === undefined || last === undefined ? parts : [...parts.slice(0, -1), { ...last, cache }];
}

function assistantParts(message: JsonObject, place: string): ChatPart[] {
  const parts = saidParts(message, place);
  const refusal = asText(message.refusal);
  if (refusal !== undefined) parts.push({ type: 'refusal', text: refusal });
  const audio = asText(asObject(message.audio)?.id);
  if (audio !== undefined) {
    parts.push({ type: 'audio', id: audio, source: { kind: 'file-id', id: audio, dialect: 'openai-chat' } });
  }
  if (message.tool_calls !== undefined && message.tool_calls !== null && !Array.isArray(message.tool_calls)) {
    throw unreadable(`${place}.tool_calls`, 'be an array', message.tool_calls);
  }
  asArray(message.tool_calls).forEach((item, i) => {
    const call = decodeToolCall(item, `call_${place.replace(/\D/g, '')}_${i}`);
    if (call === undefined) throw unreadable(`${place}.tool_calls[${i}]`, 'name its function', item);
    parts.push(call);
  });
  const legacy = asObject(message.function_call);
  if (legacy !== undefined) {
    const call = decodeToolCall({ function: legacy }, `call_${place.replace(/\D/g, '')}`);
    if (call === undefined) throw unreadable(`${place}.function_call.name`, 'be a string', legacy.name);
    parts.push(call);
  }
  return parts;
}

/** Thinking and text: from the blocks where the client kept them (they are in order and signed), else from the plain members. */
function saidParts(message: JsonObject, place: string): ChatPart[] {
  const blocks = asArray(message.content_blocks).map(asObject);
  const known = blocks.flatMap((block) => (block === undefined ? [] : decodeSaidBlock(block)));
  // What client libraries add up from deltas may be no blocks: then the plain members say it all.
  if (known.length > 0 && blocks.every((block) => asText(block?.type) !== undefined)) {
    const saysText = known.some(({ type }) => type === 'text');
    return saysText ? known : [...known, ...decodeContent(message.content, `${place}.content`)];
  }
  const parts: ChatPart[] = [];
  const thought = asText(message.reasoning_content) ?? asText(message.reasoning);
  if (thought !== undefined) parts.push({ type: 'reasoning', text: thought });
  parts.push(...decodeContent(message.content, `${place}.content`));
  return withCitations(parts, decodeAnnotations(message.annotations));
}

/** One element of `content_blocks`. Calls stand in `tool_calls`. */
export function decodeSaidBlock(block: JsonObject): readonly (ChatPart | ReasoningPart)[] {
  const type = asText(block.type) ?? '';
  if (type === 'tool_use') return [];
  if (type === 'text') return decodeContent([block], 'content_blocks');
  const part = decodeBlock(block, type);
  return part === undefined ? [{ type: 'opaque', dialect: 'openai-chat', value: block }] : [part];
}

/** The parts with these citations on the last text. */
export function withCitations(parts: ChatPart[], citations: TextPart['citations']): ChatPart[] {
  if (citations === undefined || citations.length === 0) return parts;
  const at = parts.findLastIndex(({ type }) => type === 'text');
  const text = parts[at];
  if (text?.type === 'text') parts[at] = { ...text, citations: [...(text.citations ?? []), ...citations] };
  return parts;
}

/** A tool call of a request or a complete answer; undefined when it names no tool. `fallbackId` is for calls without an id. */
export function decodeToolCall(item: unknown, fallbackId: string): ToolCallPart | undefined {
  const call = asObject(item);
  const custom = asObject(call?.custom);
  const definition = asObject(call?.function) ?? custom;
  const name = asText(definition?.name);
  if (call === undefined || definition === undefined || name === undefined) return undefined;
  const isCustom = definition === custom;
  return given<ToolCallPart>({
    type: 'tool-call',
    id: asText(call.id) ?? fallbackId,
    name,
    kind: isCustom ? 'custom' : 'function',
    arguments: isCustom ? (asText(custom.input) ?? '') : argumentsText(definition.arguments),
    signature: thoughtSignature(call),
    cache: cacheMember(call),
  });
}

/** Arguments as JSON text: most hosts write text, some an object. */
export function argumentsText(value: unknown): string {
  const members = asObject(value);
  if (members !== undefined) return stringifyExact(members);
  return asText(asText(value)?.trim() === '' ? '' : value) ?? '{}';
}

/** The proof of thinking that Google's compatibility API puts on a call. */
export function thoughtSignature(call: JsonObject): string | undefined {
  return asText(asObject(asObject(call.extra_content)?.google)?.thought_signature);
}

function toolResult(message: JsonObject, place: string, calls: CallsByName): ToolResultPart {
  const name = asText(message.name);
  const waiting = name === undefined ? undefined : calls.get(name);
  const callId =
    asText(message.tool_call_id) ?? waiting?.shift() ?? (message.role === 'function' ? name : undefined);
  if (callId === undefined) throw unreadable(`${place}.tool_call_id`, 'be a string', message.tool_call_id);
  const content = decodeContent(message.content, `${place}.content`).map((part) => {
    if (part.type === 'text' || part.type === 'image' || part.type === 'file' || part.type === 'audio')
      return part;
    throw unreadable(`${place}.content`, 'hold text, images, audio or files', message.content);
  });
  return given<ToolResultPart>({ type: 'tool-result', callId, name, kind: 'function', content });
}

function noteCalls(parts: readonly ChatPart[], calls: CallsByName): void {
  for (const part of parts) {
    if (part.type !== 'tool-call') continue;
    const waiting = calls.get(part.name);
    if (waiting === undefined) calls.set(part.name, [part.id]);
    else waiting.push(part.id);
  }
}
