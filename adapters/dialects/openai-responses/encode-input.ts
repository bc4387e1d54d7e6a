import type {
  ChatPart,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatMessage } from '../../../core/dialects/canonical/chat-request.ts';
import { reportForeignExtras } from '../../../core/dialects/canonical/encode-report.ts';
import { asText, type JsonObject } from '../json-reading.ts';
import { encodeAnnotation } from './annotations.ts';
import { encodeInputPart, ownDialects, type PartContext } from './encode-content.ts';

const dialect = 'openai-responses';

/** Writes the items of a conversation. One per request. */
export class InputEncoder {
  readonly items: JsonObject[] = [];
  private readonly context: PartContext;

  constructor(context: PartContext) {
    this.context = context;
  }

  /** Adds the items of a message; `index` is its place in the request, for the report. */
  add(message: ChatMessage, index: number, role: string): void {
    const { report } = this.context;
    const place = `messages[${index}]`;
    if (message.name !== undefined) report.drop(`${place}.name`);
    reportForeignExtras(message.extras, ownDialects, report, `${place}.`);
    const at = (position: number): string => `${place}.content[${position}]`;
    if (message.role === 'assistant') message.parts.forEach((part, i) => this.assistantPart(part, at(i)));
    else if (message.role === 'tool') message.parts.forEach((part, i) => this.toolPart(part, at(i)));
    else this.inputMessage(message, place, role);
  }

  private inputMessage(message: ChatMessage, place: string, role: string): void {
    let content: JsonObject[] = [];
    const flush = (): void => {
      if (content.length > 0) this.items.push({ type: 'message', role, content });
      content = [];
    };
    message.parts.forEach((part, i) => {
      const at = `${place}.content[${i}]`;
      if (part.type === 'provider-tool' || part.type === 'tool-result') {
        flush();
        this.toolPart(part, at);
        return;
      }
      const encoded = encodeInputPart(part, at, this.context);
      if (encoded !== undefined) content.push(encoded);
    });
    flush();
  }

  private assistantPart(part: ChatPart, place: string): void {
    const { report } = this.context;
    reportForeignExtras(part.extras, ownDialects, report, `${place}.`);
    if (part.cache !== undefined) report.drop(`${place}.cache_control`);
    if (part.signature !== undefined && part.type !== 'reasoning') report.drop(`${place}.signature`);
    switch (part.type) {
      case 'text':
        return this.said(outputText(part), part);
      case 'refusal':
        return this.said({ type: 'refusal', refusal: part.text }, part);
      case 'reasoning':
        return this.reasoning(part, place);
      case 'tool-call':
        this.items.push(callItem(part));
        return;
      case 'image':
        return this.image(part, place);
      case 'audio':
        if (part.transcript === undefined) return report.drop(place);
        report.emulate(place);
        return this.said(outputText({ type: 'text', text: part.transcript }), part);
      case 'provider-tool':
      case 'opaque':
        if (part.dialect !== dialect) return report.drop(place);
        this.items.push(part.value);
        return;
      default:
        report.drop(place);
    }
  }

  /** What is said in one turn without anything between goes into one message, unless its phase differs. */
  private said(content: JsonObject, part: ChatPart): void {
    const last = this.items.at(-1);
    const phase = asText(part.extras?.[dialect]?.phase);
    if (last?.role === 'assistant' && last.phase === phase && Array.isArray(last.content)) {
      (last.content as JsonObject[]).push(content);
      return;
    }
    const message: JsonObject = { type: 'message', role: 'assistant', content: [content] };
    if (phase !== undefined) message.phase = phase;
    this.items.push(message);
  }

  /** A summary cannot be given back without its encrypted content when nobody kept the thoughts; open models show theirs. */
  private reasoning(part: ReasoningPart, place: string): void {
    const last = this.items.at(-1);
    const isThought = part.summary !== true && part.itemId !== undefined && part.text !== '';
    const isKept =
      part.signature !== undefined || (part.itemId !== undefined && (isThought || this.context.stored));
    if (part.redacted !== undefined || !isKept) {
      this.context.report.drop(place);
      return;
    }
    const joins = last?.type === 'reasoning' && part.itemId !== undefined && last.id === part.itemId;
    const item: JsonObject = joins ? last : { type: 'reasoning', summary: [] };
    if (part.itemId !== undefined) item.id = part.itemId;
    if (isThought) item.content = [{ type: 'reasoning_text', text: part.text }];
    else if (part.text !== '') item.summary = [{ type: 'summary_text', text: part.text }];
    if (part.signature !== undefined) item.encrypted_content = part.signature;
    if (!joins) this.items.push(item);
  }

  private image(part: Extract<ChatPart, { type: 'image' }>, place: string): void {
    const made = part.extras?.[dialect];
    if (made === undefined || part.source.kind !== 'base64') return this.context.report.drop(place);
    this.items.push({ ...made, type: 'image_generation_call', result: part.source.data });
  }

  private toolPart(part: ChatPart, place: string): void {
    const { report } = this.context;
    reportForeignExtras(part.extras, ownDialects, report, `${place}.`);
    if (part.type === 'provider-tool' && part.dialect === dialect) {
      this.items.push(part.value);
      return;
    }
    if (part.type !== 'tool-result') return report.drop(place);
    if (part.cache !== undefined) report.drop(`${place}.cache_control`);
    if (part.isError === true) report.drop(`${place}.is_error`);
    this.items.push({
      type: part.kind === 'custom' ? 'custom_tool_call_output' : 'function_call_output',
      call_id: part.callId,
      output: this.output(part, place),
    });
  }

  private output(part: ToolResultPart, place: string): unknown {
    const [first] = part.content;
    if (first === undefined) return '';
    const isPlain = part.content.length === 1 && first.type === 'text' && first.cache === undefined;
    if (isPlain) return first.text;
    return part.content.flatMap(
      (one, i) => encodeInputPart(one, `${place}.content[${i}]`, this.context) ?? [],
    );
  }
}

function outputText(part: TextPart): JsonObject {
  return {
    type: 'output_text',
    text: part.text,
    annotations: (part.citations ?? []).map((citation) => encodeAnnotation(citation, part.text.length)),
  };
}

/** A call as an item of a history. */
function callItem(part: ToolCallPart): JsonObject {
  const item: JsonObject = { ...part.extras?.[dialect] };
  if (part.kind === 'custom') item.type = 'custom_tool_call';
  else item.type = 'function_call';
  if (part.itemId !== undefined) item.id = part.itemId;
  item.call_id = part.id;
  item.name = part.name;
  if (part.kind === 'custom') item.input = part.arguments;
  else item.arguments = part.arguments === '' ? '{}' : part.arguments;
  return item;
}
