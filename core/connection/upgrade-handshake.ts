import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../errors/gateway-error.ts';

/** What a request with `Upgrade` gets. */
export type UpgradeWish =
  /** WebSocket, or an answer in HTTP. */
  | { readonly kind: 'websocket' }
  /** The upgrade is an offer that may be left alone (`h2c`, as some clients send with every request): served as plain HTTP. */
  | { readonly kind: 'ignorable' }
  | { readonly kind: 'refused'; readonly error: GatewayError };

/** Decides from the request's head alone. */
export function upgradeWish(request: IncomingMessage): UpgradeWish {
  const { headers, method } = request;
  const protocols = (headers.upgrade ?? '').split(',').map((protocol) => protocol.trim().toLowerCase());
  if (!protocols.includes('websocket')) {
    if (protocols.includes('h2c')) return { kind: 'ignorable' };
    return refusal(
      'not_supported',
      'The gateway upgrades connections to WebSocket only. Leave the Upgrade header out.',
    );
  }
  if (method !== 'GET')
    return refusal('invalid_request', 'A WebSocket is asked for with GET (RFC 6455, section 4.1).');
  const length = headers['content-length'];
  if ((length !== undefined && length !== '0') || headers['transfer-encoding'] !== undefined) {
    // What follows the head would be a body to one server and WebSocket frames to another.
    return refusal('invalid_request', 'A request for WebSocket has no body. Send none.');
  }
  return { kind: 'websocket' };
}

function refusal(code: 'not_supported' | 'invalid_request', message: string): UpgradeWish {
  return { kind: 'refused', error: new GatewayError(code, message, { param: 'upgrade' }) };
}
