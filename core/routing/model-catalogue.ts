import type { DialectName } from '../dialects/endpoint.ts';
import type { ListedModel, ModelListing } from '../dialects/model-list.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Answer } from '../pipeline/answer.ts';
import { isPromise } from '../pipeline/call-hook.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { callerKey } from '../pipeline/keys.ts';
import type { Clock } from '../ports/clock.ts';
import type { KeyRecord } from '../ports/directory.ts';
import type { TryOptions, Target } from '../pipeline/router.ts';
import type { Transport, UpstreamRequest } from '../ports/transport.ts';
import { authorized } from './authorize.ts';
import { collectUpstream } from './collect-upstream.ts';
import { hostFacts } from './plan-call.ts';
import { modelsCall, modelsWireOf } from './catalogue-request.ts';
import { catalogueAnswer, modelsAnswer, type CatalogueModel } from './model-page.ts';
import type { StoredProviders } from './stored-providers.ts';
import { callerCredentials } from './target-identity.ts';
import type { KnownProvider } from './targets.ts';

/** Longest list of one provider, in bytes. */
const maxListBytes = 8 * 1024 * 1024;
/** Longest wait for one provider's list, in milliseconds. */
const timeoutMs = 5_000;
/** A list that was fetched serves for this long, in milliseconds. */
const keptMs = 60_000;
/** Providers that one catalogue asks. */
const maxProviders = 100;

export type ModelListings = Readonly<Partial<Record<DialectName, ModelListing>>>;

export interface CatalogueSetup {
  readonly known: ReadonlyMap<string, KnownProvider>;
  /** Those that workspaces have in the store; absent for none. */
  readonly stored?: StoredProviders | undefined;
  readonly listings: ModelListings;
  readonly transport: Transport;
  readonly clock: Clock;
  /** What service keys begin with. */
  readonly keyPrefix: string;
}

/** The models of some providers, and who of them could not be asked. */
interface Collected {
  readonly models: readonly CatalogueModel[];
  readonly unavailable: readonly string[];
}

interface Kept {
  readonly collected: Promise<Collected>;
  /** Of the monotonic clock. */
  readonly until: number;
}

/**
 * The models that a key may use, addressed as `@provider/model`, in the shape of the client's wire: those of all providers of the
 * configuration, and of those that its workspace has in the store. Lists of hosts are kept for a minute.
 */
export class ModelCatalogue {
  private readonly setup: CatalogueSetup;
  private configured: Kept | undefined;
  private readonly ofOne = new WeakMap<KnownProvider, Kept>();

  constructor(setup: CatalogueSetup) {
    this.setup = setup;
  }

  /**
   * What the request's key may use, filtered and cut by its query; providers that do not answer are in `unavailable`.
   * `byDefault` is asked where nothing names a provider: its models are also there by their bare names.
   */
  async answer(exchange: Exchange, byDefault: KnownProvider | undefined): Promise<Answer> {
    const now = this.setup.clock.monotonic();
    if (this.configured === undefined || now >= this.configured.until)
      this.configured = { collected: this.collect(), until: now + keptMs };
    const key = exchange.get(callerKey);
    const lists = await Promise.all([this.configured.collected, ...(key ? this.storedOf(key) : [])]);
    const models = lists.flatMap((one) => one.models);
    if (byDefault !== undefined) {
      const { models: own } = await this.keptOf(byDefault);
      const bare = own.map((one) => ({ ...one, id: one.id.slice(byDefault.name.length + 2) }));
      models.unshift(...bare, ...own);
    }
    const unavailable = lists.flatMap((one) => one.unavailable);
    return catalogueAnswer(models, { call: modelsCall(exchange), query: exchange.query, unavailable });
  }

