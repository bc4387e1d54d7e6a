import { refuseScopes } from '../access/scopes.ts';
import type { GatewayConfig } from '../config/schema.ts';
import { actionsOf, checksOf, type GuardrailParameters } from '../organisation/guardrails.ts';
import { keySecretHash } from '../organisation/key-secret.ts';
import { rateLimitIssues, usageLimitIssues, usageLimitsIssues } from '../organisation/limits.ts';
import type { ConfigSource } from '../config/config-source.ts';
import {
  type Block,
  defaultWorkspaceSlug,
  type OrganisationBlock,
} from '../organisation/organisation-block.ts';
import type { Problem } from '../config/problem.ts';
import { quoted } from '../base/did-you-mean.ts';
import type { KeyRecord } from '../ports/directory.ts';
import { unknownConfig } from '../routing/plan/compile-config.ts';
import type { LeafProvider } from '../routing/plan/plan-node.ts';
import {
  type GuardrailRecord,
  type KnowsProvider,
  type SavedConfig,
  type SavedConfigs,
  type SavedProviders,
  unknownGuardrail,
} from '../routing/plan/read-config.ts';
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

  #checkWorkspace(workspace: Block<'workspace'>, pointer: string): void {
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

  #checkKey(key: Block<'key'>, pointer: string): void {
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

  #checkWorkspaceOf({ type, workspace }: Block<'key'>, pointer: string): void {
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

/** Parts of a configuration with names that its configs, keys and policies can use. */
type NamingConfig = Pick<GatewayConfig, 'configs'> &
  Partial<Pick<GatewayConfig, 'organisation' | 'storage' | 'providers'>>;

/** A provider that the section `organisation` owns. */
interface OwnedProvider {
  readonly slug: string;
  /** Undefined: in every workspace that may use its integration. */
  readonly workspace: string | undefined;
  /** Slug of its integration. */
  readonly integration: string;
  readonly pointer: string;
}

/** Whether names that a configuration does not have may be in a store. */
export function hasStore({ storage }: Pick<NamingConfig, 'storage'>): boolean {
  return storage !== undefined && storage.resources.url !== 'none:';
}

/** The providers of the section `organisation`: those that it names, and those of its integrations. */
export function ownedProviders({
  organisation,
}: Pick<NamingConfig, 'organisation'>): readonly OwnedProvider[] {
  const { integrations = [], providers = [] } = organisation ?? {};
  const named = providers.map(({ slug, workspace, integration_id: integration }, index) => ({
    slug,
    workspace,
    integration,
    pointer: `/organisation/providers/${index}/slug`,
  }));
  const made = integrations.flatMap((one, index): readonly OwnedProvider[] => {
    const { slug: integration, workspace, default_provider_slug: given } = one;
    const has = named.some((other) => other.integration === integration && other.workspace === workspace);
    if (has || one.create_default_provider === false) return [];
    const pointer = `/organisation/integrations/${index}/${given === undefined ? 'slug' : 'default_provider_slug'}`;
    return [{ slug: given ?? integration, workspace, integration, pointer }];
  });
  return [...named, ...made];
}

/**
 * The names of a configuration's section `organisation`, for checking a config: those of one workspace and of the
 * organisation, or of every workspace. Names that may be in the store are kept in `later`.
 */
export class FileNames implements SavedConfigs, SavedProviders {
  /** Messages about names that are looked up when a request uses them. */
  readonly later = new Set<string>();
  readonly #config: NamingConfig;
  readonly #knowsProvider: KnowsProvider;
  readonly #mayBeStored: boolean;
  readonly #providers: readonly string[];
  readonly #configs: readonly SavedConfig[];
  readonly #guardrails: readonly GuardrailRecord[];

  /** `workspace` is a slug; undefined means every workspace. */
  constructor(config: NamingConfig, knowsProvider: KnowsProvider, workspace?: string) {
    const isSeen = (one: { readonly workspace?: string | undefined }): boolean =>
      workspace === undefined || one.workspace === undefined || one.workspace === workspace;
    this.#config = config;
    this.#knowsProvider = knowsProvider;
    this.#mayBeStored = hasStore(config);
    this.#providers = ownedProviders(config)
      .filter(isSeen)
      .map(({ slug }) => slug);
    this.#configs = (config.organisation?.configs ?? [])
      .filter(isSeen)
      .map(({ slug, config: input }) => ({ slug, input }));
    this.#guardrails = (config.organisation?.guardrails ?? []).filter(isSeen).map((block) => ({
      // No request is sent with it: only its settings are checked, and its secrets are not needed.
      id: '',
      secrets: {},
      slug: block.slug,
      version: 1,
      data: {
        checks: checksOf(block.checks, (parameters) => parameters as GuardrailParameters),
        actions: actionsOf(block.actions),
      },
    }));
  }

  find(name: string): SavedConfig | undefined {
    const own = this.#configs.find(({ slug }) => slug === name);
    if (own !== undefined || !this.#mayBeStored) return own;
    return { slug: name, input: undefined, problem: this.#stored(this.#unknown(name)) };
  }

  slugs(): Iterable<string> {
    return this.#configs.map(({ slug }) => slug);
  }

  findGuardrail(name: string): GuardrailRecord | string {
    const own = this.#guardrails.find(({ slug }) => slug === name);
    if (own !== undefined) return own;
    const problem = unknownGuardrail(
      name,
      this.#guardrails.map(({ slug }) => slug),
    );
    return this.#mayBeStored ? this.#stored(problem) : problem;
  }

  hasProvider(name: string): boolean {
    return this.#providers.includes(name);
  }

  providerSlugs(): Iterable<string> {
    return this.#providers;
  }

  /** As `KnowsProvider`, for the compiler. */
  readonly knowsProvider = (provider: LeafProvider): string | undefined => {
    const problem = this.#knowsProvider(provider, this);
    const isSlug = provider.name.startsWith('@') || provider.kind === 'virtual-key';
    return problem === undefined || !isSlug || !this.#mayBeStored ? problem : this.#stored(problem);
  };

  /** Why there is no config of this name, undefined when there is; also added to `later` when the store may have one. */
  missingConfig(name: string): string | undefined {
    const isHere =
      Object.hasOwn(this.#config.configs, name) || this.#configs.some(({ slug }) => slug === name);
    if (isHere) return undefined;
    const problem = this.#unknown(name);
    return this.#mayBeStored ? this.#stored(problem) : problem;
  }

  #unknown(name: string): string {
    return unknownConfig(name, [...Object.keys(this.#config.configs), ...this.slugs()]);
  }

  #stored(problem: string): string {
    const message = `${problem.replace(/\?$/, '? If not,')}${problem.endsWith('?') ? '' : ';'} it has to be one of the store, which is looked up when a request uses it and cannot be checked here`;
    this.later.add(message);
    return message;
  }
}
