import type { ApiKeyRecord } from '../ports/resources.ts';
import { didYouMean, listWords, quoted } from '../base/did-you-mean.ts';
import type { Directory, KeyRecord } from '../ports/directory.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { EndpointId } from '../dialects/endpoint.ts';
import type { OrganisationRole, WorkspaceRole } from '../ports/people.ts';

/** Scope that allows every request to a provider. */
const generalScope = 'completions.write';

/** A narrower scope, and the requests that it allows without the general one. */
interface NarrowScope {
  readonly scope: string;
  readonly endpoint: EndpointId;
  readonly methods: readonly string[];
}

/**
 * Scopes for requests to providers: each of these allows its own, `completions.write` allows all. Every path to a
 * provider needs a scope, also unknown ones.
 */
const narrowScopes: readonly NarrowScope[] = [
  { scope: 'models.list', endpoint: 'models', methods: ['GET', 'HEAD'] },
  { scope: 'models.delete', endpoint: 'models', methods: ['DELETE'] },
];

/** The scope for MCP servers, which the general one does not include: their tools act, models only answer. */
const toolScope = 'mcp.invoke';

/** The parts of a provider request that determine its scope. */
interface ProviderRequest {
  readonly method: string;
  readonly path: string;
  readonly endpoint: { readonly id: EndpointId };
  /** Set for a WebSocket request: it can carry completions, whatever its path. */
  readonly upgrade?: object | undefined;
}

const general = 1;

/** `*`: every scope that keys of the kind can hold. */
const every = 2;

const bits = new Map<string, number>([
  [generalScope, general],
  ['*', every],
]);

bits.set(toolScope, 4);

narrowScopes.forEach(({ scope }, index) => bits.set(scope, 8 << index));

/** Held scopes by list, computed at its first request: the lists are immutable. */
const heldByList = new WeakMap<readonly string[], number>();

function scopeBits(scopes: readonly string[]): number {
  const known = heldByList.get(scopes);
  if (known !== undefined) return known;
  let held = 0;
  for (const scope of scopes) held |= bits.get(scope) ?? 0;
  heldByList.set(scopes, held);
  return held;
}

/**
 * Throws `scope_missing` when the key may not send this request to a provider. A scope in the key's list counts for
 * every kind of key, because the YAML file may give an organisation's key one that its kind excludes.
 */
export function requireProviderScope(key: KeyRecord, request: ProviderRequest): void {
  const held = scopeBits(key.scopes);
  if (request.endpoint.id === 'mcp') {
    if ((held & (bits.get(toolScope) as number)) !== 0) return;
    if ((held & every) !== 0 && key.kind !== 'organisation-service') return;
    throw scopeMissing(key, request, toolScope);
  }
  if ((held & general) !== 0) return;
  const narrow = narrowScopeOf(request);
  if (narrow !== undefined && (held & (bits.get(narrow) as number)) !== 0) return;
  if ((held & every) !== 0 && (key.kind !== 'organisation-service' || mayHoldNarrow(key.kind, narrow)))
    return;
  throw scopeMissing(key, request, narrow);
}

function narrowScopeOf({ method, endpoint, upgrade }: ProviderRequest): string | undefined {
  if (upgrade !== undefined) return undefined;
  return narrowScopes.find((one) => one.endpoint === endpoint.id && one.methods.includes(method))?.scope;
}

function mayHoldNarrow(kind: 'organisation-service', scope: string | undefined): boolean {
  return scope !== undefined && scopesByType[kind].has(scope);
}

function scopeMissing(key: KeyRecord, request: ProviderRequest, narrow: string | undefined): GatewayError {
  const { name, kind, isToken, definedAt } = key;
  const holder = isToken === true ? `token of "${name}"` : `key "${name}"`;
  const isAlone = narrow === undefined || narrow === toolScope;
  const scopes = isAlone ? `"${narrow ?? generalScope}"` : `"${narrow}" or "${generalScope}"`;
  const asked = `${request.method} ${request.path.slice(0, 200)}`;
  let remedy =
    'Ask a holder of this scope to add it to the key (PUT /api-keys/{id}), or use a key that has it.';
  if (isToken === true)
    remedy =
      'Have the issuer add it to its scopes, or the operator to auth.jwt.default_scopes (tokens without scopes) or auth.jwt.scope_map.';
  else if (kind === 'organisation-service')
    remedy = 'Keys of the organisation administer; send requests with a key of a workspace that has it.';
  else if (definedAt !== undefined)
    remedy = `Add it to the scopes of the key where the configuration defines it (${definedAt}), or use a key that has it.`;
  return new GatewayError(
    'scope_missing',
    `The ${holder} lacks the scope ${scopes}, which ${asked} needs. ${remedy}`,
  );
}

