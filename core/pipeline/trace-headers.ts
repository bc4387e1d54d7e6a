import { GatewayError } from '../errors/gateway-error.ts';
import type { Exchange } from './exchange.ts';
import type { RequestFacts } from './facts.ts';
import { readTraceParent, spanIdOfRequest } from '../base/trace-context.ts';
import { isHeaderName } from '../base/header-names.ts';

/** The minimum that W3C Baggage requires implementations to carry; the rest is not read. */
const maxMembers = 64;
const maxLength = 8192;

/** `baggage-octet`, where a `%` begins two hexadecimal digits. */
const value = /^(?:[!#$&-+\--:<-[\]-~]|%[0-9A-Fa-f]{2})*$/;

/**
 * Members of the header `baggage` of W3C Baggage: values percent-decoded, properties left out, members of another form
 * skipped, the last of equal names. At most the first 64, and those that end within 8192 bytes.
 */
export function readBaggage(header: string): ReadonlyMap<string, string> {
  const members = new Map<string, string>();
  const list = header.split(',');
  let end = -1;
  for (let i = 0; i < list.length && i < maxMembers; i++) {
    const item = list[i] as string;
    end += item.length + 1;
    if (end > maxLength) break;
    const [member = ''] = item.split(';', 1);
    const equals = member.indexOf('=');
    if (equals === -1) continue;
    const name = member.slice(0, equals).trim();
    const text = member.slice(equals + 1).trim();
    if (isHeaderName(name) && value.test(text)) members.set(name, decode(text));
  }
  return members;
}

/** Octets that are not UTF-8 become U+FFFD, as the standard requires. */
function decode(text: string): string {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    const bytes = text.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
    return Buffer.from(bytes, 'latin1').toString('utf8');
  }
}

const maxIdLength = 255;
const maxMetadataKeys = 64;
const maxMetadataLength = 128;

/**
 * Takes trace ids and metadata from the headers: the service headers first, then W3C `traceparent` and `baggage`. A
 * request without a trace id is its own trace. One that came with a `traceparent` is a span of that trace, with an id
 * derived from the request's and the name `METHOD path` unless it names its own. Throws `invalid_header` for metadata
 * that is not an object of short strings, and for a boolean header of the gateway that is neither true nor false; faults
 * in the W3C headers are ignored, as the standards require.
 */
export function readTraceHeaders(exchange: Exchange): void {
  const { facts } = exchange;
  const wrong = exchange.wrongFlag();
  if (wrong !== undefined) {
    const value = (exchange.service(wrong) ?? '').slice(0, 200);
    throw new GatewayError(
      'invalid_header',
      `The ${wrong} header is ${JSON.stringify(value)}. Send true or false, or leave it out.`,
      { param: wrong },
    );
  }
  const header = exchange.header('traceparent');
  const parent = header === undefined ? undefined : readTraceParent(header);
  facts.traceId = identifier(exchange, 'trace-id') ?? parent?.traceId ?? exchange.id;
  facts.sampled = parent?.sampled;
  facts.parentSpanId = identifier(exchange, 'parent-span-id') ?? parent?.parentId ?? '';
  const spanId = identifier(exchange, 'span-id');
  const spanName = identifier(exchange, 'span-name');
  facts.spanId = spanId ?? (parent === undefined ? '' : spanIdOfRequest(exchange.id));
  facts.spanName = spanName ?? (parent === undefined ? '' : nameOf(exchange));
  const metadata = exchange.service('metadata');
  if (metadata !== undefined) facts.metadata = parseMetadata(metadata);
  const baggage = exchange.header('baggage');
  if (baggage !== undefined) facts.metadata = withBaggage(facts.metadata, readBaggage(baggage));
}

function nameOf({ method, originalPath }: Exchange): string {
  return `${method} ${originalPath}`.slice(0, maxIdLength);
}

/** The metadata header wins; a member that it could not hold is left out, and so are those beyond its bound. */
function withBaggage(
  metadata: RequestFacts['metadata'],
  baggage: ReadonlyMap<string, string>,
): RequestFacts['metadata'] {
  if (baggage.size === 0) return metadata;
  const merged: Record<string, string> = { ...metadata };
  let keys = Object.keys(merged).length;
  for (const [key, value] of baggage) {
    if (keys >= maxMetadataKeys) break;
    if (Object.hasOwn(merged, key) || key.length > maxMetadataLength || value.length > maxMetadataLength)
      continue;
    merged[key] = value;
    keys++;
  }
  return merged;
}

function identifier(exchange: Exchange, name: string): string | undefined {
  const value = exchange.service(name);
  if (value === undefined || value === '') return undefined;
  if (value.length > maxIdLength) {
    throw new GatewayError('invalid_header', `The ${name} header is longer than ${maxIdLength} characters.`, {
      param: name,
    });
  }
  return value;
}

function parseMetadata(header: string): Record<string, string> {
  const refuse = (reason: string): GatewayError =>
    new GatewayError('invalid_header', `The metadata header ${reason} Send a JSON object of strings.`, {
      param: 'metadata',
    });
  let value: unknown;
  try {
    value = JSON.parse(header);
  } catch {
    throw refuse('is no valid JSON.');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw refuse('is no JSON object.');
  const entries = Object.entries(value);
  if (entries.length > maxMetadataKeys) throw refuse(`has more than ${maxMetadataKeys} keys.`);
  const metadata: Record<string, string> = {};
  for (const [key, item] of entries) {
    if (typeof item === 'object' && item !== null)
      throw refuse(`holds an object or a list under "${key.slice(0, 64)}".`);
    const text = String(item);
    if (text.length > maxMetadataLength || key.length > maxMetadataLength) {
      throw refuse(`holds more than ${maxMetadataLength} characters under "${key.slice(0, 64)}".`);
    }
    if (key === '__proto__') throw refuse('holds "__proto__", which is no name for a value.');
    metadata[key] = text;
  }
  return metadata;
}
