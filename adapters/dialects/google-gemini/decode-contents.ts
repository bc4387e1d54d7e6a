import type { ChatMessage } from '../../../core/dialects/canonical/chat-request.ts';
import type { ChatPart, JsonObject, ToolCallPart } from '../../../core/dialects/canonical/chat-part.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { asArray, asObject, asText } from '../json-reading.ts';
import { describeValue } from '../request-issue.ts';
import { decodeArguments } from './call-arguments.ts';
import { decodeFileData, decodeInlineData } from './media.ts';
import { knownMembers, member, memberObject, otherMembers } from './member.ts';
import { decodeOwnPart, signed, unsigned, type ToolNumbers } from './provider-tool.ts';
import { decodeResult } from './tool-result.ts';

const partMembers = knownMembers([
  'text',
  'thought',
  'thoughtSignature',
  'inlineData',
  'fileData',
  'functionCall',
  'functionResponse',
]);

/**
 * Gives ids to calls and results that have none, as clients of this wire may leave them out: the n-th call of a function
 * is `call_<name>_<n>`, whatever stands around it, and a result belongs to the first call of its function that has none.
 */
class CallIds {
  private readonly made = new Map<string, number>();
  private readonly waiting: { readonly id: string; readonly name: string }[] = [];

  ofCall(name: string, given: string | undefined): string {
    const id = given ?? this.make(name);
    this.waiting.push({ id, name });
    return id;
  }

  ofResult(name: string, given: string | undefined): string {
    const at = this.waiting.findIndex((call) =>
      given === undefined ? call.name === name : call.id === given,
    );
    const [call] = at === -1 ? [] : this.waiting.splice(at, 1);
    return given ?? call?.id ?? this.make(name);
  }

  private make(name: string): string {
    const number = this.made.get(name) ?? 0;
    this.made.set(name, number + 1);
    return `call_${name}_${number}`;
  }
}

/** A message that still grows. */
interface OpenMessage {
  readonly role: ChatMessage['role'];
  readonly parts: ChatPart[];
}

/** The messages of `systemInstruction` and `contents`. Throws `invalid_request` naming the field that cannot be read. */
export function decodeContents(body: JsonObject): readonly ChatMessage[] {
  const messages: OpenMessage[] = [];
  const reader = new ContentReader();
  const instruction = member(body, 'systemInstruction');
  if (instruction !== undefined && instruction !== null) {
    const parts = reader.parts(contentOf(instruction, 'systemInstruction'), 'systemInstruction');
    if (parts.length > 0) messages.push({ role: 'system', parts });
  }
  const { contents } = body;
  const list = Array.isArray(contents) ? (contents as unknown[]) : contents === undefined ? [] : [contents];
  if (list.length === 0) throw unreadable('contents', contents, 'hold at least one content');
  list.forEach((value, i) => {
    const content = contentOf(value, `contents[${i}]`);
    const parts = reader.parts(content, `contents[${i}]`);
    const last = messages.at(-1);
    if (content.role === 'model' && last?.role === 'assistant') joinPieces(last.parts, parts);
    else messages.push(...turns(parts, content.role === 'model' ? 'assistant' : 'user'));
  });
  return messages;
}

/**
 * Google's own client keeps a streamed answer as it came: every chunk is a content of the model, with a piece of a text or
 * of a thought. Pieces that stand together are one again; a signature ends what it proves.
 */
function joinPieces(said: ChatPart[], more: readonly ChatPart[]): void {
  for (const part of more) {
    const last = said.at(-1);
    if (isPiece(last) && isPiece(part) && last.type === part.type && last.signature === undefined) {
      said[said.length - 1] = { ...last, ...part, text: last.text + part.text };
    } else if (!isPiece(part) || part.text !== '' || part.signature !== undefined) said.push(part);
  }
}

function isPiece(part: ChatPart | undefined): part is Extract<ChatPart, { type: 'text' | 'reasoning' }> {
  return (part?.type === 'text' || part?.type === 'reasoning') && part.extras === undefined;
}

/** One content as messages: results of tools stand in messages of their own. */
function turns(parts: readonly ChatPart[], role: 'assistant' | 'user'): OpenMessage[] {
  const messages: OpenMessage[] = [];
  for (const part of parts) {
    const speaker = part.type === 'tool-result' ? 'tool' : role;
    const last = messages.at(-1);
    if (last?.role === speaker) last.parts.push(part);
    else messages.push({ role: speaker, parts: [part] });
  }
  return messages;
}

class ContentReader {
  private readonly ids = new CallIds();
  private numbered = 0;
  private readonly numbers: ToolNumbers = {
    lastId: '',
    newId: (prefix) => `${prefix}${this.numbered++}`,
  };

  parts(content: JsonObject, place: string): ChatPart[] {
    const { parts } = content;
    const list = Array.isArray(parts) ? (parts as unknown[]) : parts === undefined ? [] : [parts];
    return list.map((value, i) => {
      if (typeof value === 'string') return { type: 'text', text: value };
      const part = asObject(value);
      if (part === undefined) throw unreadable(`${place}.parts[${i}]`, value, 'be an object');
      return withSiblings(this.part(part), part);
    });
  }

  private part(part: JsonObject): ChatPart {
    const signature = asText(member(part, 'thoughtSignature'));
    if (typeof part.text === 'string') {
      const type = part.thought === true ? 'reasoning' : 'text';
      return signed({ type, text: part.text }, signature);
    }
    const call = memberObject(part, 'functionCall');
    if (call !== undefined) return signed(this.call(call), signature);
    // A picture within the thoughts is a draft, no part of the answer.
    if (part.thought === true) return signed(decodeOwnPart(unsigned(part), this.numbers), signature);
    const blob = memberObject(part, 'inlineData');
    if (blob !== undefined) return signed(decodeInlineData(blob), signature);
    const file = memberObject(part, 'fileData');
    if (file !== undefined) return signed(decodeFileData(file), signature);
    const response = memberObject(part, 'functionResponse');
    if (response !== undefined)
      return decodeResult(response, this.ids.ofResult(asText(response.name) ?? '', asText(response.id)));
    return signed(decodeOwnPart(unsigned(part), this.numbers), signature);
  }

  private call(call: JsonObject): ToolCallPart {
    const name = asText(call.name) ?? '';
    const id = this.ids.ofCall(name, asText(call.id));
    return {
      type: 'tool-call',
      id,
      name,
      kind: 'function',
      arguments: decodeArguments(call.args, 'function'),
    };
  }
}

/** Keeps what stands beside a part's content (`videoMetadata` …); a part of Google's own holds it already. */
function withSiblings(part: ChatPart, wire: JsonObject): ChatPart {
  if (part.type === 'provider-tool' || part.type === 'opaque') return part;
  const others = otherMembers(wire, partMembers);
  if (others === undefined) return part;
  return { ...part, extras: { 'google-gemini': { ...part.extras?.['google-gemini'], ...others } } };
}

/** A content, which may be a bare text or a single part as well. */
function contentOf(value: unknown, place: string): JsonObject {
  if (typeof value === 'string') return { role: 'user', parts: [{ text: value }] };
  const content = asObject(value);
  if (content === undefined) throw unreadable(place, value, 'be an object with parts');
  if (content.parts === undefined && asArray(content.parts).length === 0 && content.role === undefined)
    return { role: 'user', parts: [content] };
  return content;
}

function unreadable(param: string, found: unknown, rule: string): GatewayError {
  return new GatewayError('invalid_request', `${param} must ${rule}; found ${describeValue(found)}.`, {
    param,
  });
}
