import { GatewayError } from '../../core/errors/gateway-error.ts';

/** Nothing can be verified: no keys have ever been read. */
export function keysUnavailable(retryAfterMs: number): GatewayError {
  return new GatewayError(
    'token_keys_unavailable',
    "The keys that tokens are verified with could not be read yet. Try again shortly; the gateway's log says why.",
    { headers: ['retry-after', String(Math.max(1, Math.ceil(retryAfterMs / 1000)))] },
  );
}
