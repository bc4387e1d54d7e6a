import type { JsonObject, ToolResultPart } from '../../../core/dialects/canonical/chat-part.ts';
import { parseExactObject, stringifyExact } from '../exact-json.ts';
import { asArray, asObject, asText } from '../json-reading.ts';
import { decodeFileData, decodeInlineData, encodeMedia } from './media.ts';
import { memberObject } from './member.ts';

/**
 * `functionResponse.response` for a result: the object itself when the tool answered with one, else its text under
 * `output`, or under `error` when it failed, which are the names that Google documents.
 */
export function encodeResponse(result: ToolResultPart): JsonObject {
  const text = result.content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
  if (result.isError === true) return { error: text };
  const object = text.trimStart().startsWith('{') ? parseExactObject(text) : undefined;
  return object ?? { output: text };
}

/** What a result holds beside text, as parts of this wire, and how many parts it cannot say. */
export function encodeResultMedia(result: ToolResultPart): {
  readonly parts: readonly JsonObject[];
  readonly lost: number;
} {
  const parts: JsonObject[] = [];
  let lost = 0;
  for (const part of result.content) {
    if (part.type === 'text') continue;
    const media = encodeMedia(part);
    if (media === undefined) lost++;
    else parts.push(media);
  }
  return { parts, lost };
}

/** The result that a `functionResponse` part carries; its call is named by the caller of this function. */
export function decodeResult(response: JsonObject, callId: string): ToolResultPart {
  const name = asText(response.name);
  const answer = memberObject(response, 'response') ?? {};
  const failure = onlyText(answer, 'error');
  const text = failure ?? onlyText(answer, 'output') ?? onlyText(answer, 'result') ?? stringifyExact(answer);
  const result: { -readonly [key in keyof ToolResultPart]: ToolResultPart[key] } = {
    type: 'tool-result',
    callId,
    kind: 'function',
    content: [{ type: 'text', text }, ...asArray(response.parts).flatMap(decodeMedia)],
  };
  if (name !== undefined) result.name = name;
  if (failure !== undefined) result.isError = true;
  return result;
}

function decodeMedia(value: unknown): ToolResultPart['content'] {
  const part = asObject(value);
  if (part === undefined) return [];
  const blob = memberObject(part, 'inlineData');
  if (blob !== undefined) return [decodeInlineData(blob)];
  const file = memberObject(part, 'fileData');
  return file === undefined ? [] : [decodeFileData(file)];
}

/** The text of an object that has this member alone. */
function onlyText(answer: JsonObject, name: string): string | undefined {
  const value = answer[name];
  return typeof value === 'string' && Object.keys(answer).length === 1 ? value : undefined;
}