/** Types of keys that the administration API creates. */
export type ApiKeyType = ApiKeyRecord['type'];

const five = ['create', 'read', 'update', 'delete', 'list'] as const;

const six = [...five, 'rotate'] as const;

function scopesOf(resource: string, actions: readonly string[]): readonly string[] {
  return actions.map((action) => `${resource}.${action}`);
}

/** Resources of a workspace: keys of both kinds may hold these. */
const ofResources: readonly string[] = [
  ...scopesOf('workspace_service_api_keys', six),
  ...scopesOf('workspace_user_api_keys', six),
  ...scopesOf('workspaces', ['read', 'list']),
  ...scopesOf('workspace_users', five),
  ...scopesOf('prompts', [...five, 'publish', 'render']),
  ...scopesOf('configs', five),
  ...scopesOf('guardrails', five),
  ...scopesOf('virtual_keys', [...five, 'duplicate', 'copy']),
  ...scopesOf('providers', five),
  ...scopesOf('policies', five),
  ...scopesOf('workspace_integrations', five),
  ...scopesOf('organisation_integrations', ['list']),
  ...scopesOf('workspace_mcp_integrations', five),
  ...scopesOf('organisation_mcp_integrations', ['list']),
  ...scopesOf('mcp_servers', five),
  ...scopesOf('workspace_agent_integrations', five),
  ...scopesOf('organisation_agent_integrations', ['list']),
  ...scopesOf('agent_servers', five),
  ...scopesOf('agent_server_skills', five),
  ...scopesOf('agent_integration_skills', five),
  ...scopesOf('agent_server_user_access', five),
  ...scopesOf('analytics', ['view']),
  ...scopesOf('logs', ['export', 'list', 'view', 'read']),
  ...scopesOf('models', ['list', 'delete']),
  ...scopesOf('feedbacks', ['read']),
  ...scopesOf('cache', ['delete']),
];

/** Sending requests and related rights: an organisation's key has no workspace for them. */
const ofWorkspacesAlone: readonly string[] = [
  ...scopesOf('completions', ['write', 'read']),
  ...scopesOf('guardrails', ['invoke']),
  ...scopesOf('mcp', ['invoke']),
  ...scopesOf('agents', ['invoke']),
  ...scopesOf('logs', ['write']),
  ...scopesOf('feedbacks', ['write']),
];

/** The organisation, its people and its workspaces: a workspace's key cannot manage these. */
const ofOrganisationsAlone: readonly string[] = [
  ...scopesOf('organisation_users', five),
  ...scopesOf('organisation_service_api_keys', six),
  ...scopesOf('organisation_settings', ['read', 'update']),
  ...scopesOf('organisation_guardrails', five),
  ...scopesOf('organisation_exclusions', ['update', 'list']),
  ...scopesOf('organisation_integrations', ['create', 'read', 'update', 'delete']),
  ...scopesOf('organisation_mcp_integrations', ['create', 'read', 'update', 'delete']),
  ...scopesOf('organisation_agent_integrations', ['create', 'read', 'update', 'delete']),
  ...scopesOf('audit_logs', ['list']),
  ...scopesOf('plugins', ['create', 'update', 'list']),
  ...scopesOf('deployments', five),
  ...scopesOf('secret_references', five),
  ...scopesOf('workspaces', ['create', 'update', 'delete']),
];

const ofWorkspaceKeys: ReadonlySet<string> = new Set([...ofResources, ...ofWorkspacesAlone]);

/** Scopes that each type of key may hold. Excludes `*`: only an owner's key has it. */
export const scopesByType: Readonly<Record<ApiKeyType, ReadonlySet<string>>> = {
  'organisation-service': new Set([...ofResources, ...ofOrganisationsAlone]),
  'workspace-service': ofWorkspaceKeys,
  'workspace-user': ofWorkspaceKeys,
};

/** Scopes known by name; a plugin's routes may require others. */
export const knownScopes: ReadonlySet<string> = new Set([
  ...ofResources,
  ...ofWorkspacesAlone,
  ...ofOrganisationsAlone,
]);

/** Normalises the spelling of a scope: `deployments:create` is `deployments.create`. */
export function canonicalScope(scope: string): string {
  return scope.replace(':', '.');
}

