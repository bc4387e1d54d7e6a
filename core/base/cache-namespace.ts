import { sha256 } from './sha256.ts';

/** How long an invalidation is remembered, in milliseconds: 90 days, longer than any answer is kept. */
export const invalidationKeptMs = 7_776_000_000;

/** Whose cached answers are meant. */
export interface CacheArea {
  readonly organisationId: string;
  readonly workspaceId: string;
  /** Undefined for every answer of the workspace, in whatever namespace and in none. */
  readonly namespace: string | undefined;
}

/**
 * The key in the `Cache` store of the mark that says when an area was invalidated. Answers to what was asked at the time
 * of `storedAt` of the value under it, or before, are not used any more; its bytes mean nothing.
 */
export function invalidationKey({ organisationId, workspaceId, namespace }: CacheArea): string {
  const place = `weir-invalidated-1|${organisationId.length}:${organisationId}|${workspaceId.length}:${workspaceId}`;
  return sha256(namespace === undefined ? place : `${place}|${namespace}`, 'base64url');
}
