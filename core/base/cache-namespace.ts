import { sha256 } from './bytes.ts';

/** Retention of an invalidation in milliseconds: 90 days, longer than any cached answer lives. */
export const invalidationKeptMs = 7_776_000_000;

/** Owner and namespace of cached answers. */
export interface CacheArea {
  readonly organisationId: string;
  readonly workspaceId: string;
  /** Undefined for every answer of the workspace, with or without a namespace. */
  readonly namespace: string | undefined;
}

/**
 * Key in the `Cache` store of an area's invalidation mark. Answers to requests made at or before the mark's `storedAt`
 * are no longer used; its bytes mean nothing.
 */
export function invalidationKey({ organisationId, workspaceId, namespace }: CacheArea): string {
  const place = `weir-invalidated-1|${organisationId.length}:${organisationId}|${workspaceId.length}:${workspaceId}`;
  return sha256(namespace === undefined ? place : `${place}|${namespace}`, 'base64url');
}
