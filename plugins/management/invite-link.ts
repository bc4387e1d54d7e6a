import { randomBytes } from 'node:crypto';
import type { RequestContext } from '../../core/pipeline/plugin.ts';
import { sha256 } from '../../core/base/sha256.ts';
import { publicOrigin } from './public-origin.ts';

/** How long an invite can be accepted: 7 days. */
export const inviteLifeMs = 7 * 24 * 3_600_000;

/** A link that has just been made. */
export interface NewInviteLink {
  /** What the invited person opens; shown once. */
  readonly link: string;
  /** What is stored. */
  readonly tokenHash: string;
}

/**
 * A new link: 256 random bits behind the `#`, which browsers send nowhere. It leads to `publicUrl` (`server.public_url`),
 * without one to the address under which the request came.
 */
export function newInviteLink(context: RequestContext, publicUrl: string | undefined): NewInviteLink {
  const token = `wi_${randomBytes(32).toString('base64url')}`;
  return { link: `${publicOrigin(context, publicUrl)}/invite#${token}`, tokenHash: hashOfToken(token) };
}

/** What is stored of a token (SHA-256, base64). */
export function hashOfToken(token: string): string {
  return sha256(token, 'base64');
}
