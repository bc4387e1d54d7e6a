import type { ErrorObject } from 'ajv/dist/2020.js';
import type { ConversationText, RequestIssue } from '../../core/dialects/dialect.ts';
import { asObject, asText, type JsonObject } from './json-reading.ts';
import type { CacheMarker, MediaSource } from '../../core/dialects/canonical/chat-part.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { pointerSegments } from '../../core/base/json.ts';
import { decodePercent } from '../../core/base/bytes.ts';

/** Media in URLs, to and from their sources. */
export const dataUrls = { source: sourceOfUrl, encode: dataUrl };

/** Issues of a request body, for its error. */
export const bodyIssues = { describe: describeValue, body: bodyIssue, of: issueOf, unreadable };

/** Members of a request body, read or written one at a time. */
export const requestMember = {
  number: numberMember,
  boolean: booleanMember,
  text: textMember,
  texts: textsMember,
  cache: cacheMember,
  unknown: unknownMembers,
  given,
};

/** Short enumerated values are shown; other text of a request never is. */
const maxShownCharacters = 40;

/** Describes a value for an error message without repeating a conversation. */
function describeValue(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (typeof value === 'string') return `a string of ${countWithNoun(value.length, 'character')}`;
  if (Array.isArray(value)) return `an array of ${countWithNoun(value.length, 'item')}`;
  if (typeof value === 'object' && value !== null) return 'an object';
  // A number, a BigInt, a boolean or null.
  return `${value as number}`;
}

/** The issue of a body that is not a JSON object; undefined when it is one. */
function bodyIssue(body: unknown): RequestIssue | undefined {
  if (asObject(body) !== undefined) return undefined;
  return { param: 'body', message: `body must be a JSON object; found ${describeValue(body)}.` };
}

/** An issue from the first error that ajv (run with `verbose`) found in `body`. */
function issueOf(error: ErrorObject, body: unknown): RequestIssue {
  const path = pointerSegments(error.instancePath);
  const missing = asObject(error.params)?.missingProperty;
  if (error.keyword === 'required' && typeof missing === 'string') {
    const param = paramOf([...path, missing], body);
    return { param, message: `${param} is required and was not given.` };
  }
  const param = paramOf(path, body);
  return { param, message: `${param} must ${ruleOf(error)}; found ${describeFound(error)}.` };
}

/** A path in OpenAI's notation: `tools[3].function.name`. The body itself is `body`. */
function paramOf(path: readonly string[], body: unknown): string {
  if (path.length === 0) return 'body';
  let name = '';
  let parent = body;
  for (const segment of path) {
    const inArray = Array.isArray(parent);
    name += inArray ? `[${segment}]` : name === '' ? segment : `.${segment}`;
    parent = inArray ? (parent as unknown[])[Number(segment)] : asObject(parent)?.[segment];
  }
  return name;
}

function ruleOf({ keyword, schema, params }: ErrorObject): string {
  switch (keyword) {
    case 'type':
      return `be ${listOf(schema, typeName)}`;
    case 'enum':
      return `be ${listOf(schema, (value) => `'${value}'`)}`;
    case 'const':
      return `be '${String(schema)}'`;
    case 'not':
      return 'not be null';
    case 'minItems':
    case 'maxItems':
      return `hold ${keyword === 'minItems' ? 'at least' : 'at most'} ${countWithNoun(Number(schema), 'item')}`;
    default:
      return asObject(params)?.rule === undefined ? `satisfy "${keyword}"` : String(asObject(params)?.rule);
  }
}

function describeFound({ keyword, data }: ErrorObject): string {
  const shown = (keyword === 'enum' || keyword === 'const') && typeof data === 'string';
  return shown && data.length <= maxShownCharacters ? JSON.stringify(data) : describeValue(data);
}

function countWithNoun(amount: number, noun: string): string {
  return `${amount} ${noun}${amount === 1 ? '' : 's'}`;
}

function typeName(type: string): string {
  return type === 'array' || type === 'object' ? `an ${type}` : type === 'null' ? 'null' : `a ${type}`;
}

/** `a`, `a or b`, `a, b or c`. Null is left out beside other values: it means "not given". */
function listOf(schema: unknown, show: (value: string) => string): string {
  const values = (Array.isArray(schema) ? schema.map(String) : [String(schema)]).filter(
    (value, _position, all) => value !== 'null' || all.length === 1,
  );
  const shown = values.map(show);
  const last = shown.pop() ?? '';
  return shown.length === 0 ? last : `${shown.join(', ')} or ${last}`;
}

