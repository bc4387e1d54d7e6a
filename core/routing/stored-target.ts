import type { GatewayError } from '../errors/gateway-error.ts';
import type { TrustedHosts } from '../base/host-rules.ts';
import type { LimitCharges } from '../access/limit-charge.ts';
import type { PricedModels } from '../ports/prices.ts';
import type { ProviderRow } from '../providers/provider-row.ts';
import type { StoredRecord } from '../ports/records.ts';
import type { Target, TargetModels } from '../pipeline/router.ts';
import { mustBeGuarded } from './custom-host.ts';
import { headersOf, storedOptions, type OpenedSecrets, type ProviderOptions } from './stored-options.ts';
import type { StoredModels } from './stored-models.ts';
import { configuredSource, KnownProvider, type TargetMaker } from './targets.ts';

/** What stored providers are made with; the same for all of a generation. */
export interface StoredTargetSetup {
  readonly maker: TargetMaker;
  readonly trustedHosts: TrustedHosts;
}

/** What one stored provider is made of. */
export interface StoredTargetParts {
  /** As requests name it. */
  readonly slug: string;
  readonly integration: StoredRecord<'integration'>;
  /** Of the provider table. */
  readonly row: ProviderRow;
  readonly models: StoredModels;
  readonly secrets: OpenedSecrets;
  /** What each try at it is counted in; undefined for no limit. */
  readonly limits: LimitCharges | undefined;
}

/** Variants of one provider that are kept, by model. */
const maxVariants = 200;

/** A provider of the store, compiled with its secrets: an address, a credential, and what its models may cost. */
export class StoredTarget implements TargetModels {
  readonly known: KnownProvider;
  readonly #parts: StoredTargetParts;
  readonly #setup: StoredTargetSetup;
  readonly #options: ProviderOptions;
  readonly #variants = new Map<string, Target | undefined>();

  /** Throws `provider_disabled` or `custom_host_refused` for settings that nothing can be made of. */
  constructor(parts: StoredTargetParts, setup: StoredTargetSetup) {
    this.#parts = parts;
    this.#setup = setup;
    this.#options = storedOptions(parts.integration, parts.row, parts.secrets);
    this.known = this.#provider(this.#options);
  }

  get isRestricted(): boolean {
    return this.#parts.models.isRestricted;
  }

  get listed(): readonly string[] {
    return this.#parts.models.listed;
  }

  require(model: string): void {
    this.#parts.models.require(model);
  }

  refusalOfUntold(why: string): GatewayError {
    return this.#parts.models.refusalOfUntold(why);
  }

  pricesOf(model: string): PricedModels | undefined {
    return this.#parts.models.pricesOf(model);
  }

  /** Only what the provider itself would have got goes elsewhere: a config or a request that names an address means it. */
  targetOf(model: string, target: Target): Target | undefined {
    if (target !== this.known.target) return undefined;
    if (this.#variants.has(model)) return this.#variants.get(model);
    const options = this.#optionsOf(model);
    const variant = options === undefined ? undefined : this.#provider(options).target;
    // Names that requests make up are not worth a place.
    if (variant !== undefined && this.#variants.size < maxVariants) this.#variants.set(model, variant);
    return variant;
  }

  /** The settings with what this model has of its own: an address, headers, a deployment. */
  #optionsOf(model: string): ProviderOptions | undefined {
    const { integration, models, secrets } = this.#parts;
    const deployment = models.deployment(model);
    const host = models.enabled(model)?.configurations['custom_host'];
    const headers = secrets.get(`models.${model}.headers`);
    if (deployment === undefined && typeof host !== 'string' && headers === undefined) return undefined;
    const options: ProviderOptions = { ...this.#options };
    if (deployment !== undefined) {
      options.azure_deployment_id = deployment.id;
      if (deployment.apiVersion !== '') options.azure_api_version = deployment.apiVersion;
      if (deployment.model !== '') options.azure_model_name = deployment.model;
    }
    if (typeof host === 'string') options.base_url = host;
    if (headers !== undefined)
      options.headers = { ...options.headers, ...headersOf(headers, integration.slug) };
    return options;
  }

  #provider(options: ProviderOptions): KnownProvider {
    const { slug, row, integration, limits } = this.#parts;
    const source = configuredSource(slug, options, row);
    const isOwn = source.row.base_url !== row.base_url;
    return new KnownProvider(
      {
        ...source,
        builtIn: false,
        // The machine's identity is the operator's; people of one workspace may not act with it.
        machineIdentity: integration.workspaceId === undefined,
        guarded: isOwn && this.#isGuarded(source.row.base_url ?? ''),
        models: this,
        limits,
      },
      this.#setup.maker,
    );
  }

  #isGuarded(address: string): boolean {
    if (address.startsWith('mock:')) return false;
    return mustBeGuarded(address, {
      isTrusted: (url) => this.#setup.trustedHosts.has(url),
      param: 'custom_host',
    });
  }
}
