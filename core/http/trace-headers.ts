import { GatewayError } from '../errors/gateway-error.ts';
import type { Exchange } from '../pipeline/exchange.ts';

const maxIdLength = 255;
const maxMetadataKeys = 64;
const maxMetadataLength = 128;

/**
 * Takes trace ids and metadata from the headers: the service headers first, then W3C `traceparent`. A request
 * without a trace id is its own trace. Throws `invalid_header` for metadata that is no object of short strings.
 */
export function readTraceHeaders(exchange: Exchange): void {
  const { facts } = exchange;
  const parent = traceparent(exchange.header('traceparent'));
  facts.traceId = identifier(exchange, 'trace-id') ?? parent?.traceId ?? exchange.id;
  facts.spanId = identifier(exchange, 'span-id') ?? '';
  facts.parentSpanId = identifier(exchange, 'parent-span-id') ?? parent?.parentId ?? '';
  facts.spanName = identifier(exchange, 'span-name') ?? '';
  const metadata = exchange.service('metadata');
  if (metadata !== undefined) facts.metadata = parseMetadata(metadata);
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

/** W3C Trace Context: `00-<32 hex>-<16 hex>-<2 hex>`. Anything else is ignored, as the standard asks. */
function traceparent(header: string | undefined): { traceId: string; parentId: string } | undefined {
  const match =
    header === undefined ? null : /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}/.exec(header);
  return match ? { traceId: match[1] as string, parentId: match[2] as string } : undefined;
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
    metadata[key] = text;
  }
  return metadata;
}
