import type { DialectName } from '../dialects/endpoint.ts';
import type { ListedModel, ModelListing } from '../dialects/model-list.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { jsonAnswer } from '../http/reply.ts';
import type { Answer } from '../pipeline/answer.ts';
import { isPromise } from '../pipeline/call-hook.ts';
import type { Clock } from '../ports/clock.ts';
import type { TryOptions, Target } from '../ports/router.ts';
import type { Transport, UpstreamRequest } from '../ports/transport.ts';
import { authorized } from './authorize.ts';
import { collectUpstream } from './collect-upstream.ts';
import { hostFacts } from './plan-call.ts';
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
  readonly listings: ModelListings;
  readonly transport: Transport;
  readonly clock: Clock;
}

interface ProviderModels {
  readonly provider: string;
  readonly models: readonly ListedModel[];
  /** It could not be asked. */
  readonly failed: boolean;
}

/** The models of all configured providers, addressed as `@provider/model`, in OpenAI's shape. Lists are kept for a minute. */
export class ModelCatalogue {
  private readonly setup: CatalogueSetup;
  private kept: Promise<Answer> | undefined;
  private keptUntil = 0;

  constructor(setup: CatalogueSetup) {
    this.setup = setup;
  }

  /** The same answer to everybody for a minute; providers that do not answer are named in `unavailable`. */
  answer(): Promise<Answer> {
    const now = this.setup.clock.monotonic();
    if (this.kept === undefined || now >= this.keptUntil) {
      this.keptUntil = now + keptMs;
      this.kept = this.collect();
    }
    return this.kept;
  }

  /** One provider's models in OpenAI's shape, for hosts whose list stands elsewhere. Undefined for all others. */
  async ofTarget(target: Target, options: TryOptions): Promise<Answer | undefined> {
    const listing = this.setup.listings[target.dialect];
    if (listing === undefined || listing.path(hostFacts(target, '')).split('?')[0] === '/models')
      return undefined;
    const models = await this.fetch(target, listing, options.headTimeoutMs || timeoutMs);
    return listAnswer(models.map((model) => shown(model, model.id, target.provider)));
  }

  private async collect(): Promise<Answer> {
    const asked = [...this.setup.known.values()]
      .filter(({ configured }) => configured)
      .slice(0, maxProviders);
    const lists = await Promise.all(asked.map((provider) => this.modelsOf(provider)));
    const entries = lists.flatMap(({ provider, models }) =>
      models.map((model) => shown(model, `@${provider}/${model.id}`, provider)),
    );
    const unavailable = lists.filter(({ failed }) => failed).map(({ provider }) => provider);
    return listAnswer(entries, unavailable);
  }

  private async modelsOf(provider: KnownProvider): Promise<ProviderModels> {
    const { name } = provider;
    try {
      const { target } = provider;
      const listing = this.setup.listings[target.dialect];
      const models = listing === undefined ? [] : await this.fetch(target, listing, timeoutMs);
      return { provider: name, models, failed: listing === undefined };
    } catch (error) {
      if (!GatewayError.is(error)) throw error;
      return { provider: name, models: [], failed: true };
    }
  }

  private async fetch(
    target: Target,
    listing: ModelListing,
    waitMs: number,
  ): Promise<readonly ListedModel[]> {
    const plain: UpstreamRequest = {
      origin: target.origin,
      guarded: target.guarded,
      method: 'GET',
      path: target.basePath + listing.path(hostFacts(target, '')),
      headers: [...target.headers, 'accept', 'application/json', 'accept-encoding', 'identity'],
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

function shown(model: ListedModel, id: string, provider: string): Record<string, unknown> {
  return { id, object: 'model', created: model.created ?? 0, owned_by: model.ownedBy ?? provider };
}

function listAnswer(data: readonly unknown[], unavailable: readonly string[] = []): Answer {
  const rest = unavailable.length === 0 ? {} : { unavailable };
  return jsonAnswer(200, { object: 'list', data, ...rest });
}