/** Records that a key may see and change. */
interface Reach {
  readonly organisationId: string;
  /** Undefined: every workspace of the organisation. */
  readonly workspaceId?: string;
}

/** Owner and organisation keys reach their whole organisation; workspace keys reach their own workspace only. */
export function reachOf({ kind, organisationId, workspaceId }: KeyRecord): Reach {
  if (kind === 'owner' || kind === 'organisation-service') return { organisationId };
  return { organisationId, workspaceId };
}

/**
 * Whether a key holds this scope. `*` stands for every scope that keys of its kind may hold, and for unknown scopes of
 * plugins; an owner's `*` stands for all.
 */
export function hasScope({ kind, scopes }: KeyRecord, scope: string): boolean {
  if (kind !== 'owner' && !canHold(kind, scope)) return false;
  return scopes.includes('*') || scopes.includes(scope);
}

/** Every known scope that the key holds, in the order of their list. */
export function heldScopes(key: KeyRecord): readonly string[] {
  return [...knownScopes].filter((scope) => hasScope(key, scope));
}

function canHold(type: ApiKeyType, scope: string): boolean {
  return scopesByType[type].has(scope) || !knownScopes.has(scope);
}

/** Reason why a scope cannot be given to a new or changed key. */
interface ScopeIssue {
  /** JSON pointer within the list: `/2`. */
  readonly path: string;
  readonly message: string;
  /** `escalation`: the scope is valid, but this key may not give it. */
  readonly kind: 'unknown' | 'type' | 'escalation';
}

/**
 * Reasons against giving these scopes to a key of this type; empty when `actor` may. No actor gives a scope that it
 * lacks: owners give all; an organisation's key also gives those that only workspace keys can hold (it manages their
 * keys and could never hold them itself); every other key gives those it holds.
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
  if (hasScope(actor, scope)) return true;
  return actor.kind === 'organisation-service' && !scopesByType['organisation-service'].has(scope);
}

function unknownScope(given: string): string {
  if (given === '*') return 'only an owner\'s key holds "*"; name the scopes one by one';
  const near = didYouMean(canonicalScope(given), knownScopes);
  const shown = given.slice(0, 64);
  return `there is no scope "${shown}"${near === undefined ? '' : `; did you mean "${near}"?`}`;
}

/** Role of a user in an organisation or in one of its workspaces. */
export type Role = 'owner' | 'admin' | 'manager' | 'member';

/** Rights of a role. */
interface RoleRights {
  /** Creates and manages keys of the organisation. */
  readonly organisationKeys: boolean;
  /** Creates and manages keys of workspaces: in any, in the one that it manages, or in none. */
  readonly workspaceKeys: 'any' | 'own' | 'none';
  /** Lists archived workspaces, and reads their records. */
  readonly archived: boolean;
}

/** The role matrix. */
export const rightsByRole: Readonly<Record<Role, RoleRights>> = {
  owner: { organisationKeys: true, workspaceKeys: 'any', archived: true },
  admin: { organisationKeys: true, workspaceKeys: 'any', archived: true },
  manager: { organisationKeys: false, workspaceKeys: 'own', archived: false },
  member: { organisationKeys: false, workspaceKeys: 'none', archived: false },
};

const ranks: readonly Role[] = ['member', 'manager', 'admin', 'owner'];

/** Look-up of roles. */
type People = Pick<Directory, 'user' | 'memberRole'>;

/**
 * Role of a key. Keys of users act in the user's role in the key's one workspace: owners and admins of the organisation
 * manage every workspace. A workspace's service key acts as its manager.
 */
export function roleOf({ kind, organisationId, workspaceId, userId }: KeyRecord, people: People): Role {
  if (kind === 'owner') return 'owner';
  if (kind === 'organisation-service') return 'admin';
  if (kind === 'workspace-service') return 'manager';
  return userId === '' ? 'member' : workspaceRoleOf(organisationId, workspaceId, userId, people);
}

/** Role of the user in the workspace; `member` also without a membership. */
function workspaceRoleOf(
  organisationId: string,
  workspaceId: string,
  userId: string,
  people: People,
): WorkspaceRole {
  const user = people.user(organisationId, userId);
  if (user !== undefined && user.role !== 'member') return 'manager';
  return people.memberRole(workspaceId, userId) ?? 'member';
}

/** Whether this role creates, changes, rotates and deletes keys of this type; scope and reach apply in addition. */
export function managesKeys(role: Role, type: ApiKeyType): boolean {
  const rights = rightsByRole[role];
  return type === 'organisation-service' ? rights.organisationKeys : rights.workspaceKeys !== 'none';
}

