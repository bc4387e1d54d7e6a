import { isJsonType, parseJson } from '../../../core/base/json.ts';
import { headerValue } from '../../../core/ports/header-list.ts';
import type { ApiAnswer } from './api-call.ts';
import { isRecord, type JsonRecord } from './document.ts';

/** Longest piece of an error's body, in characters. */
const maxErrorText = 4_096;
const maxHeaderText = 2_048;

/** Result of `tools/call`. */
export type ToolResult = JsonRecord;

/** A call that brought nothing, in words for the model. */
export function failedResult(text: string): ToolResult {
  return { content: [{ type: 'text', text }], isError: true };
}

/** The answer of the API in the terms of the protocol. `uri` names what binary answers hold. */
export function toolResult(answer: ApiAnswer, method: string, uri: string): ToolResult {
  const { status, headers, body } = answer;
  const encoding = headerValue(headers, 'content-encoding')?.trim().toLowerCase() ?? '';
  if (encoding !== '' && encoding !== 'identity') {
    return failedResult('The API sent a compressed answer, which it was not asked for.');
  }
  if (status >= 300) return failedResult(failureText(answer));
  if (method === 'HEAD') return { content: [{ type: 'text', text: headText(answer) }] };
  if (body.length === 0) {
    const location = headerValue(headers, 'location');
    const place = location === undefined ? '' : ` (location: ${location.slice(0, maxHeaderText)})`;
    return { content: [{ type: 'text', text: `The API answered ${status} without a body${place}.` }] };
  }
  const type = mediaType(answer);
  if (isJsonType(type)) return jsonResult(body.toString('utf8'));
  if (isTextType(type)) return { content: [{ type: 'text', text: decodedText(answer) }] };
  const data = body.toString('base64');
  if (type.startsWith('image/')) return { content: [{ type: 'image', mimeType: type, data }] };
  const resource = { uri, mimeType: type === '' ? 'application/octet-stream' : type, blob: data };
  return { content: [{ type: 'resource', resource }] };
}

/** An API that says JSON and sends something else is repeated as text. */
function jsonResult(text: string): ToolResult {
  const content = [{ type: 'text', text }];
  const value = parseJson(text);
  return isRecord(value) ? { content, structuredContent: value } : { content };
}

function failureText(answer: ApiAnswer): string {
  const { status, headers, body } = answer;
  if (status < 400) {
    const location = headerValue(headers, 'location')?.slice(0, maxHeaderText) ?? 'nowhere';
    return `The API answered ${status}: it redirects to ${location}, which is not followed.`;
  }
  const type = mediaType(answer);
  const said = isJsonType(type) || isTextType(type) ? decodedText(answer).trim() : '';
  if (said === '') {
    const kind = body.length === 0 ? 'without a body' : `with ${body.length} bytes of ${type || 'no type'}`;
    return `The API answered ${status} ${kind}.`;
  }
  const piece = said.length > maxErrorText ? `${said.slice(0, maxErrorText)}… (cut)` : said;
  return `The API answered ${status}:\n${piece}`;
}

const toldOfHead = ['content-type', 'content-length', 'etag', 'last-modified', 'location'];

function headText({ status, headers }: ApiAnswer): string {
  const lines = toldOfHead.flatMap((name) => {
    const value = headerValue(headers, name);
    return value === undefined ? [] : [`${name}: ${value.slice(0, maxHeaderText)}`];
  });
  return [`The API answered ${status}.`, ...lines].join('\n');
}

function mediaType({ headers }: ApiAnswer): string {
  return (headerValue(headers, 'content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

function isTextType(type: string): boolean {
  return /^(text\/.+|application\/(.+\+)?(xml|yaml|x-yaml|javascript|x-ndjson|graphql|x-www-form-urlencoded))$/.test(
    type,
  );
}

function decodedText({ headers, body }: ApiAnswer): string {
  const charset = /;\s*charset="?([\w-]+)/i.exec(headerValue(headers, 'content-type') ?? '')?.[1] ?? 'utf-8';
  try {
    return new TextDecoder(charset).decode(body);
  } catch {
    return body.toString('utf8');
  }
}
