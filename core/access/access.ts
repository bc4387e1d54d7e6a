import { didYouMean } from '../base/did-you-mean.ts';
import type { KeyRecord } from '../ports/directory.ts';
import { canonicalScope, knownScopes, scopesByType, type ApiKeyType } from './scopes.ts';

/** Whose records a key may see and change. */
export interface Reach {
  readonly organisationId: string;
  /** Undefined: every workspace of the organisation. */
  readonly workspaceId?: string;
}

/** Owner and organisation keys reach their whole organisation, workspace keys their own workspace alone. */
export function reachOf({ kind, organisationId, workspaceId }: KeyRecord): Reach {
  if (kind === 'owner' || kind === 'organisation-service') return { organisationId };
  return { organisationId, workspaceId };
}

/**
 * Whether a key may do what asks for this scope. `*` stands for every scope that keys of its kind may hold, and for
 * the scopes of plugins that are not known here; an owner's `*` for all.
 */
export function holds({ kind, scopes }: KeyRecord, scope: string): boolean {
  if (kind !== 'owner' && !mayHold(kind, scope)) return false;
  return scopes.includes('*') || scopes.includes(scope);
}

function mayHold(type: ApiKeyType, scope: string): boolean {
  return scopesByType[type].has(scope) || !knownScopes.has(scope);
}

/** Why a scope cannot be given to a new or changed key. */
export interface ScopeIssue {
  /** JSON pointer within the list: `/2`. */
  readonly path: string;
  readonly message: string;
  /** `escalation`: the scope could be given, but not by this key. */
  readonly kind: 'unknown' | 'type' | 'escalation';
}

/**
 * What stands against giving these scopes to a key of this type; nothing when `actor` may. Nobody gives what they
 * lack: owners give all, an organisation's key also what only workspace keys can hold (it manages their keys and could
 * never hold it itself), everybody else what their own key holds.
 */
export function refuseScopes(
  actor: KeyRecord,
  type: ApiKeyType,
  scopes: readonly string[],
): readonly ScopeIssue[] {
  const issues: ScopeIssue[] = [];
  scopes.forEach((given, index) => {
    const scope = canonicalScope(given);
    const path = `/${index}`;
    if (!knownScopes.has(scope)) issues.push({ path, message: unknownScope(given), kind: 'unknown' });
    else if (!scopesByType[type].has(scope))
      issues.push({ path, message: `a key of the type ${type} cannot hold "${scope}"`, kind: 'type' });
    else if (!mayGive(actor, scope))
      issues.push({ path, message: `your key lacks "${scope}" and cannot give it`, kind: 'escalation' });
  });
  return issues;
}

function mayGive(actor: KeyRecord, scope: string): boolean {
  if (actor.kind === 'owner' && actor.scopes.includes('*')) return true;
  if (holds(actor, scope)) return true;
  return actor.kind === 'organisation-service' && !scopesByType['organisation-service'].has(scope);
}

function unknownScope(given: string): string {
  if (given === '*') return 'only an owner\'s key holds "*"; name the scopes one by one';
  const near = didYouMean(canonicalScope(given), knownScopes);
  const shown = given.slice(0, 64);
  return `there is no scope "${shown}"${near === undefined ? '' : `; did you mean "${near}"?`}`;
}
