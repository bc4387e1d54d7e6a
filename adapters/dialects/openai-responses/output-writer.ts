import type { TokenLogprob } from '../../../core/dialects/canonical/chat-answer.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import type {
  ChatPart,
  Citation,
  ImagePart,
  ProviderToolPart,
  ToolCallPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import { asObject, asText, type JsonObject, stringifyExact } from '../json-reading.ts';
import { carriedContent, dialect, textAnnotation } from './answer.ts';

/** Collects the frames of a Responses stream, each with its name and number. */
export class EventLines {
  private text = '';
  private sequence = 0;

  /** Adds an event with these members. */
  add(type: string, members: JsonObject): void {
    this.addRaw(type, stringifyExact(members).slice(1, -1));
  }

  /** Same for members in JSON form, without their braces. */
  addRaw(type: string, members: string): void {
    this.text += `event: ${type}\ndata: {"type":"${type}","sequence_number":${this.sequence++},${members}}\n\n`;
  }

  /** The frames since the last call. */
  take(): string {
    const { text } = this;
    this.text = '';
    return text;
  }
}

type PartEvent = Extract<ChatEvent, { readonly part: number }>;

/** The message that takes texts and refusals until another item starts. */
interface OpenMessage {
  readonly id: string;
  readonly phase: string | undefined;
  readonly content: JsonObject[];
}

interface OpenPart {
  readonly head: ChatPart;
  /** Id of the item that holds it; empty for parts that no item can express. */
  readonly id: string;
  /** Members of its deltas before the text, as JSON. */
  readonly prefix: string;
  readonly annotations: JsonObject[];
  /** Citations of the whole part: their position is known when it ends. */
  readonly unplaced: Citation[];
  readonly logprobs: JsonObject[];
  text: string;
  signature: string;
}

/** Writes the output items of a stream in sequence, and keeps the finished ones. */
export class OutputWriter {
  readonly items: JsonObject[] = [];
  private readonly lines: EventLines;
  private readonly newId: (prefix: string) => string;
  private message: OpenMessage | undefined;
  private part: OpenPart | undefined;

  constructor(lines: EventLines, newId: (prefix: string) => string) {
    this.lines = lines;
    this.newId = newId;
  }

  write(event: PartEvent): void {
    if (event.type === 'part-start') return this.begin(event.head);
    const { part } = this;
    if (part === undefined) return;
    switch (event.type) {
      case 'text-delta':
        return this.text(part, event.text, event.logprobs);
      case 'reasoning-delta':
        return this.reasoning(part, event.text);
      case 'arguments-delta':
        return this.arguments(part, event.text);
      case 'audio-delta':
        return this.text(part, event.transcript);
      case 'signature':
        part.signature += event.signature;
        return;
      case 'citation':
        return this.citation(part, event.citation);
      case 'part-end':
        this.end(part);
        this.part = undefined;
    }
  }

  /** Ends the open items; in an incomplete response the last message is marked incomplete. */
  finish(status: 'completed' | 'incomplete' | 'failed'): void {
    if (this.part !== undefined) this.end(this.part);
    this.part = undefined;
    this.closeMessage(status === 'completed' ? 'completed' : 'incomplete');
  }

  private begin(head: ChatPart): void {
    switch (head.type) {
      case 'text':
      case 'refusal':
        this.beginContent(head, head.type);
        return this.text(this.part as OpenPart, head.text);
      case 'audio':
        this.beginContent(head, 'text');
        return this.text(this.part as OpenPart, head.transcript ?? '');
      case 'reasoning': {
        const id = head.itemId ?? this.newId('rs_');
        this.beginItem(head, id, ',"summary_index":0', { type: 'reasoning', id, summary: [] });
        return this.reasoning(this.part as OpenPart, head.text);
      }
      case 'tool-call': {
        const id = head.itemId ?? this.newId(head.kind === 'custom' ? 'ctc_' : 'fc_');
        this.beginItem(head, id, '', callOutput(head, id, '', 'in_progress'));
        return this.arguments(this.part as OpenPart, head.arguments);
      }
      default:
        this.whole(head);
    }
  }

  private beginItem(head: ChatPart, id: string, place: string, item: JsonObject): void {
    this.closeMessage('completed');
    this.lines.add('response.output_item.added', { output_index: this.items.length, item });
    this.part = this.open(head, id, place);
  }

  private beginContent(head: ChatPart, kind: 'text' | 'refusal'): void {
    const phase = asText(head.extras?.[dialect]?.phase);
    if (this.message !== undefined && this.message.phase !== phase) this.closeMessage('completed');
    const message = (this.message ??= this.openMessage(phase));
    const index = message.content.length;
    this.part = this.open(head, message.id, `,"content_index":${index}`);
    this.lines.add('response.content_part.added', {
      item_id: message.id,
      output_index: this.items.length,
      content_index: index,
      part:
        kind === 'text'
          ? { type: 'output_text', annotations: [], logprobs: [], text: '' }
          : { type: 'refusal', refusal: '' },
    });
  }