  /**
   * One provider's models in the shape of the client's wire, for hosts that list them in another one or elsewhere, and
   * for those of which not all may be used. Undefined where the request can be passed on as it is.
   */
  async ofTarget(exchange: Exchange, target: Target, options: TryOptions): Promise<Answer | undefined> {
    const call = modelsCall(exchange);
    const { query } = exchange;
    const shown = ({ id, created = 0, ownedBy = target.provider }: ListedModel): CatalogueModel => ({
      ...{ id, created, ownedBy, provider: target.provider, service: target.service },
    });
    if (target.models?.isRestricted === true)
      return modelsAnswer(
        target.models.listed.map((id) => shown({ id })),
        { call, query },
      );
    const listing = this.setup.listings[target.dialect];
    const wire = modelsWireOf(target.dialect);
    const isTheirs = wire === call.wire && call.isPlainPath === (wire !== 'gemini');
    // One model of a host with a shape of its own is asked for in that shape.
    const isUnknown = wire === undefined && call.id !== undefined && call.wire === 'openai';
    if (listing === undefined || isTheirs || isUnknown) return undefined;
    const waitMs = options.headTimeoutMs || timeoutMs;
    const credentials = target.passAuthorization ? callerCredentials(exchange, this.setup.keyPrefix) : [];
    const models = await this.fetch(target, listing, waitMs, credentials);
    return modelsAnswer(models.map(shown), { call, query });
  }

  private async collect(): Promise<Collected> {
    const asked = [...this.setup.known.values()]
      .filter(({ configured }) => configured)
      .slice(0, maxProviders);
    const lists = await Promise.all(asked.map((provider) => this.modelsOf(provider)));
    return {
      models: lists.flatMap(({ models }) => models),
      unavailable: lists.flatMap(({ unavailable }) => unavailable),
    };
  }

  /** Providers that may not be used now are left out. */
  private storedOf(key: KeyRecord): Promise<Collected>[] {
    const { stored, known } = this.setup;
    if (stored === undefined) return [];
    const records = stored.all(key).filter(({ slug }) => known.get(slug)?.configured !== true);
    return records.slice(0, maxProviders).map(async (record) => {
      try {
        const provider = await stored.ready(record, key);
        const { models, service } = provider.target;
        if (models?.isRestricted === true) return listedModels(record.slug, service, models.listed);
        return await this.keptOf(provider);
      } catch (error) {
        if (!GatewayError.is(error)) throw error;
        const unavailable = error.code === 'provider_disabled' ? [] : [record.slug];
        return { models: [], unavailable };
      }
    });
  }

  private keptOf(provider: KnownProvider): Promise<Collected> {
    const now = this.setup.clock.monotonic();
    let kept = this.ofOne.get(provider);
    if (kept === undefined || now >= kept.until) {
      kept = { collected: this.modelsOf(provider), until: now + keptMs };
      this.ofOne.set(provider, kept);
    }
    return kept.collected;
  }

  private async modelsOf(known: KnownProvider): Promise<Collected> {
    const { name: provider } = known;
    try {
      const { target } = known;
      const { service } = target;
      const listing = this.setup.listings[target.dialect];
      if (listing === undefined) return { models: [], unavailable: [provider] };
      const found = await this.fetch(target, listing, timeoutMs);
      const models = found.map(({ id, created = 0, ownedBy = provider }) => ({
        ...{ id: `@${provider}/${id}`, created, ownedBy, provider, service },
      }));
      return { models, unavailable: [] };
    } catch (error) {
      if (!GatewayError.is(error)) throw error;
      return { models: [], unavailable: [provider] };
    }
  }

  private async fetch(
    target: Target,
    listing: ModelListing,
    waitMs: number,
    callers: readonly string[] = [],
  ): Promise<readonly ListedModel[]> {
    const plain: UpstreamRequest = {
      origin: target.origin,
      guarded: target.guarded,
      method: 'GET',
      path: target.basePath + listing.path(hostFacts(target, '')),
      headers: [...callers, ...target.headers, 'accept', 'application/json', 'accept-encoding', 'identity'],
      body: null,
      connectTimeoutMs: waitMs,
      headTimeoutMs: waitMs,
      idleTimeoutMs: waitMs,
    };
    const { credentials } = target;
    const signed = credentials === undefined ? plain : authorized(plain, credentials);
    const request = isPromise(signed) ? await signed : signed;
    const { status, body } = await collectUpstream(this.setup.transport, request, maxListBytes);
    if (status === 200) return listing.read(body);
    throw new GatewayError(
      'provider_error',
      `The provider "${target.provider}" answered ${status} to the question for its models.`,
      { reported: { status } },
    );
  }
}

function listedModels(provider: string, service: string, listed: readonly string[]): Collected {
  const models = listed.map((id) => ({
    ...{ id: `@${provider}/${id}`, created: 0, ownedBy: provider, provider, service },
  }));
  return { models, unavailable: [] };
}
