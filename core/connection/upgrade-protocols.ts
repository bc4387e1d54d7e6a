import type { IncomingMessage } from 'node:http';
import type { GatewayConfig } from '../config/schema.ts';

const protocolHeader = 'sec-websocket-protocol';
/** How OpenAI's clients in browsers, which cannot set headers, send their key. */
const keyItem = 'openai-insecure-api-key.';

/**
 * Moves what browsers can only say as subprotocols to the headers that they stand for: `openai-insecure-api-key.KEY`
 * to `Authorization: Bearer KEY`, and `x-service-provider.NAME` (any header under our prefixes) to `x-service-provider`.
 * Those items never go on to the provider. A header that the request has wins over an item.
 */
export function readUpgradeProtocols(
  message: IncomingMessage,
  config: Pick<GatewayConfig['server'], 'header_prefix' | 'header_aliases'>,
): void {
  const offered = message.headers[protocolHeader];
  if (offered === undefined) return;
  const prefixes = [config.header_prefix, ...config.header_aliases].map((prefix) => `${prefix}-`);
  const kept: string[] = [];
  let moved = false;
  for (const item of offered.split(',').map((one) => one.trim())) {
    const header = headerOf(item, prefixes);
    if (header === undefined) {
      if (item !== '') kept.push(item);
      continue;
    }
    moved = true;
    if (message.headers[header.name] !== undefined) continue;
    message.headers[header.name] = header.value;
    message.rawHeaders.push(header.name, header.value);
  }
  if (moved) replaceProtocols(message, kept);
}

function headerOf(item: string, prefixes: readonly string[]): { name: string; value: string } | undefined {
  if (item.startsWith(keyItem))
    return { name: 'authorization', value: `Bearer ${item.slice(keyItem.length)}` };
  const lower = item.toLowerCase();
  if (!prefixes.some((prefix) => lower.startsWith(prefix))) return undefined;
  const dot = item.indexOf('.');
  return dot === -1 ? undefined : { name: lower.slice(0, dot), value: item.slice(dot + 1) };
}

/** One header with the items that are left, in place of all that there were. */
function replaceProtocols(message: IncomingMessage, kept: readonly string[]): void {
  const { rawHeaders } = message;
  for (let i = rawHeaders.length - 2; i >= 0; i -= 2) {
    if ((rawHeaders[i] as string).toLowerCase() === protocolHeader) rawHeaders.splice(i, 2);
  }
  delete message.headers[protocolHeader];
  if (kept.length === 0) return;
  message.headers[protocolHeader] = kept.join(', ');
  rawHeaders.push('Sec-WebSocket-Protocol', kept.join(', '));
}
