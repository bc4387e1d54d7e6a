import { GatewayError } from './gateway-error.ts';

const longestQuote = 128;

/** Refuses a JSON Web Token; `reason` completes "The token …", and never holds the token itself. */
export function tokenInvalid(reason: string): GatewayError {
  return new GatewayError('token_invalid', `The token ${reason}`, {
    headers: ['www-authenticate', 'Bearer error="invalid_token"'],
  });
}

/** What a token says of itself, for such a reason: short, and visible characters alone. */
export function quoteClaim(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  const short = text.length > longestQuote ? `${text.slice(0, longestQuote)}...` : text;
  return `"${short.replace(/[^\x20-\x7e]/g, '?')}"`;
}

/** Whether a request was refused for its token. */
export function isTokenError(error: GatewayError | undefined): boolean {
  return error?.code === 'token_invalid' || error?.code === 'token_keys_unavailable';
}
