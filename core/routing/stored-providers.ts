import { directoryBehind, GatewayError } from '../errors/gateway-error.ts';
import { isPromise } from '../base/turns.ts';
import type { MaybePromise } from '../pipeline/context.ts';
import type { Clock } from '../ports/clock.ts';
import type { Directory } from '../ports/directory.ts';
import type { SecretBox, SecretManagers } from '../ports/secret-managers.ts';
import type { PricedModels } from '../ports/prices.ts';
import { type ProviderRow, type ProviderTable, allOrigins, originsOf } from '../providers/provider-row.ts';
import { integrationBudgetKey, LimitCharges, providerBudgetKey } from '../access/limit-charges.ts';
import type { StoredRecord } from '../ports/records.ts';
import { StoredModels } from './stored-models.ts';
import {
  headersOf,
  type OpenedSecrets,
  openSecrets,
  type ProviderOptions,
  type ProviderPlace,
  type ReferenceBounds,
  referredValues,
  storedOptions,
  unusable,
} from './stored-options.ts';
import { configuredSource, KnownProvider, type TargetMaker } from './targets.ts';
import { didYouMean } from '../base/did-you-mean.ts';
import type { HeaderList } from '../ports/header-list.ts';
import { accessTo } from '../access/integration-access.ts';
import type { TrustedHosts } from '../base/host-rules.ts';
import type { Target, TargetModels, WantedCredential } from '../pipeline/router.ts';
import { mustBeGuarded } from '../providers/base-url.ts';

/** Dependencies of stored providers; the same for all of a generation. */
interface StoredTargetSetup {
  readonly maker: TargetMaker;
  readonly trustedHosts: TrustedHosts;
}

/** Parts of one stored provider. */
interface StoredTargetParts {
  /** Name of the provider in requests. */
  readonly slug: string;
  readonly integration: StoredRecord<'integration'>;
  /** Row of the provider table. */
  readonly row: ProviderRow;
  readonly models: StoredModels;
  readonly secrets: OpenedSecrets;
  /** Limits that count each attempt; undefined for none. */
  readonly limits: LimitCharges | undefined;
}

/** Upper bound of cached variants of one provider, by model. */
const maxVariants = 200;

/** A provider of the store, compiled with its secrets: an address, a credential, and the prices of its models. */
class StoredTarget implements TargetModels {
  readonly known: KnownProvider;
  readonly #parts: StoredTargetParts;
  readonly #setup: StoredTargetSetup;
  readonly #options: ProviderOptions;
  readonly #variants = new Map<string, Target | undefined>();

  /** Throws `provider_disabled` or `custom_host_refused` for invalid settings. */
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

