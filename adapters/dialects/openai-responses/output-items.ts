import type {
  ChatPart,
  ImagePart,
  ProviderToolPart,
  ToolCallPart,
} from '../../../core/dialects/canonical/chat-part.ts';
import { asObject, asText, type JsonObject } from '../json-reading.ts';

const dialect = 'openai-responses';

/** A call as an item of an answer. */
export function callOutput(part: ToolCallPart, id: string, text: string, status: string): JsonObject {
  const extras = part.extras?.[dialect];
  const members = { id, call_id: part.id, name: part.name, status };
  return part.kind === 'custom'
    ? { ...extras, type: 'custom_tool_call', ...members, input: text }
    : { ...extras, type: 'function_call', ...members, arguments: text };
}

/** A thought as an item: what it says as a summary, its proof as encrypted content. */
export function reasoningOutput(id: string, text: string, encrypted: string | undefined): JsonObject {
  return {
    type: 'reasoning',
    id,
    summary: text === '' ? [] : [{ type: 'summary_text', text }],
    encrypted_content: encrypted ?? null,
  };
}

/** A made picture as an item; undefined for one that is only named by an address. */
export function imageOutput(part: ImagePart, newId: (prefix: string) => string): JsonObject | undefined {
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

/** What comes whole and only this wire knows, or a web search of another provider; undefined for what no item can say. */
export function wholeOutput(part: ChatPart, newId: (prefix: string) => string): JsonObject | undefined {
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
