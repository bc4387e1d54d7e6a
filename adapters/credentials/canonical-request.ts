import { createHash } from 'node:crypto';
import type { SignableRequest } from '../../core/ports/credentials.ts';

/** The headers that a signature covers, sorted, lower-case, with their values as they are signed. */
export type SignedHeaders = readonly (readonly [name: string, value: string])[];

/** The text that AWS and we must write alike (Signature Version 4, canonical request). */
export function canonicalRequest(
  request: SignableRequest,
  signed: SignedHeaders,
  payloadHash: string,
  pathIsEncodedTwice: boolean,
): string {
  const [path = '', query = ''] = splitOnce(request.path);
  const headers = signed.map(([name, value]) => `${name}:${value}\n`).join('');
  return [
    request.method.toUpperCase(),
    pathIsEncodedTwice ? canonicalPath(path) : plainPath(path),
    canonicalQuery(query),
    headers,
    headerNames(signed),
    payloadHash,
  ].join('\n');
}

/** `content-type;host;x-amz-date`. */
export function headerNames(signed: SignedHeaders): string {
  return signed.map(([name]) => name).join(';');
}

/** SHA-256 in hexadecimal. */
export function hashOf(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}

/** Values of one name joined with commas, white space folded, sorted by name. `headers` is flat. */
export function canonicalHeaders(headers: readonly string[]): SignedHeaders {
  const values = new Map<string, string>();
  for (let i = 0; i < headers.length; i += 2) {
    const name = (headers[i] as string).toLowerCase();
    const value = (headers[i + 1] as string).trim().replaceAll(/\s+/g, ' ');
    const before = values.get(name);
    values.set(name, before === undefined ? value : `${before},${value}`);
  }
  return [...values].sort(([a], [b]) => compare(a, b));
}

/** The path as it is sent, without dots and doubled slashes, each segment encoded once more. */
function canonicalPath(path: string): string {
  const segments: string[] = [];
  for (const segment of path.split('/')) {
    if (segment === '..') segments.pop();
    else if (segment !== '' && segment !== '.') segments.push(encode(segment));
  }
  const tail = segments.length > 0 && path.endsWith('/') ? '/' : '';
  return `/${segments.join('/')}${tail}`;
}

/** As S3 wants it: nothing removed, encoded once. */
function plainPath(path: string): string {
  return path
    .split('/')
    .map((segment) => encode(decode(segment)))
    .join('/');
}

function canonicalQuery(query: string): string {
  if (query === '') return '';
  return query
    .split('&')
    .filter((pair) => pair !== '')
    .map((pair) => {
      const at = pair.indexOf('=');
      const [name, value] = at === -1 ? [pair, ''] : [pair.slice(0, at), pair.slice(at + 1)];
      return [encode(decode(name)), encode(decode(value))] as const;
    })
    .sort(([nameA, valueA], [nameB, valueB]) => compare(nameA, nameB) || compare(valueA, valueB))
    .map(([name, value]) => `${name}=${value}`)
    .join('&');
}

function splitOnce(path: string): string[] {
  const at = path.indexOf('?');
  return at === -1 ? [path] : [path.slice(0, at), path.slice(at + 1)];
}

/** Everything but the unreserved characters of RFC 3986, as upper-case hexadecimal of its UTF-8. */
function encode(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