/** Whether an actor in this role may grant, change or revoke the other one: never one above its own. */
export function mayGrant(actor: Role, role: OrganisationRole | WorkspaceRole): boolean {
  return actor !== 'member' && ranks.indexOf(role) <= ranks.indexOf(actor);
}

/** Keys of the organisation do not end with a workspace. */
export function isOfWorkspace({ kind }: KeyRecord): boolean {
  return kind === 'workspace-service' || kind === 'workspace-user';
}

/** Upper bound of the models that a refusal names. */
const mostNamed = 10;

/** A list of models, and the owner that it binds, for messages: `service key "ci"`. */
interface ModelList {
  readonly owner: string;
  readonly models: readonly string[];
}

/** Models that a request names, and why it may run others, as the end of a sentence. */
interface NamedModels {
  readonly names: readonly string[];
  readonly untold: string | undefined;
}

/** The models that requests of a key may ask for: those that its key and its workspace both allow. */
export class AllowedModels {
  readonly #lists: readonly ModelList[];

  private constructor(lists: readonly ModelList[]) {
    this.#lists = lists;
  }

  /** Undefined for a key that may ask for every model. */
  static of(key: KeyRecord | undefined, directory: Pick<Directory, 'defaultsOf'>): AllowedModels | undefined {
    if (key === undefined) return undefined;
    const own = key.defaults?.allowedModels;
    const shared = directory.defaultsOf(key.organisationId, key.workspaceId).own?.allowedModels;
    if (own === undefined && shared === undefined) return undefined;
    const lists: ModelList[] = [];
    if (own !== undefined) lists.push({ owner: `service key "${key.name}"`, models: own });
    if (shared !== undefined) lists.push({ owner: `workspace ${key.workspaceId}`, models: shared });
    return new AllowedModels(lists);
  }

  allows(model: string): boolean {
    return this.#lists.every(({ models }) => isListed(model, models));
  }

  /** Throws `model_not_allowed` for a request that names another model, or may run one that the gateway cannot read. */
  require({ names, untold }: NamedModels): void {
    for (const list of this.#lists) {
      const other = names.find((name) => !isListed(name, list.models));
      if (other !== undefined) throw notAllowed(list.owner, other, list.models);
      if (untold !== undefined) throw untoldModel(list.owner, untold);
    }
  }

  /** Throws `config_override_denied`: a config that a request brings could name another model. */
  refuseOwnConfig(): never {
    const owner = this.#lists[0]?.owner ?? '';
    throw new GatewayError(
      'config_override_denied',
      `The ${owner} allows only the models of a list (defaults.allowed_models), so its requests bring no config of their own. Name a saved config, or leave the config header out.`,
      { param: 'config' },
    );
  }
}

/** Names by which lists may know a model: as the request writes it, without `@slug/`, and without the collection `models/`. */
export function namesOfModel(model: string): readonly string[] {
  const bare = model.startsWith('@') ? model.slice(model.indexOf('/') + 1) : model;
  const collection = bare.lastIndexOf('models/');
  return [model, bare, collection < 0 ? bare : bare.slice(collection + 'models/'.length)];
}

function isListed(model: string, list: readonly string[]): boolean {
  const names = namesOfModel(model);
  return list.some((one) => {
    const start = one.endsWith('*') ? one.slice(0, -1) : undefined;
    return names.some((name) => (start === undefined ? name === one : name.startsWith(start)));
  });
}

/** The refusal of a model that its owner's list lacks; `none` is the remedy for an empty list. */
export function notAllowed(
  owner: string,
  model: string,
  list: readonly string[],
  none = 'It allows none.',
): GatewayError {
  const meant = didYouMean(model, list);
  const all = listWords(list.map(quoted), 'and', mostNamed);
  const hint =
    meant !== undefined ? `Did you mean ${quoted(meant)}?` : all === '' ? none : `It allows ${all}.`;
  const asked = model === '' ? 'a request that names no model' : `the model ${quoted(model)}`;
  return new GatewayError('model_not_allowed', `The ${owner} does not allow ${asked}. ${hint}`, {
    param: 'model',
  });
}

/** The refusal of a request whose model cannot be determined; `why` ends the sentence. */
export function untoldModel(owner: string, why: string, remedy = ''): GatewayError {
  return new GatewayError(
    'model_not_allowed',
    `The ${owner} allows only the models of a list, and this request may run another one: ${why}. Name one model where the gateway can read it${remedy}.`,
    { param: 'model' },
  );
}
