import type { ChatMessage } from '../../../core/dialects/canonical/chat-request.ts';
import type { ChatPart, JsonObject, ToolResultPart } from '../../../core/dialects/canonical/chat-part.ts';
import { reportForeignExtras, type EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import { nameToolResults } from '../../../core/dialects/canonical/name-tool-results.ts';
import { encodeModelPart, siblings } from './encode-part.ts';
import { encodeMedia } from './media.ts';
import { isGemini3 } from './thinking.ts';
import { encodeResponse, encodeResultMedia } from './tool-result.ts';

/** A conversation in this wire's two parts. */
export interface EncodedContents {
  readonly contents: readonly JsonObject[];
  readonly systemInstruction: JsonObject | undefined;
}

/**
 * Stands for the signature of a call that another model made: without one Gemini 3 refuses the history
 * (ai.google.dev/gemini-api/docs/thought-signatures).
 */
const foreignSignature = 'skip_thought_signature_validator';
const ownExtras = ['google-gemini', 'google-vertex'] as const;

/**
 * The messages as `contents` of the roles `user` and `model`, neighbours joined, with every system and developer message
 * in `systemInstruction`.
 */
export function encodeContents(
  messages: readonly ChatMessage[],
  model: string,
  report: EncodeReport,
): EncodedContents {
  const contents: { role: string; parts: JsonObject[] }[] = [];
  const system: JsonObject[] = [];
  nameToolResults(messages).forEach((message, i) => {
    const place = `messages[${i}]`;
    if (message.name !== undefined) report.drop(`${place}.name`);
    reportForeignExtras(message.extras, ownExtras, report, `${place}.`);
    const parts = encodeMessage(message, model, place, report);
    if (message.role === 'system' || message.role === 'developer') {
      // Its place within the conversation is lost.
      if (contents.length > 0) report.emulate(`${place}.role`);
      system.push(...parts);
      return;
    }
    if (parts.length === 0) return;
    const role = message.role === 'assistant' ? 'model' : 'user';
    const last = contents.at(-1);
    if (last?.role === role) last.parts.push(...parts);
    else contents.push({ role, parts });
  });
  return { contents, systemInstruction: system.length === 0 ? undefined : { parts: system } };
}

function encodeMessage(
  message: ChatMessage,
  model: string,
  place: string,
  report: EncodeReport,
): JsonObject[] {
  const parts = message.parts.flatMap((part, j) => {
    const at = message.role === 'tool' ? place : `${place}.content[${j}]`;
    reportPart(part, at, report);
    if (part.type === 'tool-result') return encodeResult(part, model, at, report);
    const encoded = message.role === 'assistant' ? encodeModelPart(part) : encodeSentPart(part);
    if (encoded === undefined && !saysNothing(part)) report.drop(at);
    return encoded === undefined ? [] : [encoded];
  });
  if (message.role === 'assistant' && isGemini3(model)) signCalls(parts, place, report);
  return parts;
}

/** A part of a user's or a system's turn. */
function encodeSentPart(part: ChatPart): JsonObject | undefined {
  const media = part.type === 'image' || part.type === 'audio' || part.type === 'file';
  const encoded = media ? encodeMedia(part) : encodeModelPart(part);
  return encoded === undefined ? undefined : Object.assign(encoded, siblings(part));
}

/** A text without characters, not one that cannot be said. */
function saysNothing(part: ChatPart): boolean {
  return (part.type === 'text' || part.type === 'reasoning') && part.text === '' && !('redacted' in part);
}

/** Reports what stands on a part and has no place in this wire. */
function reportPart(part: ChatPart, place: string, report: EncodeReport): void {
  reportForeignExtras(part.extras, ownExtras, report, `${place}.`);
  if (part.cache !== undefined) report.drop(`${place}.cache_control`);
  if (part.type === 'image' && part.detail !== undefined && part.detail !== 'auto')
    report.drop(`${place}.image_url.detail`);
  if (part.type === 'text' && part.citations !== undefined && part.citations.length > 0)
    report.drop(`${place}.citations`);
  if (part.type === 'file') {
    if (part.filename !== undefined) report.drop(`${place}.file.filename`);
    if (part.context !== undefined) report.drop(`${place}.context`);
    if (part.citations === true) report.drop(`${place}.citations`);
  }
  if (part.type === 'tool-call' && part.kind === 'custom') report.emulate(place);
}

/**
 * A result. Media travel within it for Gemini 3 (documented as multimodal function responses); older models get them
 * as parts of the turn.
 */
function encodeResult(
  result: ToolResultPart,
  model: string,
  place: string,
  report: EncodeReport,
): JsonObject[] {
  const response: JsonObject = { id: result.callId };
  // The wire requires a name; a result whose call is not in the conversation has only its id.
  response.name = result.name ?? result.callId;
  response.response = encodeResponse(result);
  const { parts, lost } = encodeResultMedia(result);
  if (lost > 0) report.drop(`${place}.content`);
  if (result.kind === 'custom') report.emulate(place);
  if (parts.length === 0) return [{ functionResponse: response }];
  if (isGemini3(model) && parts.every((part) => 'inlineData' in part)) {
    response.parts = parts;
    return [{ functionResponse: response }];
  }
  report.emulate(`${place}.content`);
  return [{ functionResponse: response }, ...parts];
}

/** Of parallel calls the first bears the signature. */
function signCalls(parts: readonly JsonObject[], place: string, report: EncodeReport): void {
  const calls = parts.filter((part) => 'functionCall' in part);
  const [first] = calls;
  if (first === undefined || calls.some((part) => part.thoughtSignature !== undefined)) return;
  first.thoughtSignature = foreignSignature;
  report.emulate(`${place}.tool_calls[0].extra_content.google.thought_signature`);
}
