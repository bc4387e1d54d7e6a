import { directoryBehind, quoteClaim, tokenInvalid } from '../../core/errors/gateway-error.ts';
import type { Directory, KeyRecord } from '../../core/ports/directory.ts';
import { sha256 } from '../../core/base/sha256.ts';
import type { TokenIdentity } from './token-claims.ts';

/**
 * The key as which the bearer of a verified token acts: one of a user, in one workspace. Throws `token_invalid` when
 * its organisation or workspace does not exist here, and `store_unavailable` when that cannot be known now.
 */
export function keyOfToken(
  identity: TokenIdentity,
  { scopes, expiresAt }: { readonly scopes: readonly string[]; readonly expiresAt: number },
  directory: Directory,
): KeyRecord {
  const { issuer, subject, user, defaults, limitClaims } = identity;
  const organisationId = identity.organisation ?? directory.defaultOrganisationId;
  const name = user === '' ? subject : user;
  return {
    id: `jwt:${sha256(JSON.stringify([issuer, subject === '' ? user : subject]), 'base64url').slice(0, 22)}`,
    name: name === '' ? 'a token without a subject' : name,
    kind: 'workspace-user',
    organisationId,
    workspaceId: workspaceOf(organisationId, identity.workspace, directory),
    userId: user === '' ? '' : (directory.user(organisationId, user)?.id ?? user),
    scopes,
    expiresAt,
    isToken: true,
    ...(defaults !== undefined && { defaults }),
    ...(limitClaims.length > 0 && { limitClaims }),
  };
}

/** An organisation is known by its workspaces: one that has none of this name is not told apart from one that is not there. */
function workspaceOf(organisationId: string, named: string | undefined, directory: Directory): string {
  const { defaultOrganisationId, defaultWorkspaceId } = directory;
  const isDefault = organisationId === defaultOrganisationId;
  if (named === undefined) {
    if (isDefault) return defaultWorkspaceId;
    throw tokenInvalid(
      `names the organisation ${quoteClaim(organisationId)} and no workspace. Have its issuer name one, or leave out the organisation for the default one.`,
    );
  }
  if (isDefault && named === defaultWorkspaceId) return named;
  const found = directory.workspaceId(organisationId, named);
  if (found !== undefined) return found;
  if (directory.standing() !== 'current') throw directoryBehind('workspace of the token');
  throw tokenInvalid(
    isDefault
      ? `names the workspace ${quoteClaim(named)}, which does not exist. Use the id or slug of one that does.`
      : `names the workspace ${quoteClaim(named)} of the organisation ${quoteClaim(organisationId)}, which does not exist. Use ids of ones that do.`,
  );
}