  /**
   * The variant of the target for a model. Only requests to the provider's own target get one: an address in a config or
   * request is kept.
   */
  targetOf(model: string, target: Target): Target | undefined {
    if (target !== this.known.target) return undefined;
    if (this.#variants.has(model)) return this.#variants.get(model);
    const options = this.#optionsOf(model);
    const variant = options === undefined ? undefined : this.#provider(options).target;
    // Undefined variants are not cached, so that arbitrary model names do not fill the cache.
    if (variant !== undefined && this.#variants.size < maxVariants) this.#variants.set(model, variant);
    return variant;
  }

  /** The settings with the model's own ones: an address, headers, a deployment. */
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
        // The machine's identity is the operator's; an integration of one workspace may not use it.
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

/** Dependencies of `StoredProviders`. */
interface StoredProvidersSetup extends StoredTargetSetup {
  readonly directory: Pick<Directory, 'standing' | 'record' | 'records'>;
  readonly table: ProviderTable;
  readonly box: SecretBox;
  /** Absent: integrations with external secrets cannot be used. */
  readonly managers?: SecretManagers | undefined;
  readonly clock: Clock;
}

/** Compiled form of one provider, valid while its records are the same objects. */
interface Compiled {
  readonly integration: StoredRecord<'integration'>;
  /** Workspace of `limits`. */
  readonly workspaceId: string;
  readonly row: ProviderRow;
  readonly models: StoredModels;
  readonly limits: LimitCharges | undefined;
  readonly bounds: ReferenceBounds;
  /** Values of references that `target` was built with. */
  referred: readonly string[];
  target: StoredTarget | undefined;
}

/**
 * Providers of workspaces in the store. All look-ups are in memory; a provider is compiled, and its secrets are opened,
 * once for each state of its records.
 */
export class StoredProviders {
  readonly #setup: StoredProvidersSetup;
  readonly #compiled = new WeakMap<StoredRecord<'provider'>, Compiled>();

  constructor(setup: StoredProvidersSetup) {
    this.#setup = setup;
  }

  /** Whether the workspace has a provider of this slug, usable or not. */
  has(place: ProviderPlace, slug: string): boolean {
    return this.#setup.directory.record('provider', place, slug) !== undefined;
  }

  /** True while the store cannot be read, so that a provider that is not found may exist. */
  get isBehind(): boolean {
    return this.#setup.directory.standing() !== 'current';
  }

  /** All providers of the workspace, usable or not. The same array until one changes. */
  all(place: ProviderPlace): readonly StoredRecord<'provider'>[] {
    return this.#setup.directory.records('provider', place);
  }

  /** The kind of provider, or the integration's prices of the model; undefined when there is no such provider. */
  pricesOf(place: ProviderPlace, slug: string, model: string): string | PricedModels | undefined {
    const record = this.#setup.directory.record('provider', place, slug);
    const integration = record && this.#integrationOf(record, place);
    if (record === undefined || integration === undefined) return undefined;
    return this.#compiledOf(record, integration, place).models.pricedBy(model);
  }

  /**
   * The provider of this slug, ready for use; undefined when the workspace has none. A promise only while a secret has
   * to be fetched. Throws `provider_disabled` when it may not be used now, `credentials_failed` without its secrets.
   */
  find(place: ProviderPlace, slug: string): MaybePromise<KnownProvider> | undefined {
    const record = this.#setup.directory.record('provider', place, slug);
    return record === undefined ? undefined : this.ready(record, place);
  }

  /** As `Router.credentialFor` says. */
  async credentialFor({ slug, origin, place }: WantedCredential): Promise<HeaderList> {
    const found = this.find(place, slug);
    if (found === undefined) {
      if (this.isBehind) throw directoryBehind(`provider slug ${JSON.stringify(slug)}`);
      const near = didYouMean(
        slug,
        this.all(place).map((one) => one.slug),
      );
      const hint = near === undefined ? 'Make one for the workspace.' : `Did you mean "${near}"?`;
      throw new GatewayError('provider_unknown', `The workspace has no provider "@${slug}". ${hint}`);
    }
    const { target } = await found;
    const refusal = (reason: string): GatewayError =>
      new GatewayError('credentials_failed', `The credential of the provider "@${slug}" ${reason}.`);
    if (!URL.canParse(target.origin) || new URL(target.origin).origin !== origin)
      throw refusal(
        `was stored for ${target.origin} and is not sent to ${origin}; name a provider of that origin`,
      );
    if (target.signsBody)
      throw refusal('signs each request, which only routes of models do; name another provider');
    const { headers, credentials } = target;
    const request = { method: 'GET', origin, path: '/', headers, body: null };
    const made =
      credentials === undefined ? headers : [...headers, ...(await credentials.authorize(request))];
    if (made.length > 0) return made;
    throw refusal('is missing; give its integration a key or custom_headers');
  }

  /** As `find`, for a record. */
  ready(record: StoredRecord<'provider'>, place: ProviderPlace): MaybePromise<KnownProvider> {
    const integration = this.#usable(record, place);
    const compiled = this.#compiledOf(record, integration, place);
    if (integration.data.secretMappings.length === 0)
      return (compiled.target ?? this.#targetOf(record, compiled, compiled.referred)).known;
    const referred = referredValues(integration, place, this.#setup, compiled.bounds);
    if (isPromise(referred)) return referred.then((values) => this.#withValues(record, compiled, values));
    return this.#withValues(record, compiled, referred);
  }

  /** The integration of the provider. Throws `provider_disabled` when the provider may not be used now. */
  #usable(record: StoredRecord<'provider'>, place: ProviderPlace): StoredRecord<'integration'> {
    const { slug, data } = record;
    if (data.expiresAt !== undefined && data.expiresAt <= this.#setup.clock.now()) {
      throw disabled(
        slug,
        `expired at ${new Date(data.expiresAt).toISOString()}. Give it a later expires_at, or use another one.`,
      );
    }
    const integration = this.#integrationOf(record, place);
    if (integration === undefined)
      throw disabled(slug, 'has no active integration. Use another one, or make it anew.');
    const { workspaceId } = place;
    const own = integration.data.workspaces[workspaceId];
    const isOwn = integration.workspaceId === workspaceId;
    if (own === undefined ? isOwn || integration.data.globalAccess.enabled : own.enabled) return integration;
    throw disabled(
      slug,
      'belongs to an integration that is not enabled for this workspace. Ask an administrator of the organisation for it.',
    );
  }

  #integrationOf(
    { parentId }: StoredRecord<'provider'>,
    place: ProviderPlace,
  ): StoredRecord<'integration'> | undefined {
    return this.#setup.directory.record('integration', place, parentId);
  }

  #compiledOf(
    record: StoredRecord<'provider'>,
    integration: StoredRecord<'integration'>,
    place: ProviderPlace,
  ): Compiled {
    const known = this.#compiled.get(record);
    const { workspaceId } = place;
    if (known !== undefined && known.integration === integration && known.workspaceId === workspaceId)
      return known;
    const { aiProviderId } = integration.data;
    const row = this.#setup.table.get(aiProviderId);
    if (row === undefined)
      throw unusable(
        integration.slug,
        `there is no provider ${JSON.stringify(aiProviderId)} in this gateway`,
      );
    const models = new StoredModels(record, integration, row);
    const limits = storedLimits(record, integration, place);
    const bounds = { origins: allOrigins(originsOf(integration.data, row)), found: new WeakSet() };
    const compiled: Compiled = {
      integration,
      workspaceId,
      row,
      models,
      limits,
      bounds,
      referred: [],
      target: undefined,
    };
    this.#compiled.set(record, compiled);
    return compiled;
  }

  #withValues(
    record: StoredRecord<'provider'>,
    compiled: Compiled,
    values: readonly string[],
  ): KnownProvider {
    const { target, referred } = compiled;
    const isSame = target !== undefined && values.every((value, index) => value === referred[index]);
    return (isSame ? target : this.#targetOf(record, compiled, values)).known;
  }

  #targetOf(
    { slug }: StoredRecord<'provider'>,
    compiled: Compiled,
    referred: readonly string[],
  ): StoredTarget {
    const { integration, row, models, limits } = compiled;
    const secrets = openSecrets(integration, referred, this.#setup.box);
    const target = new StoredTarget({ slug, integration, row, models, secrets, limits }, this.#setup);
    compiled.referred = referred;
    compiled.target = target;
    return target;
  }
}

function disabled(slug: string, reason: string): GatewayError {
  return new GatewayError('provider_disabled', `The provider "@${slug}" ${reason}`, { param: 'provider' });
}

/**
 * Limits that count attempts at a provider: its own, and those of its workspace at the integration, which all providers
 * of that workspace share. Undefined for no limit.
 */
function storedLimits(
  { id, slug, name, data, createdAt }: StoredRecord<'provider'>,
  integration: StoredRecord<'integration'>,
  { organisationId, workspaceId }: ProviderPlace,
): LimitCharges | undefined {
  const access = accessTo(integration, workspaceId);
  const shared = access?.rateLimits ?? [];
  const budgets = access?.usageLimits ?? [];
  const { usageLimits: own } = data;
  if (data.rateLimits.length + shared.length + budgets.length === 0 && own === undefined) return undefined;
  const charges = new LimitCharges();
  const prefix = providerBudgetKey(organisationId, id);
  const ofAccess = integrationBudgetKey(organisationId, integration.id, workspaceId);
  charges.addLimits(data.rateLimits, { prefix, organisationId, name: `provider "@${slug}"` });
  charges.addLimits(shared, {
    prefix: ofAccess,
    organisationId,
    name: `integration "${integration.slug}" in this workspace`,
  });
  const ofProvider = { type: 'provider' as const, id, name: name || slug, workspaceId };
  if (own !== undefined)
    charges.addUsageLimits([{ limit: own, createdAt }], prefix, organisationId, ofProvider);
  charges.addUsageLimits(
    budgets.map((limit) => ({ limit, createdAt: integration.createdAt })),
    ofAccess,
    organisationId,
    { type: 'integration', id: integration.id, name: integration.name || integration.slug, workspaceId },
  );
  return charges;
}
