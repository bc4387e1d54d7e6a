import { GatewayError } from '../../core/errors/gateway-error.ts';

/**
 * No whole answer came within the bounds. `host` as the caller named it, `why` in general words: who may not look
 * into a network must not learn from an error what stands there.
 */
export function fetchFailed(host: string, why: string, cause?: unknown): GatewayError {
  return new GatewayError('fetch_failed', `"${host.slice(0, 255)}" could not be fetched: ${why}.`, { cause });
}

/** What a failure of the network, of TLS or of undici means for the caller. */
export function networkFailure(host: string, cause: unknown): GatewayError {
  if (GatewayError.is(cause)) return cause;
  const code =
    typeof cause === 'object' && cause !== null && 'code' in cause && typeof cause.code === 'string'
      ? cause.code
      : '';
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
    return fetchFailed(host, 'its name is unknown; check the spelling', cause);
  }
  if (/^(ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|EPROTO)/.test(code)) {
    return fetchFailed(host, 'no trusted TLS connection; check its certificate and the scheme', cause);
  }
  return fetchFailed(host, 'it cannot be reached or broke the connection; check the URL', cause);
}
