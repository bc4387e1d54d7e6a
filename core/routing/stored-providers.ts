import { allOrigins, originsOf } from '../providers/secret-origins.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { isPromise } from '../pipeline/call-hook.ts';
import type { MaybePromise } from '../pipeline/context.ts';
import type { Clock } from '../ports/clock.ts';
import type { Directory } from '../ports/directory.ts';
import type { SecretBox, SecretManagers } from '../ports/secret-managers.ts';
import type { PricedModels } from '../ports/prices.ts';
import type { ProviderRow, ProviderTable } from '../providers/provider-row.ts';
import type { LimitCharges } from '../access/limit-charge.ts';
import type { StoredRecord } from '../ports/records.ts';
import { storedLimits } from './stored-limits.ts';
import { StoredModels } from './stored-models.ts';
import { unusable } from './stored-options.ts';
import { openSecrets, referredValues, type ProviderPlace, type ReferenceBounds } from './stored-secrets.ts';
import { StoredTarget, type StoredTargetSetup } from './stored-target.ts';
import type { KnownProvider } from './targets.ts';

/** What looking up stored providers needs. */
export interface StoredProvidersSetup extends StoredTargetSetup {
  readonly directory: Pick<Directory, 'standing' | 'record' | 'records'>;
  readonly table: ProviderTable;
  readonly box: SecretBox;
  /** Absent: integrations that refer to secrets elsewhere cannot be used. */
  readonly managers?: SecretManagers | undefined;
  readonly clock: Clock;
}

/** What has been compiled of one provider, for as long as its records are the same objects. */
interface Compiled {
  readonly integration: StoredRecord<'integration'>;
  /** Whose limits were looked at. */
  readonly workspaceId: string;
  readonly row: ProviderRow;
  readonly models: StoredModels;
  readonly limits: LimitCharges | undefined;
  readonly bounds: ReferenceBounds;
  /** The values of references that `target` was made with. */
  referred: readonly string[];
  target: StoredTarget | undefined;
}

/**
 * Providers that workspaces have in the store. Everything comes from memory; each is compiled once for each state of its
 * records, its secrets opened only then.
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

  /** True while a provider that is not found may exist: the store cannot be read. */
  get isBehind(): boolean {
    return this.#setup.directory.standing() !== 'current';
  }

  /** All providers of the workspace, usable or not. The same array until one changes. */
  all(place: ProviderPlace): readonly StoredRecord<'provider'>[] {
    return this.#setup.directory.records('provider', place);
  }

  /** The kind of provider and the prices of a model at it; undefined when there is none. */
  pricesOf(place: ProviderPlace, slug: string, model: string): string | PricedModels | undefined {
    const record = this.#setup.directory.record('provider', place, slug);
    const integration = record && this.#integrationOf(record, place);
    if (record === undefined || integration === undefined) return undefined;
    const { models, row } = this.#compiledOf(record, integration, place);
    return models.pricesOf(model) ?? row.service ?? integration.data.aiProviderId;
  }

  /**
   * The provider of this slug, ready to be used; undefined when the workspace has none. A promise only while a secret has
   * to be fetched. Throws `provider_disabled` when it may not be used now, `credentials_failed` without its secrets.
   */
  find(place: ProviderPlace, slug: string): MaybePromise<KnownProvider> | undefined {
    const record = this.#setup.directory.record('provider', place, slug);
    return record === undefined ? undefined : this.ready(record, place);
  }

  /** The same for a record that is known. */
  ready(record: StoredRecord<'provider'>, place: ProviderPlace): MaybePromise<KnownProvider> {
    const integration = this.#usable(record, place);
    const compiled = this.#compiledOf(record, integration, place);
    if (integration.data.secretMappings.length === 0)
      return (compiled.target ?? this.#targetOf(record, compiled, compiled.referred)).known;
    const referred = referredValues(integration, place, this.#setup, compiled.bounds);
    if (isPromise(referred)) return referred.then((values) => this.#withValues(record, compiled, values));
    return this.#withValues(record, compiled, referred);
  }

  /** The integration, when the provider may be used now. */
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
    const models = new StoredModels(record.slug, row.service ?? aiProviderId, integration);
    const limits = storedLimits(record, integration, place);
    const bounds = { origins: allOrigins(originsOf(integration.data, row)), found: new WeakSet() };
    const compiled: Compiled = {
      ...{ integration, workspaceId, row, models, limits, bounds },
      ...{ referred: [], target: undefined },
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
