import type { KeyRecord } from '../../core/ports/directory.ts';
import { GatewayError } from '../../core/pipeline/plugin.ts';

const challenge = { headers: ['www-authenticate', 'Bearer'] };

/** The request names no caller. */
export function missing(header: string, keyPrefix: string, hasBearer: boolean): GatewayError {
  const seen = hasBearer
    ? ` The Authorization header holds another key: service keys begin with "${keyPrefix}".`
    : '';
  return new GatewayError(
    'key_missing',
    `No service key. Send it as "${header}: KEY" or as "Authorization: Bearer KEY".${seen}`,
    challenge,
  );
}

/** The browser has no session, or one that has ended. */
export function sessionOver(): GatewayError {
  return new GatewayError(
    'key_missing',
    "The session of this browser has ended, or it sent another page's token. Sign in again.",
    challenge,
  );
}

/** The service key in this header is not known. */
export function invalid(header: string): GatewayError {
  return new GatewayError(
    'key_invalid',
    `The service key in ${header} is not known here. Check that it was copied whole and still exists.`,
    challenge,
  );
}

/** The key has expired. */
export function keyExpiredError({ id, name, isReplaced }: KeyRecord, at: number): GatewayError {
  const when = new Date(at).toISOString();
  return new GatewayError(
    'key_expired',
    isReplaced === true
      ? `This secret of the service key "${name}" was replaced, and has ended at ${when}. Use the new one; where nobody has it, POST /api-keys/${id}/rotate answers one.`
      : `The service key "${name}" expired at ${when}. Ask for a new one.`,
    challenge,
  );
}
