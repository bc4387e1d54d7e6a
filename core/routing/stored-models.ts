import { notAllowed, untoldModel } from '../access/scopes.ts';
import type { GatewayError } from '../errors/gateway-error.ts';
import type { DatedTokenPrice, PricedModels } from '../ports/prices.ts';
import type { IntegrationModel } from '../ports/record-kinds.ts';
import type { StoredRecord } from '../ports/records.ts';
import type { ProviderRow } from '../providers/provider-row.ts';

/** One deployment of Azure, from the settings of an integration. */
interface StoredDeployment {
  readonly id: string;
  readonly apiVersion: string;
  /** The model behind it, for prices; empty when unknown. */
  readonly model: string;
}

/** Model settings of an integration, without secrets: the allowed models and their prices. */
export class StoredModels {
  /** The kind of provider, as the key of prices. */
  readonly service: string;
  readonly isRestricted: boolean;
  /** Slugs of the models that are enabled. */
  readonly listed: readonly string[];
  readonly #provider: string;
  readonly #factors: Pick<PricedModels, 'multiplier' | 'laterMultipliers'>;
  readonly #enabled = new Map<string, IntegrationModel>();
  readonly #deployments: ReadonlyMap<string, StoredDeployment>;
  readonly #prices = new Map<string, PricedModels>();
  readonly #otherwise: PricedModels | undefined;

  /** `slug` is the name of the provider in requests, `row` its row of the provider table. */
  constructor(
    { slug }: Pick<StoredRecord<'provider'>, 'slug'>,
    { data }: Pick<StoredRecord<'integration'>, 'data'>,
    row: Pick<ProviderRow, 'service'> | undefined,
  ) {
    const { allowAllModels, models, priceMultiplier, laterMultipliers: later = [], configurations } = data;
    this.#provider = slug;
    this.service = row?.service ?? data.aiProviderId;
    this.#factors = { multiplier: priceMultiplier, ...(later.length > 0 && { laterMultipliers: later }) };
    this.isRestricted = !allowAllModels;
    this.#deployments = deploymentsOf(configurations['deployments']);
    for (const model of models) if (model.enabled) this.#enabled.set(model.slug, model);
    this.listed = [...this.#enabled.keys()];
    for (const model of models) this.#price(model);
    for (const [name, { model }] of this.#deployments) {
      if (model !== '' && !this.#prices.has(name)) this.#keep(name, this.#sourceOf(model));
    }
    if (priceMultiplier !== 1 || later.length > 0) this.#otherwise = this.#priced('', undefined);
  }

  /** Throws `model_not_allowed` when the integration does not allow the model. */
  require(model: string): void {
    if (!this.isRestricted || this.#enabled.has(model)) return;
    const deployment = this.#deployments.get(model);
    if (deployment !== undefined && this.#enabled.has(deployment.model)) return;
    const none = 'It allows none; enable models of its integration.';
    throw notAllowed(`provider "@${this.#provider}"`, model, this.listed, none);
  }

  /** The refusal of a request whose model cannot be determined. */
  refusalOfUntold(why: string): GatewayError {
    const remedy = ', or use a provider whose integration allows all models';
    return untoldModel(`provider "@${this.#provider}"`, why, remedy);
  }

  /** Undefined: the known prices of the kind of provider. */
  pricesOf(model: string): PricedModels | undefined {
    return this.#prices.get(model) ?? this.#otherwise;
  }

  /** Prices of the model's requests: the integration's, or the kind of provider as their key. */
  pricedBy(model: string): PricedModels | string {
    return this.pricesOf(model) ?? this.service;
  }

  /** The model's own settings, when the integration enables it. */
  enabled(model: string): IntegrationModel | undefined {
    return this.#enabled.get(model);
  }

  /** The deployment that serves the model. */
  deployment(model: string): StoredDeployment | undefined {
    return this.#deployments.get(model);
  }

  #price({ slug, pricing, laterPricing = [], baseModelSlug }: IntegrationModel): void {
    if (pricing !== undefined)
      this.#prices.set(slug, this.#priced(baseModelSlug, byTime([pricing, ...laterPricing])));
    else if (baseModelSlug !== '') this.#keep(slug, baseModelSlug);
  }

  /** The model that determines a deployment's price: itself where it has a price of its own. */
  #sourceOf(model: string): string {
    const priced = this.#prices.get(model);
    return priced === undefined || priced.own !== undefined || priced.model === '' ? model : priced.model;
  }

  #keep(name: string, model: string): void {
    this.#prices.set(name, this.#prices.get(model) ?? this.#priced(model, undefined));
  }

  #priced(model: string, own: PricedModels['own']): PricedModels {
    return { service: this.service, model, own, ...this.#factors };
  }
}

function byTime(prices: readonly DatedTokenPrice[]): readonly DatedTokenPrice[] {
  return prices.toSorted((a, b) => (a.from ?? 0) - (b.from ?? 0));
}

/** Deployments by each name that requests may use, in order of precedence: alias, own name, model behind it. */
function deploymentsOf(given: unknown): ReadonlyMap<string, StoredDeployment> {
  const found = new Map<string, StoredDeployment>();
  if (!Array.isArray(given)) return found;
  const read = given.map((one: unknown) => readDeployment(one));
  for (const name of ['alias', 'id', 'model'] as const) {
    for (const one of read) {
      if (one.id !== '' && one[name] !== '' && !found.has(one[name])) found.set(one[name], one);
    }
  }
  return found;
}

function readDeployment(given: unknown): StoredDeployment & { readonly alias: string } {
  const one = typeof given === 'object' && given !== null ? (given as Readonly<Record<string, unknown>>) : {};
  const text = (name: string): string => (typeof one[name] === 'string' ? one[name] : '');
  return {
    id: text('deployment_id'),
    apiVersion: text('api_version'),
    model: text('model'),
    alias: text('alias'),
  };
}