  private openMessage(phase: string | undefined): OpenMessage {
    const message = { id: this.newId('msg_'), phase, content: [] };
    const item = messageItem(message, 'in_progress');
    this.lines.add('response.output_item.added', { output_index: this.items.length, item });
    return message;
  }

  private open(head: ChatPart, id: string, place: string): OpenPart {
    const prefix = `"item_id":${JSON.stringify(id)},"output_index":${this.items.length}${place}`;
    const { signature = '' } = head;
    return { head, id, prefix, annotations: [], unplaced: [], logprobs: [], text: '', signature };
  }

  private text(part: OpenPart, text: string, logprobs?: readonly TokenLogprob[]): void {
    if (text === '' && logprobs === undefined) return;
    part.text += text;
    const members = `${part.prefix},"delta":${JSON.stringify(text)}`;
    if (part.head.type === 'refusal') return this.lines.addRaw('response.refusal.delta', members);
    if (logprobs === undefined)
      return this.lines.addRaw('response.output_text.delta', `${members},"logprobs":[]`);
    const encoded = encodeLogprobs(logprobs);
    for (const one of encoded) part.logprobs.push(one);
    this.lines.addRaw('response.output_text.delta', `${members},"logprobs":${JSON.stringify(encoded)}`);
  }

  private reasoning(part: OpenPart, text: string): void {
    if (text === '') return;
    if (part.text === '')
      this.lines.addRaw(
        'response.reasoning_summary_part.added',
        `${part.prefix},"part":{"type":"summary_text","text":""}`,
      );
    part.text += text;
    this.lines.addRaw(
      'response.reasoning_summary_text.delta',
      `${part.prefix},"delta":${JSON.stringify(text)}`,
    );
  }

  private arguments(part: OpenPart, text: string): void {
    if (text === '') return;
    part.text += text;
    this.lines.addRaw(`${callEvent(part.head)}.delta`, `${part.prefix},"delta":${JSON.stringify(text)}`);
  }

  private citation(part: OpenPart, citation: Citation): void {
    if (citation.start === undefined && citation.end === undefined) part.unplaced.push(citation);
    else this.annotate(part, citation);
  }

  private annotate(part: OpenPart, citation: Citation): void {
    const annotation = textAnnotation.encode(citation, part.text.length);
    const index = part.annotations.push(annotation) - 1;
    this.lines.addRaw(
      'response.output_text.annotation.added',
      `${part.prefix},"annotation_index":${index},"annotation":${stringifyExact(annotation)}`,
    );
  }

  private end(part: OpenPart): void {
    switch (part.head.type) {
      case 'text':
      case 'audio':
        for (const citation of part.unplaced) this.annotate(part, citation);
        this.endContent(part, {
          type: 'output_text',
          annotations: part.annotations,
          logprobs: part.logprobs,
          text: part.text,
        });
        if (part.signature !== '')
          this.carry(carriedContent.encode({ kind: 'text', signature: part.signature }));
        return;
      case 'refusal':
        return this.endContent(part, { type: 'refusal', refusal: part.text });
      case 'reasoning':
        return this.endReasoning(part, part.head.redacted);
      case 'tool-call':
        return this.endCall(part, part.head);
      default:
      // A part that arrives whole is never open.
    }
  }

  private endContent(part: OpenPart, content: JsonObject): void {
    if (content.type === 'refusal')
      this.lines.addRaw('response.refusal.done', `${part.prefix},"refusal":${JSON.stringify(part.text)}`);
    else
      this.lines.addRaw(
        'response.output_text.done',
        `${part.prefix},"text":${JSON.stringify(part.text)},"logprobs":${JSON.stringify(part.logprobs)}`,
      );
    this.lines.addRaw('response.content_part.done', `${part.prefix},"part":${stringifyExact(content)}`);
    this.message?.content.push(content);
  }

  private endReasoning(part: OpenPart, redacted: string | undefined): void {
    if (part.text !== '') {
      const text = JSON.stringify(part.text);
      this.lines.addRaw('response.reasoning_summary_text.done', `${part.prefix},"text":${text}`);
      this.lines.addRaw(
        'response.reasoning_summary_part.done',
        `${part.prefix},"part":{"type":"summary_text","text":${text}}`,
      );
    }
    const own = part.signature === '' ? undefined : part.signature;
    const encrypted =
      redacted === undefined ? own : carriedContent.encode({ kind: 'redacted', data: redacted });
    this.itemDone(reasoningOutput(part.id, part.text, encrypted));
  }