/** The refusal of a request member: the rule, and the value found. */
function unreadable(param: string, rule: string, found: unknown): GatewayError {
  return new GatewayError('invalid_request', `${param} must ${rule}; found ${describeValue(found)}.`, {
    param,
  });
}

/** A number of the request. Absent and null are undefined; anything else throws `invalid_request`. */
function numberMember(body: JsonObject, name: string): number | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'bigint') return Number(value);
  if (typeof value !== 'number') throw unreadable(name, 'be a number', value);
  return value;
}

/** A boolean of the request, by the same rules. */
function booleanMember(body: JsonObject, name: string): boolean | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'boolean') throw unreadable(name, 'be true or false', value);
  return value;
}

/** A text of the request, by the same rules. */
function textMember(body: JsonObject, name: string): string | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'string') throw unreadable(name, 'be a string', value);
  return value;
}

/** A string or a list of strings as a list, by the same rules. */
function textsMember(body: JsonObject, name: string): readonly string[] | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'string') return [value];
  if (!Array.isArray(value) || !value.every((item): item is string => typeof item === 'string')) {
    throw unreadable(name, 'be a string or an array of strings', value);
  }
  return value;
}

/**
 * A prompt cache marker (`cache_control: { type: 'ephemeral', ttl }`) in the form of gateways and hosts of Anthropic
 * models.
 */
function cacheMember(holder: JsonObject): CacheMarker | undefined {
  const marker = asObject(holder.cache_control);
  if (marker === undefined) return undefined;
  const ttl = asText(marker.ttl);
  return ttl === undefined ? {} : { ttl };
}

/** The members outside `known`; undefined when there are none. */
function unknownMembers(holder: JsonObject, known: ReadonlySet<string>): JsonObject | undefined {
  let unknown: JsonObject | undefined;
  for (const name in holder) {
    if (known.has(name) || name === '__proto__') continue;
    const value = holder[name];
    if (value === null || value === undefined) continue;
    unknown ??= {};
    unknown[name] = value;
  }
  return unknown;
}

/** The value without its undefined members. */
function given<T extends object>(value: { [K in keyof T]: T[K] | undefined }): T {
  const said = { ...value };
  for (const name in said) if (said[name] === undefined) delete said[name];
  return said as T;
}

/**
 * A `data:` URL as base64 with its media type, any other URL unchanged. `fallback` is the media type of a `data:` URL
 * without one.
 */
function sourceOfUrl(url: string, fallback = 'application/octet-stream'): MediaSource {
  if (!/^data:/i.test(url.slice(0, 5))) return { kind: 'url', url };
  const comma = url.indexOf(',');
  if (comma === -1) return { kind: 'url', url };
  const head = url.slice(5, comma);
  const isBase64 = /;\s*base64$/i.test(head);
  const mediaType = (head.split(';', 1)[0] as string).trim().toLowerCase() || fallback;
  const payload = url.slice(comma + 1);
  if (isBase64) return { kind: 'base64', mediaType, data: payload };
  return { kind: 'base64', mediaType, data: Buffer.from(decodePercent(payload), 'utf8').toString('base64') };
}

/** The `data:` URL of these bytes. */
function dataUrl(source: { readonly mediaType: string; readonly data: string }): string {
  return `data:${source.mediaType};base64,${source.data}`;
}

/**
 * Adds every text of a content value: a string, an array of strings, or parts of any type that hold a `text` (or
 * `refusal`) string. Parts without text (images, token numbers) are left out.
 */
export function collectTexts(
  texts: ConversationText[],
  role: string,
  content: unknown,
  path: readonly (string | number)[],
): void {
  if (typeof content === 'string') {
    texts.push({ role, text: content, path });
    return;
  }
  if (!Array.isArray(content)) return;
  content.forEach((part: unknown, i) => {
    if (typeof part === 'string') {
      texts.push({ role, text: part, path: [...path, i] });
      return;
    }
    const members = asObject(part);
    if (members === undefined) return;
    for (const member of ['text', 'refusal']) {
      const text = members[member];
      if (typeof text === 'string') texts.push({ role, text, path: [...path, i, member] });
    }
  });
}
