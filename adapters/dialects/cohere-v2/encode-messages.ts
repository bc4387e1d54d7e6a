import type {
  ChatPart,
  ImagePart,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatMessage, ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import { dataUrl } from '../data-url.ts';
import type { JsonObject } from '../json-reading.ts';
import { citationsToSend } from './citations.ts';
import { documentOf } from './documents.ts';
import { ownExtras, reportExtras, reportPartRest } from './request-report.ts';

/** What a conversation becomes: messages, and the text files of its users as documents to cite. */
export interface EncodedConversation {
  readonly messages: readonly JsonObject[];
  readonly documents: readonly JsonObject[];
}

interface Place {
  readonly name: string;
  readonly report: EncodeReport;
  readonly documents: JsonObject[];
}

/** `thinks`: the model writes its thoughts down as thinking blocks, not as a plan before its tool calls. */
export function encodeMessages(
  request: ChatRequest,
  thinks: boolean,
  report: EncodeReport,
): EncodedConversation {
  const messages: JsonObject[] = [];
  const documents: JsonObject[] = [];
  for (const [index, message] of request.messages.entries()) {
    const place = { name: `messages[${index}]`, report, documents };
    if (message.name !== undefined) report.drop(`${place.name}.name`);
    reportExtras(message.extras, report, `${place.name}.`);
    for (const encoded of encodeMessage(message, thinks, place)) {
      messages.push(Object.assign(encoded, ownExtras(message.extras)));
    }
  }
  return { messages, documents };
}

function encodeMessage(message: ChatMessage, thinks: boolean, place: Place): JsonObject[] {
  switch (message.role) {
    case 'system':
    case 'developer':
      return [{ role: 'system', content: content(message.parts, place) }];
    case 'user':
      return [{ role: 'user', content: content(message.parts, place) }];
    case 'assistant':
      return [assistant(message.parts, thinks, place)];
    case 'tool':
      return message.parts.flatMap((part, index) => {
        const at = partPlace(place, index);
        reportPartRest(part, place.report, at);
        if (part.type === 'tool-result') return [toolResult(part, { ...place, name: at })];
        place.report.drop(at);
        return [];
      });
  }
}

/** One text as a string, everything else as blocks. */
function content(parts: readonly ChatPart[], place: Place): string | JsonObject[] {
  const blocks: JsonObject[] = [];
  for (const [index, part] of parts.entries()) {
    const at = partPlace(place, index);
    reportPartRest(part, place.report, at);
    const block = contentBlock(part, at, place);
    if (block !== undefined) blocks.push(block);
  }
  return plainText(blocks) ?? blocks;
}

function contentBlock(part: ChatPart, at: string, place: Place): JsonObject | undefined {
  switch (part.type) {
    case 'text':
      if (part.citations !== undefined) place.report.drop(`${at}.citations`);
      return textBlock(part);
    case 'image':
      return imageBlock(part) ?? dropped(place, at);
    case 'file': {
      const document = documentOf(part);
      if (document === undefined) return dropped(place, at);
      place.documents.push(document);
      place.report.emulate(at);
      return undefined;
    }
    case 'refusal':
      place.report.emulate(at);
      return { type: 'text', text: part.text };
    case 'opaque':
      return part.dialect === 'cohere-v2' ? part.value : dropped(place, at);
    default:
      return dropped(place, at);
  }
}

function textBlock(part: TextPart): JsonObject {
  return { type: 'text', text: part.text, ...ownExtras(part.extras) };
}

function imageBlock({ source, detail, extras }: ImagePart): JsonObject | undefined {
  if (source.kind !== 'url' && source.kind !== 'base64') return undefined;
  const url = source.kind === 'url' ? source.url : dataUrl(source);
  const image = detail === undefined ? { url } : { url, detail };
  return { type: 'image_url', image_url: image, ...ownExtras(extras) };
}

function assistant(parts: readonly ChatPart[], thinks: boolean, place: Place): JsonObject {
  const calls = parts.some(({ type }) => type === 'tool-call');
  const blocks: JsonObject[] = [];
  const toolCalls: JsonObject[] = [];
  const citations: JsonObject[] = [];
  let plan = '';
  for (const [index, part] of parts.entries()) {
    const at = partPlace(place, index);
    reportPartRest(part, place.report, at);
    if (part.type === 'tool-call') toolCalls.push(toolCall(part, at, place.report));
    else if (part.type === 'reasoning') {
      if (part.text === '') place.report.drop(at);
      else if (isPlan(part, calls, thinks)) plan += part.text;
      else blocks.push({ type: 'thinking', thinking: part.text });
    } else if (part.type === 'text') {
      citations.push(...citationsToSend(part, at, place.report));
      blocks.push(textBlock(part));
    } else {
      const block = contentBlock(part, at, place);
      if (block !== undefined) blocks.push(block);
    }
  }
  const message: JsonObject = { role: 'assistant' };
  if (plan !== '') message.tool_plan = plan;
  if (blocks.length > 0 || toolCalls.length === 0) message.content = plainText(blocks) ?? blocks;
  if (toolCalls.length > 0) message.tool_calls = toolCalls;
  if (citations.length > 0) message.citations = citations;
  return message;
}

/** A plan is thinking that stood before tool calls; what another client made of it has lost the mark. */
function isPlan(part: ReasoningPart, calls: boolean, thinks: boolean): boolean {
  return ownExtras(part.extras).tool_plan === true || (calls && !thinks);
}

function toolCall(part: ToolCallPart, at: string, report: EncodeReport): JsonObject {
  // The wire refuses arguments that are no object; some clients repeat a call without any as an empty text.
  let given = part.arguments.trim() === '' && part.kind === 'function' ? '{}' : part.arguments;
  if (part.kind === 'custom') {
    report.emulate(at);
    given = JSON.stringify({ input: given });
  }
  return { id: part.id, type: 'function', function: { name: part.name, arguments: given } };
}

function toolResult(part: ToolResultPart, place: Place): JsonObject {
  if (part.isError === true) place.report.drop(`${place.name}.is_error`);
  const blocks: JsonObject[] = [];
  for (const [index, piece] of part.content.entries()) {
    const at = partPlace(place, index);
    reportPartRest(piece, place.report, at);
    if (piece.type === 'text') blocks.push(textBlock(piece));
    else {
      const document = piece.type === 'file' ? documentOf(piece) : undefined;
      if (document === undefined) place.report.drop(at);
      else blocks.push({ type: 'document', document });
    }
  }
  return { role: 'tool', tool_call_id: part.callId, content: plainText(blocks) ?? blocks };
}

/** The text of no block or of a single bare text block; undefined for everything else. */
function plainText(blocks: readonly JsonObject[]): string | undefined {
  const [first, ...more] = blocks;
  if (first === undefined) return '';
  const bare = first.type === 'text' && more.length === 0 && Object.keys(first).length === 2;
  return bare && typeof first.text === 'string' ? first.text : undefined;
}

function partPlace({ name }: Place, index: number): string {
  return `${name}.content[${index}]`;
}

function dropped(place: Place, at: string): undefined {
  place.report.drop(at);
  return undefined;
}
