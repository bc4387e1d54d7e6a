import { refuseScopes } from '../access/access.ts';
import { keySecretHash } from '../access/key-secret-schema.ts';
import { rateLimitIssues, usageLimitIssues } from '../access/limits-schema.ts';
import type { ConfigSource } from '../config/config-source.ts';
import type { KeyBlock, OrganisationBlock, WorkspaceBlock } from '../config/organisation-schema.ts';
import type { Problem } from '../config/problem.ts';
import type { GatewayConfig } from '../config/schema.ts';
import { quoted } from '../config/word-list.ts';
import { defaultWorkspaceSlug } from '../directory/default-workspace.ts';
import type { KeyRecord } from '../ports/directory.ts';
import { unknownConfig } from '../routing/plan/compile-config.ts';
import { problemAt } from './problem-at.ts';
import { suggestion } from './suggestion.ts';

/** What `organisation` is checked in. */
export interface OrganisationCheck {
  readonly config: Pick<GatewayConfig, 'configs' | 'organisation'>;
  readonly source: ConfigSource;
}

/** Who writes the file may give every scope. */
const operator: KeyRecord = {
  ...{ id: '', name: '', kind: 'owner', organisationId: '', workspaceId: '', userId: '' },
  ...{ scopes: ['*'], expiresAt: null },
};

/**
 * What the schema of `organisation` cannot say: what is there twice (with both places), scopes, workspaces and configs
 * that there are not, limits that contradict themselves.
 */
export function checkOrganisation({ config, source }: OrganisationCheck): Problem[] {
  return config.organisation === undefined
    ? []
    : new OrganisationProblems(config.organisation, config.configs, source).find();
}

type Defaults = NonNullable<OrganisationBlock['defaults']>;

class OrganisationProblems {
  readonly #block: OrganisationBlock;
  readonly #configs: GatewayConfig['configs'];
  readonly #source: ConfigSource;
  readonly #problems: Problem[] = [];
  /** Pointers by what must be there once. */
  readonly #taken = new Map<string, string>();

  constructor(block: OrganisationBlock, configs: GatewayConfig['configs'], source: ConfigSource) {
    this.#block = block;
    this.#configs = configs;
    this.#source = source;
  }

  find(): Problem[] {
    const { defaults, workspaces = [], keys = [] } = this.#block;
    this.#checkConfig(defaults, '/organisation');
    workspaces.forEach((workspace, index) =>
      this.#checkWorkspace(workspace, `/organisation/workspaces/${index}`),
    );
    keys.forEach((key, index) => this.#checkKey(key, `/organisation/keys/${index}`));
    return this.#problems;
  }

  #checkWorkspace(workspace: WorkspaceBlock, pointer: string): void {
    const { slug, name } = workspace;
    if (slug === defaultWorkspaceSlug)
      this.#refuse(
        `${pointer}/slug`,
        `"slug": ${quoted(slug)} is the workspace that the gateway makes itself; choose another slug`,
      );
    else
      this.#once(
        `slug ${slug}`,
        `${pointer}/slug`,
        `"slug": a second workspace has the slug ${quoted(slug)}`,
      );
    this.#once(`name ${name}`, `${pointer}/name`, `"name": a second workspace is named ${quoted(name)}`);
    this.#checkConfig(workspace.defaults, pointer);
    workspace.usage_limits?.forEach((limit, index) =>
      this.#refuseAll(usageLimitIssues(limit, `${pointer}/usage_limits/${index}`)),
    );
    this.#refuseAll(rateLimitIssues(workspace.rate_limits ?? [], `${pointer}/rate_limits`));
  }

  #checkKey(key: KeyBlock, pointer: string): void {
    const { name, type, expires_at: expiresAt } = key;
    const workspace = type === 'organisation-service' ? '' : (key.workspace ?? defaultWorkspaceSlug);
    this.#once(
      `key ${type} ${workspace} ${name}`,
      `${pointer}/name`,
      `"name": a second key of type ${type} ${workspace === '' ? '' : `in ${quoted(workspace)} `}is named ${quoted(name)}`,
    );
    const place = `${pointer}/${key.key === undefined ? 'key_sha256' : 'key'}`;
    this.#once(`secret ${keySecretHash(key) ?? pointer}`, place, `a second key has the same secret`);
    this.#checkWorkspaceOf(key, pointer);
    if (key.user_id !== undefined && type !== 'workspace-user')
      this.#refuse(`${pointer}/user_id`, `"user_id": a key of type ${type} belongs to nobody; remove it`);
    this.#refuseAll(
      refuseScopes(operator, type, key.scopes).map(({ path, message }) => ({
        path: `${pointer}/scopes${path}`,
        message,
      })),
    );
    if (expiresAt !== undefined && Number.isNaN(Date.parse(expiresAt)))
      this.#refuse(`${pointer}/expires_at`, '"expires_at": write it like 2030-01-31T00:00:00Z');
    this.#checkConfig(key.defaults, pointer);
    if (key.usage_limits !== undefined)
      this.#refuseAll(usageLimitIssues(key.usage_limits, `${pointer}/usage_limits`));
    this.#refuseAll(rateLimitIssues(key.rate_limits ?? [], `${pointer}/rate_limits`));
  }

  #checkWorkspaceOf({ type, workspace }: KeyBlock, pointer: string): void {
    if (workspace === undefined) return;
    const place = `${pointer}/workspace`;
    if (type === 'organisation-service') {
      const remedy = 'remove the workspace, or make the key one of type workspace-service';
      return this.#refuse(place, `"workspace": a key of type ${type} belongs to no workspace; ${remedy}`);
    }
    const slugs = [defaultWorkspaceSlug, ...(this.#block.workspaces ?? []).map(({ slug }) => slug)];
    if (slugs.includes(workspace)) return;
    const near = suggestion(workspace, slugs);
    const remedy = near === '' ? '; define it under "organisation.workspaces"' : near;
    this.#refuse(place, `"workspace": there is no workspace ${quoted(workspace)} in this file${remedy}`);
  }

  #checkConfig(defaults: Defaults | undefined, pointer: string): void {
    const slug = defaults?.config_id;
    if (slug === undefined || Object.hasOwn(this.#configs, slug)) return;
    const message = `"config_id": ${unknownConfig(slug, Object.keys(this.#configs))}`;
    this.#refuse(`${pointer}/defaults/config_id`, message);
  }

  #once(identity: string, pointer: string, message: string): void {
    const first = this.#taken.get(identity);
    if (first === undefined) return void this.#taken.set(identity, pointer);
    const { file, line, column } = this.#source.locate(first);
    this.#refuse(pointer, `${message}; the first stands at ${file}:${line}:${column}`);
  }

  #refuseAll(issues: readonly { readonly path: string; readonly message: string }[]): void {
    for (const { path, message } of issues) {
      const [parent = '', last = ''] = path.split('/').slice(-2);
      const subject = /^\d+$/.test(last) ? `${quoted(parent)}, item ${Number(last) + 1}` : quoted(last);
      this.#refuse(path, `${subject}: ${message}`);
    }
  }

  #refuse(pointer: string, message: string): void {
    const origin = this.#source.origin(pointer);
    // A message quotes what is wrong; what variables hold is not to be shown.
    const text =
      origin === undefined || pointer.endsWith('/key') || pointer.endsWith('/key_sha256')
        ? message
        : `what ${origin.names.join(' and ')} stands for cannot be used here`;
    this.#problems.push(problemAt(this.#source.locate(pointer), pointer, text));
  }
}
