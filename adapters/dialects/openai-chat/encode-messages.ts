import type { ChatPart, ToolResultPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatMessage } from '../../../core/dialects/canonical/chat-request.ts';
import { reportForeignExtras } from '../../../core/dialects/canonical/encode-report.ts';
import type { JsonObject } from '../json-reading.ts';
import { encodeToolCall } from './answer-message.ts';
import { encodeCache, encodeContent, encodePart, type EncodeContext } from './encode-content.ts';
import { takesSignatures, takesThoughts } from './model-kind.ts';

/** The conversation as the host wants it. What cannot be said is reported under `messages[i]`. */
export function encodeMessages(messages: readonly ChatMessage[], context: EncodeContext): JsonObject[] {
  const encoded: JsonObject[] = [];
  /** Media that tools returned: results are text on this wire, so the user shows it behind them. */
  let shown: JsonObject[] = [];
  const show = (): void => {
    if (shown.length > 0) encoded.push({ role: roleFor('user', context), content: shown });
    shown = [];
  };
  messages.forEach((message, i) => {
    const place = `messages[${i}]`;
    if (message.role === 'tool') {
      encodeResults(message, place, context, encoded, shown);
      return;
    }
    show();
    encoded.push(encodeMessage(message, place, context));
  });
  show();
  return encoded;
}

function roleFor(role: string, { host }: EncodeContext): string {
  return host.quirks.roles?.[role] ?? role;
}

function encodeMessage(message: ChatMessage, place: string, context: EncodeContext): JsonObject {
  const encoded: JsonObject = { role: roleFor(message.role, context) };
  if (message.role === 'assistant') encodeAssistant(encoded, message.parts, place, context);
  else if (message.role === 'user') encoded.content = encodeContent(message.parts, place, context);
  else encoded.content = encodeContent(textsAlone(message.parts, place, context), place, context);
  if (message.name !== undefined) encoded.name = message.name;
  addOwnExtras(encoded, message, place, context);
  return encoded;
}

function addOwnExtras(
  encoded: JsonObject,
  message: ChatMessage,
  place: string,
  { report }: EncodeContext,
): void {
  reportForeignExtras(message.extras, ['openai-chat'], report, `${place}.`);
  Object.assign(encoded, message.extras?.['openai-chat']);
}

/** Instructions are text. */
function textsAlone(
  parts: readonly ChatPart[],
  place: string,
  { report }: EncodeContext,
): readonly ChatPart[] {
  return parts.filter((part, i) => {
    if (part.type === 'text' || part.type === 'opaque') return true;
    report.drop(`${place}.content[${i}]`);
    return false;
  });
}

function encodeAssistant(
  encoded: JsonObject,
  parts: readonly ChatPart[],
  place: string,
  context: EncodeContext,
): void {
  const content: JsonObject[] = [];
  const calls: JsonObject[] = [];
  parts.forEach((part, i) => {
    const where = `${place}.content[${i}]`;
    switch (part.type) {
      case 'text':
      case 'opaque': {
        const said = encodePart(part, where, context);
        if (said !== undefined) content.push(said);
        return;
      }
      case 'tool-call':
        calls.push(encodeCall(part, `${place}.tool_calls[${calls.length}]`, context));
        return;
      case 'refusal':
        encoded.refusal = ((encoded.refusal as string | undefined) ?? '') + part.text;
        return;
      case 'reasoning':
        encodeThoughts(encoded, part, where, context);
        return;
      case 'audio':
        if (part.source.kind === 'file-id' && part.source.dialect === 'openai-chat') {
          encoded.audio = { id: part.source.id };
          return;
        }
        break;
      default:
    }
    context.report.drop(where);
  });
  encoded.content = assistantContent(content, calls.length > 0 || 'refusal' in encoded || 'audio' in encoded);
  if (calls.length > 0) encoded.tool_calls = calls;
}

/** One string where it can be one: many hosts take no list of parts from an assistant. */
function assistantContent(content: readonly JsonObject[], mayBeNull: boolean): unknown {
  if (content.length === 0) return mayBeNull ? null : '';
  const isPlain = content.every((part) => part.type === 'text' && Object.keys(part).length === 2);
  return isPlain ? content.map((part) => part.text).join('') : content;
}

function encodeCall(
  part: Extract<ChatPart, { type: 'tool-call' }>,
  place: string,
  context: EncodeContext,
): JsonObject {
  const { signature, ...unsigned } = part;
  const keep = signature !== undefined && takesSignatures(context.host);
  if (signature !== undefined && !keep)
    context.report.drop(`${place}.extra_content.google.thought_signature`);
  const call = encodeToolCall(keep ? part : unsigned);
  encodeCache(call, part, place, context);
  reportForeignExtras(part.extras, ['openai-chat'], context.report, `${place}.`);
  return Object.assign(call, part.extras?.['openai-chat']);
}

function encodeThoughts(
  encoded: JsonObject,
  part: Extract<ChatPart, { type: 'reasoning' }>,
  place: string,
  { host, report }: EncodeContext,
): void {
  reportForeignExtras(part.extras, ['openai-chat'], report, `${place}.`);
  if (part.redacted !== undefined) report.drop(`${place}.redacted_thinking`);
  if (part.signature !== undefined) report.drop(`${place}.signature`);
  if (part.text === '') return;
  if (!takesThoughts(host)) {
    report.drop(`${place}.reasoning_content`);
    return;
  }
  const name = host.quirks.rename?.reasoning_content ?? 'reasoning_content';
  encoded[name] = ((encoded[name] as string | undefined) ?? '') + part.text;
}

function encodeResults(
  message: ChatMessage,
  place: string,
  context: EncodeContext,
  encoded: JsonObject[],
  shown: JsonObject[],
): void {
  message.parts.forEach((part, i) => {
    const where = `${place}.content[${i}]`;
    if (part.type === 'tool-result') encoded.push(encodeResult(part, where, context, shown));
    else context.report.drop(where);
  });
  const last = encoded.at(-1);
  if (last !== undefined && message.parts.length > 0) addOwnExtras(last, message, place, context);
}

function encodeResult(
  result: ToolResultPart,
  place: string,
  context: EncodeContext,
  shown: JsonObject[],
): JsonObject {
  if (result.isError === true) context.report.drop(`${place}.is_error`);
  const texts: ChatPart[] = [];
  result.content.forEach((part, i) => {
    if (part.type === 'text') texts.push(part);
    else {
      const media = encodePart(part, `${place}.content[${i}]`, context);
      if (media === undefined) return;
      shown.push(media);
      context.report.emulate(`${place}.content[${i}]`);
    }
  });
  const encoded: JsonObject = {
    role: roleFor('tool', context),
    tool_call_id: result.callId,
    content: encodeContent(texts, place, context),
  };
  encodeCache(encoded, result, place, context);
  reportForeignExtras(result.extras, ['openai-chat'], context.report, `${place}.`);
  return encoded;
}
