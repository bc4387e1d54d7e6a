/**
 * The rights of every caller, written down a second time: from the tables of the specification ("Role matrix", "Key
 * capabilities"), not from the code that enforces them.
 */

/** Where somebody, or a record, belongs. */
export interface Belonging {
  readonly organisation: string;
  /** Empty for what belongs to the organisation. */
  readonly workspace: string;
  /** Of keys: whose they are, empty for services. Members see their own alone. */
  readonly user?: string;
}

/** The caller. */
export interface Actor extends Belonging {
  readonly kind: 'owner' | 'organisation-service' | 'workspace-service' | 'workspace-user';
  /** What the person of a `workspace-user` key is; undefined: nobody. */
  readonly person: 'owner' | 'admin' | 'manager' | 'member' | undefined;
  /** Its user; empty for none. */
  readonly user: string;
  readonly scopes: readonly string[];
}

/** What a route is about. */
export interface Asked {
  /** The scopes any one of which it needs; for keys that of their type alone. */
  readonly scopes: readonly string[];
  /** What its path names; undefined: nothing. `nowhere`: a record that there is not. */
  readonly target: Belonging | 'nowhere' | undefined;
  /** It changes what its path names. */
  readonly isChange: boolean;
  /** It is about the gateway itself: an owner's key alone will do, whatever the scopes of others. */
  readonly isForOwners: boolean;
}

/** What the answer must be: let in, or one of these statuses. */
type Verdict = 'in' | readonly number[];

/** Managing the organisation, its settings, its users and its workspaces: no key of a workspace can. */
const ofOrganisation =
  /^(organisation_(users|service_api_keys|settings|guardrails|exclusions)|audit_logs|plugins|deployments|secret_references)\./;
const changesOfWorkspaces = /^workspaces\.(create|update|delete)$/;
const changesOfIntegrations = /^organisation_\w*integrations\.(create|read|update|delete)$/;
/** Sending requests, and feedback: no key of an organisation can. */
const ofWorkspaces =
  /^(completions\.|guardrails\.invoke|mcp\.invoke|agents\.invoke|logs\.write|feedbacks\.write)/;
const changesOfKeys = /^(workspace_service|workspace_user)_api_keys\.(create|update|delete|rotate)$/;

/** Managers bring people to their workspace, members do not. */
const changesOfMembers = /^workspace_users\.(create|update|delete)$/;

/** With the settings that hold while nobody has changed any. */
const changesOfTemplates = /^(configs|prompts)\.(create|update|delete|publish)$/;

const ofManagers = [changesOfKeys, changesOfMembers, changesOfTemplates];

function isOrganisations(scope: string): boolean {
  return ofOrganisation.test(scope) || changesOfWorkspaces.test(scope) || changesOfIntegrations.test(scope);
}

/** Whether keys of the actor's kind can hold the scope at all. */
function canHold({ kind }: Actor, scope: string): boolean {
  if (kind === 'owner') return true;
  if (kind === 'organisation-service') return !ofWorkspaces.test(scope);
  return !isOrganisations(scope);
}

/** What somebody is where they act: owners and admins of an organisation manage every workspace. */
function isManager({ kind, person }: Actor): boolean {
  return kind !== 'workspace-user' || (person !== undefined && person !== 'member');
}

function mayUse(actor: Actor, scope: string): boolean {
  const holds = actor.scopes.includes(scope) || actor.scopes.includes('*');
  return (
    holds && canHold(actor, scope) && (isManager(actor) || !ofManagers.some((pattern) => pattern.test(scope)))
  );
}

function reaches(actor: Actor, target: Belonging): boolean {
  const { kind, organisation, workspace, user } = actor;
  if (organisation !== target.organisation) return false;
  if (kind === 'owner' || kind === 'organisation-service') return true;
  if (target.workspace !== '' && workspace !== target.workspace) return false;
  return target.user === undefined || isManager(actor) || (user !== '' && user === target.user);
}

/** What belongs to an organisation is seen in its workspaces, and changed by its own keys alone. */
function isAnothers({ kind }: Actor, { target, isChange }: Asked): boolean {
  if (kind === 'owner' || kind === 'organisation-service') return false;
  return isChange && typeof target === 'object' && target.workspace === '';
}

/** What the gateway must answer; `actor` undefined: nobody known. */
export function verdictOf(actor: Actor | undefined, asked: Asked): Verdict {
  const { scopes, target } = asked;
  if (actor === undefined) return [401];
  const isHidden = target === 'nowhere' || (target !== undefined && !reaches(actor, target));
  const isRefused =
    (asked.isForOwners && actor.kind !== 'owner') ||
    (scopes.length > 0 && !scopes.some((scope) => mayUse(actor, scope)));
  // A caller without the right is told so before or after the record was looked for: nothing is told of the record.
  if (isHidden) return isRefused ? [403, 404] : [404];
  return isRefused || isAnothers(actor, asked) ? [403] : 'in';
}
