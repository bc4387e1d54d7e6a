import type {
  ChatPart,
  ToolCallPart,
  ToolResultPart,
  ImagePart,
  FilePart,
  MediaSource,
} from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatMessage } from '../../../core/dialects/canonical/chat-request.ts';
import { reportForeignExtras, type EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import type { DialectName } from '../../../core/dialects/endpoint.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { type JsonObject, parseExactObject, asObject } from '../json-reading.ts';
import { isOpenAiSignature } from '../openai-shapes.ts';
import { contentBlock, dialectName } from './content-blocks.ts';

/** System prompt and turns in this wire's form. */
interface EncodedConversation {
  readonly system: readonly JsonObject[];
  readonly messages: readonly JsonObject[];
}

interface Turn {
  readonly role: 'user' | 'assistant' | 'system';
  readonly content: JsonObject[];
  readonly members: JsonObject;
}

/** Writes a conversation; one per request. */
export class ConversationEncoder {
  private readonly report: EncodeReport;
  private readonly own: readonly DialectName[];
  private readonly turns: Turn[] = [];
  private readonly system: JsonObject[] = [];

  constructor(report: EncodeReport, own: readonly DialectName[]) {
    this.report = report;
    this.own = own;
  }

  /** Throws `invalid_request` for arguments of a call that are no JSON object. */
  encode(messages: readonly ChatMessage[]): EncodedConversation {
    const leading = messages.findIndex((message) => !isSystem(message) || isInline(message));
    // Without a turn there is nothing to answer: a lone instruction becomes a user turn.
    const prompts = leading === -1 ? messages.length - 1 : leading;
    messages.forEach((message, i) => {
      const place = `messages[${i}]`;
      reportForeignExtras(message.extras, this.own, this.report, `${place}.`);
      if (message.name !== undefined) this.report.drop(`${place}.name`);
      if (i < prompts) this.system.push(...this.userBlocks(message.parts, place, true));
      else this.turn(message, place);
    });
    this.trimPrefill();
    const turns = this.turns.filter(({ content, role }) => content.length > 0 || role === 'system');
    return {
      system: this.system,
      messages: turns.map(({ role, content, members }) => ({ ...members, role, content })),
    };
  }

  private turn(message: ChatMessage, place: string): void {
    const { role, parts } = message;
    if (role === 'assistant') {
      this.append('assistant', this.assistantBlocks(parts, place), message);
      return;
    }
    if (isInline(message)) {
      this.append('system', this.userBlocks(parts, place, true), message);
      return;
    }
    if (isSystem(message)) this.report.emulate(`${place}.role`);
    const blocks = this.userBlocks(parts, place, isSystem(message));
    if (role === 'tool') this.appendResults(blocks, message);
    else this.append('user', blocks, message);
  }

  /** Adjacent messages of one role form one turn. */
  private append(role: Turn['role'], blocks: readonly JsonObject[], message: ChatMessage): Turn {
    const last = this.turns.at(-1);
    if (last?.role === role && role !== 'system') {
      last.content.push(...blocks);
      Object.assign(last.members, contentBlock.ownExtras(message));
      return last;
    }
    const turn: Turn = { role, content: [...blocks], members: { ...contentBlock.ownExtras(message) } };
    this.turns.push(turn);
    return turn;
  }

  /** Tool results come first in their turn. */
  private appendResults(blocks: readonly JsonObject[], message: ChatMessage): void {
    const { content } = this.append('user', [], message);
    const behind = content.findIndex(({ type }) => type !== 'tool_result');
    content.splice(behind === -1 ? content.length : behind, 0, ...blocks);
  }

  private userBlocks(parts: readonly ChatPart[], place: string, textOnly: boolean): JsonObject[] {
    return parts.flatMap<JsonObject>((part, j) => {
      const where = `${place}.content[${j}]`;
      reportForeignExtras(part.extras, this.own, this.report, `${where}.`);
      const block =
        textOnly && part.type !== 'text' && part.type !== 'opaque' ? undefined : this.userBlock(part, where);
      if (block === undefined && !isEmptyText(part)) this.report.drop(where);
      return block ?? [];
    });
  }

  private userBlock(part: ChatPart, where: string): JsonObject | undefined {
    switch (part.type) {
      case 'text':
        return part.text.trim() === '' ? undefined : contentBlock.encodeText(part);
      case 'image':
        if (part.detail !== undefined && part.detail !== 'auto')
          this.report.drop(`${where}.image_url.detail`);
        return encodeImage(part);
      case 'file':
        return encodeFile(part);
      case 'tool-result':
        return this.toolResult(part, where);
      case 'opaque':
      case 'provider-tool':
        return part.dialect === dialectName ? part.value : undefined;
      default:
        return undefined;
    }
  }

  private toolResult(part: ToolResultPart, where: string): JsonObject {
    const content = this.userBlocks(part.content, where, false);
    const block: JsonObject = { type: 'tool_result', tool_use_id: toolId(part.callId) };
    const [first] = content;
    const isPlain = content.length === 1 && first?.type === 'text' && Object.keys(first).length === 2;
    if (isPlain) block.content = first.text;
    else if (content.length > 0) block.content = content;
    if (part.isError !== undefined) block.is_error = part.isError;
    return contentBlock.addCommon(block, part);
  }

  private assistantBlocks(parts: readonly ChatPart[], place: string): JsonObject[] {
    let call = 0;
    return parts.flatMap<JsonObject>((part, j) => {
      const where = `${place}.content[${j}]`;
      reportForeignExtras(part.extras, this.own, this.report, `${where}.`);
      switch (part.type) {
        case 'text':
          if (part.text.trim() !== '') return contentBlock.encodeText(part);
          if (part.text !== '') this.report.drop(where);
          return [];
        case 'refusal':
          this.report.emulate(`${place}.refusal`);
          return part.text.trim() === '' ? [] : { type: 'text', text: part.text };
        case 'reasoning': {
          const block = thinkingBlock(part);
          if (block === undefined) this.report.drop(`${place}.reasoning_content`);
          return block ?? [];
        }
        case 'tool-call':
          return this.toolUse(part, `${place}.tool_calls[${call++}]`);
        case 'opaque':
        case 'provider-tool':
          if (part.dialect === dialectName) return part.value;
          this.report.drop(where);
          return [];
        default:
          this.report.drop(where);
          return [];
      }
    });
  }

  private toolUse(part: ToolCallPart, where: string): JsonObject {
    if (part.signature !== undefined) this.report.drop(`${where}.extra_content.google.thought_signature`);
    const input =
      part.kind === 'custom'
        ? { input: part.arguments }
        : parseExactObject(part.arguments.trim() === '' ? '{}' : part.arguments);
    if (input === undefined) {
      const param = `${where}.function.arguments`;
      throw new GatewayError('invalid_request', `${param} must be the JSON text of an object.`, { param });
    }
    return contentBlock.encodeToolUse({ ...part, id: toolId(part.id) }, input);
  }

  /** Anthropic continues a last assistant turn, and refuses one that ends in white space. */
  private trimPrefill(): void {
    const last = this.turns.at(-1);
    const block = last?.content.at(-1);
    if (last?.role !== 'assistant' || block?.type !== 'text' || typeof block.text !== 'string') return;
    const trimmed = block.text.trimEnd();
    if (trimmed === block.text) return;
    block.text = trimmed;
    this.report.emulate(`messages[${this.turns.length - 1}].content`);
  }
}

/**
 * Anthropic refuses unsigned thinking and signatures of other providers. Anthropic's thoughts that passed through a
 * Responses client come back as items with its signature, so that only the signature itself identifies them.
 */
function thinkingBlock(part: Extract<ChatPart, { type: 'reasoning' }>): JsonObject | undefined {
  if (part.redacted !== undefined)
    return contentBlock.addCommon({ type: 'redacted_thinking', data: part.redacted }, part);
  if (part.signature === undefined || isOpenAiSignature(part.signature)) return undefined;
  return contentBlock.addCommon({ type: 'thinking', thinking: part.text, signature: part.signature }, part);
}

/** Ids of calls may hold letters, digits, `_` and `-`; ids of other providers hold other characters. */
function toolId(id: string): string {
  return id.replace(/[^a-zA-Z0-9_-]/g, '_');
}

function isSystem({ role }: ChatMessage): boolean {
  return role === 'system' || role === 'developer';
}

/** A Messages client placed the message between the turns, under the role that the wire has for this. */
function isInline({ role, extras }: ChatMessage): boolean {
  return role === 'system' && extras?.[dialectName] !== undefined;
}

function isEmptyText(part: ChatPart): boolean {
  return part.type === 'text' && part.text === '';
}

/** An image as a block; undefined for a source that the wire does not accept. */
function encodeImage(part: ImagePart): JsonObject | undefined {
  const source = encodeSource(part.source);
  return source === undefined ? undefined : contentBlock.addCommon({ type: 'image', source }, part);
}

/**
 * A file as a document block (or as an image block, when it is one); undefined for types that the wire does not accept.
 */
function encodeFile(part: FilePart): JsonObject | undefined {
  const searchResult = asObject(contentBlock.ownExtras(part).search_result);
  if (searchResult !== undefined) return contentBlock.addCommon({ ...searchResult }, { cache: part.cache });
  const { source } = part;
  if (source.kind === 'base64' && source.mediaType.startsWith('image/')) {
    return contentBlock.addCommon({ type: 'image', source: encodeSource(source) }, part);
  }
  const encoded = documentSource(part);
  if (encoded === undefined) return undefined;
  const block: JsonObject = { type: 'document', source: encoded };
  if (part.filename !== undefined) block.title = part.filename;
  if (part.context !== undefined) block.context = part.context;
  if (part.citations !== undefined) block.citations = { enabled: part.citations };
  return contentBlock.addCommon(block, part);
}

function documentSource({ source, mediaType }: FilePart): JsonObject | undefined {
  if (source.kind === 'url') {
    return mediaType === undefined || mediaType === 'application/pdf' ? encodeSource(source) : undefined;
  }
  if (source.kind !== 'base64') return encodeSource(source);
  if (source.mediaType === 'application/pdf') return encodeSource(source);
  if (!source.mediaType.startsWith('text/') && source.mediaType !== 'application/json') return undefined;
  return {
    type: 'text',
    media_type: 'text/plain',
    data: Buffer.from(source.data, 'base64').toString('utf8'),
  };
}

function encodeSource(source: MediaSource): JsonObject | undefined {
  switch (source.kind) {
    case 'url':
      return { type: 'url', url: source.url };
    case 'base64':
      return { type: 'base64', media_type: source.mediaType, data: source.data };
    case 'text':
      return { type: 'text', media_type: 'text/plain', data: source.text };
    case 'file-id':
      return source.dialect === dialectName ? { type: 'file', file_id: source.id } : undefined;
  }
}
