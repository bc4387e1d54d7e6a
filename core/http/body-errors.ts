import { GatewayError } from '../errors/gateway-error.ts';

/** The body is over the limit of one request. */
export function tooLarge(maxBytes: number): GatewayError {
  return new GatewayError(
    'body_too_large',
    `The request body is larger than ${maxBytes} bytes. Send less, or raise server.max_body_bytes.`,
  );
}

/** The client paused for too long; what it has still to send would never be understood as a new request. */
export function tooSlow(idleTimeoutMs: number): GatewayError {
  return new GatewayError(
    'body_timeout',
    `No byte of the request body arrived for ${idleTimeoutMs} ms. Send the body without long pauses.`,
    { headers: ['connection', 'close'] },
  );
}

/** The connection ended before the body did. */
export function leftWhileSending(): GatewayError {
  return new GatewayError('client_closed', 'The client left while it was sending its request.');
}

/** All bodies in memory together are at their limit. */
export function overloaded(): GatewayError {
  return new GatewayError(
    'overloaded',
    'The gateway holds as many request bodies as it may. Try again shortly.',
    { headers: ['retry-after', '1'] },
  );
}
