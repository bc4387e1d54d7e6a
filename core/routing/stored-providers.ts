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
  openSecrets,
  type ProviderPlace,
  type ReferenceBounds,
  referredValues,
  StoredTarget,
  type StoredTargetSetup,
  unusable,
} from './stored-target.ts';
import type { KnownProvider } from './targets.ts';
import { didYouMean } from '../base/did-you-mean.ts';
import type { HeaderList } from '../ports/header-list.ts';
import { accessTo } from '../access/integration-access.ts';
import type { WantedCredential } from '../pipeline/router.ts';

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
