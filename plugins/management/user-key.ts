import { randomUUID } from 'node:crypto';
import type { UserKeyRules } from '../../core/ports/organisation-settings.ts';
import type { InviteRecord, UserRecord } from '../../core/ports/people.ts';
import type { ApiKeyRecord } from '../../core/ports/resources.ts';
import type { NewSecret } from './key-secret.ts';
import { endOfKey } from './user-key-rules.ts';

/** What a key is made of that an invite promised. */
export interface PromisedKey {
  readonly invite: InviteRecord;
  readonly user: UserRecord;
  readonly workspaceId: string;
  readonly secret: NewSecret;
  readonly rules: UserKeyRules;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** The key of somebody who accepts an invite, for one of its workspaces. It lives as long as keys do by default there. */
export function newUserKey({ invite, user, workspaceId, secret, rules, now }: PromisedKey): ApiKeyRecord {
  return {
    id: randomUUID(),
    organisationId: invite.organisationId,
    ...{ workspaceId, userId: user.id, name: `${user.email.slice(0, 240)} (invite)`, description: '' },
    type: 'workspace-user',
    status: 'active',
    scopes: invite.keyScopes,
    ...{ rateLimits: [], usageLimits: undefined, defaults: {}, alertEmails: [] },
    masked: secret.masked,
    secrets: [{ hash: secret.hash, expiresAt: undefined }],
    creationMode: 'auto',
    expiresAt: endOfKey(undefined, rules, now),
    ...{ createdAt: now, updatedAt: now, version: 1 },
  };
}
