import type { GatewayConfig } from '../config/schema.ts';
import type { LeafProvider } from '../routing/plan/plan-node.ts';
import { unknownConfig } from '../routing/plan/compile-config.ts';
import {
  type GuardrailRecord,
  type KnowsProvider,
  type SavedConfig,
  type SavedConfigs,
  type SavedProviders,
  unknownGuardrail,
} from '../routing/plan/read-config.ts';
import { actionsOf, checksOf, type GuardrailParameters } from '../organisation/guardrails.ts';

/** Parts of a configuration with names that its configs, keys and policies can use. */
export type NamingConfig = Pick<GatewayConfig, 'configs'> &
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