  private endCall(part: OpenPart, head: ToolCallPart): void {
    const isCustom = head.kind === 'custom';
    const text = part.text === '' && !isCustom ? '{}' : part.text;
    const name = isCustom ? '' : `,"name":${JSON.stringify(head.name)}`;
    const member = isCustom ? 'input' : 'arguments';
    this.lines.addRaw(`${callEvent(head)}.done`, `${part.prefix}${name},"${member}":${JSON.stringify(text)}`);
    this.itemDone(callOutput(head, part.id, text, 'completed'));
    const { signature } = part;
    if (signature !== '') this.carry(carriedContent.encode({ kind: 'call', callId: head.id, signature }));
  }

  /** Writes a part that arrives whole. */
  private whole(head: ChatPart): void {
    if (head.type === 'image' && head.source.kind === 'url') {
      const markdown: ChatPart = { type: 'text', text: `![image](${head.source.url})` };
      return this.begin(markdown);
    }
    const item = head.type === 'image' ? imageOutput(head, this.newId) : wholeOutput(head, this.newId);
    if (item === undefined) return;
    this.closeMessage('completed');
    const output_index = this.items.length;
    const started = head.type === 'image' ? { ...item, status: 'in_progress', result: null } : item;
    this.lines.add('response.output_item.added', { output_index, item: started });
    if (head.type === 'image')
      this.lines.add('response.image_generation_call.completed', { output_index, item_id: item.id });
    this.itemDone(item);
  }

  /** Writes a signature of the preceding part. */
  private carry(encrypted: string): void {
    this.closeMessage('completed');
    const item = reasoningOutput(this.newId('rs_'), '', encrypted);
    this.lines.add('response.output_item.added', { output_index: this.items.length, item });
    this.itemDone(item);
  }

  private closeMessage(status: string): void {
    const { message } = this;
    this.message = undefined;
    if (message !== undefined) this.itemDone(messageItem(message, status));
  }

  private itemDone(item: JsonObject): void {
    this.lines.add('response.output_item.done', { output_index: this.items.length, item });
    this.items.push(item);
  }
}

function messageItem({ id, phase, content }: OpenMessage, status: string): JsonObject {
  const item: JsonObject = { id, type: 'message', status, content, role: 'assistant' };
  if (phase !== undefined) item.phase = phase;
  return item;
}

function callEvent(head: ChatPart): string {
  return head.type === 'tool-call' && head.kind === 'custom'
    ? 'response.custom_tool_call_input'
    : 'response.function_call_arguments';
}

/** A call as an item of an answer. */
function callOutput(part: ToolCallPart, id: string, text: string, status: string): JsonObject {
  const extras = part.extras?.[dialect];
  const members = { id, call_id: part.id, name: part.name, status };
  return part.kind === 'custom'
    ? { ...extras, type: 'custom_tool_call', ...members, input: text }
    : { ...extras, type: 'function_call', ...members, arguments: text };
}

/** A thought as an item: its text as a summary, its signature as encrypted content. */
function reasoningOutput(id: string, text: string, encrypted: string | undefined): JsonObject {
  return {
    type: 'reasoning',
    id,
    summary: text === '' ? [] : [{ type: 'summary_text', text }],
    encrypted_content: encrypted ?? null,
  };
}

/** A generated picture as an item; undefined for one with only an address. */
function imageOutput(part: ImagePart, newId: (prefix: string) => string): JsonObject | undefined {
  const { source } = part;
  if (source.kind !== 'base64') return undefined;
  const made = part.extras?.[dialect];
  return {
    output_format: source.mediaType.replace(/^image\//, ''),
    ...made,
    type: 'image_generation_call',
    id: asText(made?.id) ?? newId('ig_'),
    status: 'completed',
    result: source.data,
  };
}

/**
 * An opaque part that only this wire has, or a web search of another provider; undefined for parts that no item can
 * express.
 */
function wholeOutput(part: ChatPart, newId: (prefix: string) => string): JsonObject | undefined {
  if (part.type === 'opaque') return part.dialect === dialect ? part.value : undefined;
  if (part.type !== 'provider-tool') return undefined;
  return part.dialect === dialect ? part.value : webSearchCall(part, newId);
}

function webSearchCall(part: ProviderToolPart, newId: (prefix: string) => string): JsonObject | undefined {
  if (part.name !== 'web_search' || part.phase !== 'call') return undefined;
  const query = asText(asObject(part.value.input)?.query) ?? '';
  const action = { type: 'search', query };
  return { type: 'web_search_call', id: newId('ws_'), status: 'completed', action };
}

/** The inverse of `decodeLogprobs`. */
function encodeLogprobs(logprobs: readonly TokenLogprob[]): readonly JsonObject[] {
  return logprobs.map((one) => ({ ...encodeToken(one), top_logprobs: one.top.map(encodeToken) }));
}

function encodeToken({ token, logprob, bytes }: Omit<TokenLogprob, 'top'>): JsonObject {
  return { token, logprob, bytes: bytes ?? [...Buffer.from(token)] };
}
