import { GatewayError } from '../errors/gateway-error.ts';
import type { EndpointId } from '../dialects/endpoint.ts';
import type { KeyRecord } from '../ports/directory.ts';
import { scopesByType } from './scopes.ts';

/** The scope that lets a key send every request to a provider. */
export const generalScope = 'completions.write';

/** A narrower scope, and the requests that it lets through without the general one. */
interface NarrowScope {
  readonly scope: string;
  readonly endpoint: EndpointId;
  readonly methods: readonly string[];
}

/**
 * Which scopes let which requests through to providers: these theirs, `completions.write` all. Every path that a
 * provider may serve asks for a scope, also those that the gateway does not know by name.
 */
export const narrowScopes: readonly NarrowScope[] = [
  { scope: 'models.list', endpoint: 'models', methods: ['GET', 'HEAD'] },
  { scope: 'models.delete', endpoint: 'models', methods: ['DELETE'] },
];

/** A request that goes to a provider, as far as its scope depends on it. */
export interface ProviderRequest {
  readonly method: string;
  readonly path: string;
  readonly endpoint: { readonly id: EndpointId };
  /** Set for a request for WebSocket: whatever its path, it can carry completions. */
  readonly upgrade?: object | undefined;
}

const general = 1;
/** `*`, which stands for what keys of the kind can hold. */
const every = 2;
const bits = new Map<string, number>([
  [generalScope, general],
  ['*', every],
]);
narrowScopes.forEach(({ scope }, index) => bits.set(scope, 4 << index));

/** Lists of scopes are never changed: what each of them holds is worked out once, when its first request comes. */
const heldByList = new WeakMap<readonly string[], number>();

function heldIn(scopes: readonly string[]): number {
  const known = heldByList.get(scopes);
  if (known !== undefined) return known;
  let held = 0;
  for (const scope of scopes) held |= bits.get(scope) ?? 0;
  heldByList.set(scopes, held);
  return held;
}

/**
 * Throws `scope_missing` when the key may not send this request to a provider. A scope that is in the key's list counts
 * for every kind of key, as only the YAML file can give an organisation's key one that its kind cannot be given.
 */
export function requireProviderScope(key: KeyRecord, request: ProviderRequest): void {
  const held = heldIn(key.scopes);
  if ((held & general) !== 0) return;
  const narrow = narrowScopeOf(request);
  if (narrow !== undefined && (held & (bits.get(narrow) as number)) !== 0) return;
  if ((held & every) !== 0 && (key.kind !== 'organisation-service' || mayHold(key.kind, narrow))) return;
  throw scopeMissing(key, request, narrow);
}

function narrowScopeOf({ method, endpoint, upgrade }: ProviderRequest): string | undefined {
  if (upgrade !== undefined) return undefined;
  return narrowScopes.find((one) => one.endpoint === endpoint.id && one.methods.includes(method))?.scope;
}

function mayHold(kind: 'organisation-service', scope: string | undefined): boolean {
  return scope !== undefined && scopesByType[kind].has(scope);
}

function scopeMissing(key: KeyRecord, request: ProviderRequest, narrow: string | undefined): GatewayError {
  const { name, kind, isToken, definedAt } = key;
  const holder = isToken === true ? `token of "${name}"` : `key "${name}"`;
  const scopes = narrow === undefined ? `"${generalScope}"` : `"${narrow}" or "${generalScope}"`;
  const asked = `${request.method} ${request.path.slice(0, 200)}`;
  let remedy =
    'Have somebody who holds it add it to the scopes of the key (PUT /api-keys/{id}), or use a key that has it.';
  if (isToken === true)
    remedy = 'Have the issuer add it to its scopes, or the operator to auth.jwt.default_scopes.';
  else if (kind === 'organisation-service')
    remedy = 'Keys of the organisation administer; send requests with a key of a workspace that has it.';
  else if (definedAt !== undefined)
    remedy = `Add it to the scopes of the key where the configuration defines it (${definedAt}), or use a key that has it.`;
  return new GatewayError(
    'scope_missing',
    `The ${holder} lacks the scope ${scopes}, which ${asked} needs. ${remedy}`,
  );
}
