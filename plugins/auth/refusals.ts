import { tokenInvalid } from '../../core/errors/gateway-error.ts';
import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';

const challenge = { headers: ['www-authenticate', 'Bearer'] };

/** Nobody said who they are. */
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

/** The service key in this header is not known. */
export function invalid(header: string): GatewayError {
  return new GatewayError(
    'key_invalid',
    `The service key in ${header} is not known here. Check that it was copied whole and still exists.`,
    challenge,
  );
}

/** The key has ended. */
export function expired({ name, isReplaced }: KeyRecord, at: number): GatewayError {
  const when = new Date(at).toISOString();
  return new GatewayError(
    'key_expired',
    isReplaced === true
      ? `This secret of the service key "${name}" was replaced, and has ended at ${when}. Use the new one.`
      : `The service key "${name}" expired at ${when}. Ask for a new one.`,
    challenge,
  );
}

/** The key's workspace has ended. */
export function archived({ name, isToken }: KeyRecord): GatewayError {
  return new GatewayError(
    'workspace_archived',
    isToken === true
      ? `The workspace that the token of "${name}" names is archived. Get a token for another workspace.`
      : `The workspace of the service key "${name}" is archived, and its keys with it. Use a key of another workspace.`,
  );
}

/** A token whose time was over while it was still remembered. */
export function tokenExpired(at: number): GatewayError {
  return tokenInvalid(`expired at ${new Date(at).toISOString()}. Get a new one.`);
}
