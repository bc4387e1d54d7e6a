import { refuseScopes } from '../access/scopes.ts';
import { keySecretHash } from '../organisation/key-secret.ts';
import { rateLimitIssues, usageLimitIssues, usageLimitsIssues } from '../organisation/limits.ts';
import type { ConfigSource } from '../config/config-source.ts';
import {
  defaultWorkspaceSlug,
  type KeyBlock,
  type OrganisationBlock,
  type WorkspaceBlock,
} from '../organisation/organisation-block.ts';
import type { Problem } from '../config/problem.ts';
import { quoted } from '../base/did-you-mean.ts';
import type { KeyRecord } from '../ports/directory.ts';
import { FileNames, type NamingConfig } from './file-names.ts';
import { OwnedProblems, suggestion } from './problem-at.ts';

/** Configuration whose `organisation` is checked. */
interface OrganisationCheck {
  readonly config: NamingConfig;
  readonly source: ConfigSource;
}

/** The author of the file may give every scope. */
const operator: KeyRecord = {
  id: '',
  name: '',
  kind: 'owner',
  organisationId: '',
  workspaceId: '',
  userId: '',
  scopes: ['*'],
  expiresAt: null,
};

/**
 * Problems that the schema of `organisation` cannot find: duplicates (with both places), unknown scopes, workspaces and
 * configs, limits that contradict themselves.
 */
export function checkOrganisation({ config, source }: OrganisationCheck): Problem[] {
  return config.organisation === undefined
    ? []
    : new OrganisationProblems(config.organisation, config, source).find();
}

type Defaults = NonNullable<OrganisationBlock['defaults']>;

class OrganisationProblems {
  readonly #block: OrganisationBlock;
  readonly #names: FileNames;
  readonly #problems: OwnedProblems;

  constructor(block: OrganisationBlock, config: NamingConfig, source: ConfigSource) {
    this.#block = block;
    this.#names = new FileNames(config, () => undefined);
    this.#problems = new OwnedProblems(source);
  }

  find(): Problem[] {
    const { defaults, workspaces = [], keys = [] } = this.#block;
    this.#checkConfig(defaults, '/organisation');
    workspaces.forEach((workspace, index) =>
      this.#checkWorkspace(workspace, `/organisation/workspaces/${index}`),
    );
    keys.forEach((key, index) => this.#checkKey(key, `/organisation/keys/${index}`));
    return this.#problems.found;
  }

  #checkWorkspace(workspace: WorkspaceBlock, pointer: string): void {
    const { slug, name } = workspace;
    if (slug === defaultWorkspaceSlug)
      this.#problems.refuse(
        `${pointer}/slug`,
        `"slug": ${quoted(slug)} is the workspace that the gateway makes itself; choose another slug`,
      );
    else
      this.#problems.once(
        `slug ${slug}`,
        `${pointer}/slug`,
        `"slug": a second workspace has the slug ${quoted(slug)}`,
      );
    this.#problems.once(
      `name ${name}`,
      `${pointer}/name`,
      `"name": a second workspace is named ${quoted(name)}`,
    );
    this.#checkConfig(workspace.defaults, pointer);
    this.#problems.refuseAll(usageLimitsIssues(workspace.usage_limits ?? [], `${pointer}/usage_limits`));
    this.#problems.refuseAll(rateLimitIssues(workspace.rate_limits ?? [], `${pointer}/rate_limits`));
  }

  #checkKey(key: KeyBlock, pointer: string): void {
    const { name, type, expires_at: expiresAt } = key;
    const workspace = type === 'organisation-service' ? '' : (key.workspace ?? defaultWorkspaceSlug);
    this.#problems.once(
      `key ${type} ${workspace} ${name}`,
      `${pointer}/name`,
      `"name": a second key of type ${type} ${workspace === '' ? '' : `in ${quoted(workspace)} `}is named ${quoted(name)}`,
    );
    const place = `${pointer}/${key.key === undefined ? 'key_sha256' : 'key'}`;
    this.#problems.once(`secret ${keySecretHash(key) ?? pointer}`, place, `a second key has the same secret`);
    this.#checkWorkspaceOf(key, pointer);
    if (key.user_id !== undefined && type !== 'workspace-user')
      this.#problems.refuse(
        `${pointer}/user_id`,
        `"user_id": a key of type ${type} belongs to nobody; remove it`,
      );
    this.#problems.refuseAll(
      refuseScopes(operator, type, key.scopes).map(({ path, message }) => ({
        path: `${pointer}/scopes${path}`,
        message,
      })),
    );
    if (expiresAt !== undefined && Number.isNaN(Date.parse(expiresAt)))
      this.#problems.refuse(`${pointer}/expires_at`, '"expires_at": write it like 2030-01-31T00:00:00Z');
    this.#checkConfig(key.defaults, pointer);
    if (key.usage_limits !== undefined)
      this.#problems.refuseAll(usageLimitIssues(key.usage_limits, `${pointer}/usage_limits`));
    this.#problems.refuseAll(rateLimitIssues(key.rate_limits ?? [], `${pointer}/rate_limits`));
  }

  #checkWorkspaceOf({ type, workspace }: KeyBlock, pointer: string): void {
    if (workspace === undefined) return;
    const place = `${pointer}/workspace`;
    if (type === 'organisation-service') {
      const remedy = 'remove the workspace, or make the key one of type workspace-service';
      return this.#problems.refuse(
        place,
        `"workspace": a key of type ${type} belongs to no workspace; ${remedy}`,
      );
    }
    const slugs = [defaultWorkspaceSlug, ...(this.#block.workspaces ?? []).map(({ slug }) => slug)];
    if (slugs.includes(workspace)) return;
    const near = suggestion(workspace, slugs);
    const remedy = near === '' ? '; define it under "organisation.workspaces"' : near;
    this.#problems.refuse(
      place,
      `"workspace": there is no workspace ${quoted(workspace)} in this file${remedy}`,
    );
  }

  #checkConfig(defaults: Defaults | undefined, pointer: string): void {
    const slug = defaults?.config_id;
    const problem = slug === undefined ? undefined : this.#names.missingConfig(slug);
    if (problem === undefined) return;
    const place = `${pointer}/defaults/config_id`;
    // A default config of the whole organisation has to exist in every workspace.
    const mayBeStored = pointer !== '/organisation' && this.#names.later.has(problem);
    if (mayBeStored) this.#problems.note(place, `"config_id": ${problem}`);
    else this.#problems.refuse(place, `"config_id": ${problem}`);
  }
}
