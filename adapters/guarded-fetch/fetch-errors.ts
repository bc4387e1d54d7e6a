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
  return GatewayError.is(cause) ? cause : fetchFailed(host, networkReason(cause), cause);
}

/** The same in general words, for the end of a sentence that names the host. */
export function networkReason(cause: unknown): string {
  const code =
    typeof cause === 'object' && cause !== null && 'code' in cause && typeof cause.code === 'string'
      ? cause.code
      : '';
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'its name is unknown; check the spelling';
  if (/^(ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|EPROTO)/.test(code)) {
    return 'no trusted TLS connection; check its certificate and the scheme';
  }
  return 'it cannot be reached or broke the connection; check the URL';
}
