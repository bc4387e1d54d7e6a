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

/** Bytes come, but so slowly that the client would hold its connection for ever. `seconds`: how long it has taken already. */
export function belowMinimumRate(minBytesPerSecond: number, seconds: number): GatewayError {
  return new GatewayError(
    'body_timeout',
    `After ${seconds} s the request body comes at less than ${minBytesPerSecond} bytes a second on average. Send it faster, or lower server.body_min_bytes_per_second.`,
    { headers: ['connection', 'close'] },
  );
}

/** The whole body takes longer than any may. */
export function tookTooLong(totalTimeoutMs: number): GatewayError {
  return new GatewayError(
    'body_timeout',
    `The request body is not complete after ${totalTimeoutMs} ms. Send it faster, or raise server.body_timeout_ms.`,
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
