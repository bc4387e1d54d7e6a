import type { AllowedModels } from '../access/scopes.ts';
import type { DialectName } from '../dialects/endpoint.ts';
import type { ListedModel, ModelListing } from '../dialects/model-list.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Answer } from '../pipeline/answer.ts';
import { isPromise } from '../base/turns.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { callerKey } from '../pipeline/keys.ts';
import type { Clock } from '../ports/clock.ts';
import type { KeyRecord } from '../ports/directory.ts';
import type { RouteOptions, Target, AttemptOptions } from '../pipeline/router.ts';
import type { Transport, UpstreamRequest } from '../ports/transport.ts';
import { authorized, callerCredentials } from './credentials.ts';
import { collectUpstream } from './collected-answer.ts';
import { hostFacts } from './upstream-request.ts';
import type { StoredProviders } from './stored-providers.ts';
import type { KnownProvider } from './targets.ts';
import { jsonAnswer } from '../pipeline/settle.ts';
import { headerValue } from '../ports/header-list.ts';
import { decodePercent } from '../base/bytes.ts';

/** Dialects whose clients have their own format for models. */
type ModelsWire = 'openai' | 'anthropic' | 'gemini';

/** A request for the list of models, or for one model by its id. */
interface ModelsCall {
  readonly wire: ModelsWire;
  /** As addressed; undefined for the list. */
  readonly id: string | undefined;
  /**
   * The path is that of OpenAI's and Anthropic's dialects (`/models`), not Gemini's (`/v1beta/models`).
   */
  readonly isPlainPath: boolean;
}

const modelsPath = /^(\/v1(?:alpha|beta)\d*)?\/models(?:\/(.+))?$/;

/** Whether a request of the endpoint `models` is `GET /models` or `/v1beta/models`, for all models or for one. */
export function isModelListRequest({ endpoint, method, path }: Exchange): boolean {
  return endpoint.id === 'models' && method === 'GET' && modelsPath.test(path);
}

/**
 * Parses a request that satisfies `isModelListRequest`. A header or path that only one of the dialects has determines
 * the dialect.
 */
function modelsCall({ path, headers }: Pick<Exchange, 'path' | 'headers'>): ModelsCall {
  const [, version, id] = modelsPath.exec(path) ?? [];
  const isGemini = version !== undefined || headerValue(headers, 'x-goog-api-key') !== undefined;
  const isAnthropic = headerValue(headers, 'anthropic-version') !== undefined;
  return {
    wire: isGemini ? 'gemini' : isAnthropic ? 'anthropic' : 'openai',
    id: id === undefined ? undefined : decodePercent(id),
    isPlainPath: version === undefined,
  };
}

/** The dialect in whose format a host lists its models; undefined for hosts with another format. */
function modelsWireOf(dialect: DialectName): ModelsWire | undefined {
  return hostWires[dialect];
}

const hostWires: Readonly<Partial<Record<DialectName, ModelsWire>>> = {
  'openai-chat': 'openai',
  'openai-completions': 'openai',
  'openai-responses': 'openai',
  'anthropic-messages': 'anthropic',
  'google-gemini': 'gemini',
};

/**
 * Whether neither the request's headers nor the options name a provider or config. A default provider with `isOpen`
 * counts as none.
 */
export function isUnaddressed(
  exchange: Exchange,
  { defaultProvider, defaultConfig }: Pick<RouteOptions, 'defaultProvider' | 'defaultConfig'>,
  isOpen: (defaultProvider: string) => boolean,
): boolean {
  const named = exchange.service('provider') || exchange.service('virtual-key') || exchange.service('config');
  if (named || defaultConfig !== undefined) return false;
  return defaultProvider === undefined || isOpen(defaultProvider);
}

/** A model of the catalogue with its search keys. */
interface CatalogueModel {
  /** As addressed: `@provider/model`. */
  readonly id: string;
  /** Seconds since the epoch; 0 when the provider does not report it. */
  readonly created: number;
  readonly ownedBy: string;
  /** Slug of its provider. */
  readonly provider: string;
  /** Kind of its provider: `openai`. */
  readonly service: string;
}

/** Context for the answer with a list of models. */
interface ModelsTelling {
  readonly call: ModelsCall;
  /** Query of the request, for filters and pages. */
  readonly query: string;
  /** Providers that did not answer. */
  readonly unavailable?: readonly string[];
}

/**
 * The catalogue in the format of the client's dialect, or the one requested model. Throws `invalid_request` for an
 * invalid query, and `resource_not_found` for an unknown model.
 */
function catalogueAnswer(models: readonly CatalogueModel[], telling: ModelsTelling): Answer {
  const { call, query } = telling;
  if (call.id !== undefined || call.wire !== 'openai') return modelsAnswer(filtered(models, query), telling);
  const page = modelPage(models, query);
  const total = page.total === page.models.length ? undefined : page.total;
  return openAiList(page.models, telling.unavailable, total);
}

/** The models of one provider in the same format. Ignores the filters of the catalogue. */
function modelsAnswer(models: readonly CatalogueModel[], telling: ModelsTelling): Answer {
  const { call, query, unavailable = [] } = telling;
  const { wire, id } = call;
  if (id !== undefined) {
    const found = models.find((one) => one.id === id);
    if (found === undefined)
      throw new GatewayError('resource_not_found', `There is no model "${id}". GET /models lists them.`, {
        param: 'model',
      });
    return jsonAnswer(200, records[wire](found));
  }
  if (wire === 'openai') return openAiList(models, unavailable);
  const given = new URLSearchParams(query);
  const list = wire === 'gemini' ? geminiPage(models, given) : anthropicPage(models, given);
  return jsonAnswer(200, { ...list, ...(unavailable.length > 0 && { unavailable }) });
}

const records = { openai: openAiRecord, anthropic: anthropicRecord, gemini: geminiRecord };

function openAiList(
  models: readonly CatalogueModel[],
  unavailable: readonly string[] = [],
  total: number | undefined = undefined,
): Answer {
  return jsonAnswer(200, {
    object: 'list',
    data: models.map(openAiRecord),
    ...(total !== undefined && { total }),
    ...(unavailable.length > 0 && { unavailable }),
  });
}

/** Anthropic's pages: `limit`, and the model after which they begin or before which they end. */
function anthropicPage(models: readonly CatalogueModel[], given: URLSearchParams): object {
  const limit = sizeOf(given, 'limit', models.length);
  const place = (name: string): number | undefined => {
    const id = given.get(name);
    if (id === null) return undefined;
    const found = models.findIndex((one) => one.id === id);
    if (found < 0) throw refusal(name, 'the id of a model of the list');
    return found;
  };
  const after = place('after_id');
  const before = place('before_id');
  const start = after !== undefined ? after + 1 : before === undefined ? 0 : Math.max(0, before - limit);
  const end = before ?? start + limit;
  const data = models.slice(start, end).map(anthropicRecord);
  const hasMore = before === undefined ? end < models.length : start > 0;
  return {
    ...{ data, has_more: hasMore },
    ...{ first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null },
  };
}

/** Gemini's pages: `pageSize`, and a token for the start of the next one. */
function geminiPage(models: readonly CatalogueModel[], given: URLSearchParams): object {
  const size = sizeOf(given, 'pageSize', models.length);
  const token = given.get('pageToken') || '0';
  if (!/^\d{1,9}$/.test(token)) throw refusal('pageToken', 'the nextPageToken of the page before');
  const start = Number(token);
  const end = start + size;
  return {
    models: models.slice(start, end).map(geminiRecord),
    ...(end < models.length && { nextPageToken: String(end) }),
  };
}

function sizeOf(given: URLSearchParams, name: string, all: number): number {
  const size = countOf(given, name);
  if (size === 0) throw refusal(name, 'a whole number of at least 1');
  return size ?? all;
}

function openAiRecord({ id, created, ownedBy }: CatalogueModel): object {
  return { id, object: 'model', created, owned_by: ownedBy };
}

/** An unknown date becomes the start of the epoch, as in Anthropic's API. */
function anthropicRecord({ id, created }: CatalogueModel): { readonly id: string } {
  const date = new Date(created * 1000).toISOString().replace('.000', '');
  return { ...{ type: 'model', id }, ...{ display_name: id, created_at: date } };
}

function geminiRecord({ id }: CatalogueModel): object {
  const supportedGenerationMethods = ['generateContent', 'streamGenerateContent'];
  return { name: `models/${id}`, displayName: id, supportedGenerationMethods };
}

/** The requested part of the catalogue, and the number of models that match the filters. */
interface ModelPage {
  readonly models: readonly CatalogueModel[];
  readonly total: number;
}

/**
 * Filters (`ai_service`, `provider`), sorts (`sort` by id, created, provider or ai_service; `order`) and cuts (`limit`,
 * `offset`) the catalogue. Ignores other parameters. Throws `invalid_request` for an invalid value.
 */
function modelPage(models: readonly CatalogueModel[], query: string): ModelPage {
  if (query.length <= 1) return { models, total: models.length };
  const given = new URLSearchParams(query);
  const found = filtered(models, query);
  const offset = countOf(given, 'offset') ?? 0;
  const limit = countOf(given, 'limit') ?? found.length;
  return { models: found.slice(offset, offset + limit), total: found.length };
}

function filtered(models: readonly CatalogueModel[], query: string): readonly CatalogueModel[] {
  if (query.length <= 1) return models;
  const given = new URLSearchParams(query);
  const service = given.get('ai_service');
  const provider = given.get('provider')?.replace(/^@/, '');
  const found = models.filter(
    (one) =>
      (service === null || one.service === service) && (provider === undefined || one.provider === provider),
  );
  const sort = given.get('sort');
  const order = given.get('order') ?? 'asc';
  if (order !== 'asc' && order !== 'desc') throw refusal('order', 'asc or desc');
  if (sort !== null) {
    const value = Object.hasOwn(sortable, sort) ? sortable[sort as keyof typeof sortable] : undefined;
    if (value === undefined) throw refusal('sort', Object.keys(sortable).join(', '));
    found.sort((a, b) => compareModels(value(a), value(b)));
  }
  if (order === 'desc') found.reverse();
  return found;
}

const sortable = {
  id: ({ id }: CatalogueModel) => id,
  created: ({ created }: CatalogueModel) => created,
  provider: ({ provider }: CatalogueModel) => provider,
  ai_service: ({ service }: CatalogueModel) => service,
};

function compareModels(one: string | number, other: string | number): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

function countOf(given: URLSearchParams, name: string): number | undefined {
  const text = given.get(name);
  if (text === null) return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw refusal(name, 'a whole number');
}

function refusal(name: string, expected: string): GatewayError {
  return new GatewayError('invalid_request', `The query parameter "${name}" must be ${expected}.`, {
    param: name,
  });
}

/** Upper bound of one provider's list, in bytes. */
const maxListBytes = 8 * 1024 * 1024;
/** Deadline for one provider's list, in milliseconds. */
const timeoutMs = 5_000;
/** Lifetime of a cached list, in milliseconds. */
const keptMs = 60_000;
/** Upper bound of providers that one catalogue queries. */
const maxProviders = 100;

export type ModelListings = Readonly<Partial<Record<DialectName, ModelListing>>>;

interface CatalogueSetup {
  readonly known: ReadonlyMap<string, KnownProvider>;
  /** Providers of workspaces in the store; absent for none. */
  readonly stored?: StoredProviders | undefined;
  readonly listings: ModelListings;
  readonly transport: Transport;
  readonly clock: Clock;
  /** Prefix of service keys. */
  readonly keyPrefix: string;
}

/** Models of several providers, and the providers that did not answer. */
interface Collected {
  readonly models: readonly CatalogueModel[];
  readonly unavailable: readonly string[];
}

interface Kept {
  readonly collected: Promise<Collected>;
  /** Expiry, on the monotonic clock. */
  readonly until: number;
}

/**
 * The models that a key may use, addressed as `@provider/model`, in the format of the client's dialect: those of all
 * providers of the configuration, and of the providers of its workspace in the store. Lists of hosts are cached for a
 * minute.
 */
export class ModelCatalogue {
  private readonly setup: CatalogueSetup;
  private configured: Kept | undefined;
  private readonly ofOne = new WeakMap<KnownProvider, Kept>();

  constructor(setup: CatalogueSetup) {
    this.setup = setup;
  }

  /**
   * The models that the request's key may use, filtered and cut by its query; providers that do not answer are in
   * `unavailable`. Models of `byDefault`, the provider of requests that name none, are also listed by their bare names.
   */
  async answer(
    exchange: Exchange,
    byDefault: KnownProvider | undefined,
    allowed: AllowedModels | undefined,
  ): Promise<Answer> {
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
    const shown = allowed === undefined ? models : models.filter(({ id }) => allowed.allows(id));
    return catalogueAnswer(shown, { call: modelsCall(exchange), query: exchange.query, unavailable });
  }

  /**
   * One provider's models in the format of the client's dialect, for hosts that list them in another format or at another
   * path, and for providers with a model list. Undefined where the request can be passed on unchanged.
   */
  async ofTarget(exchange: Exchange, target: Target, options: AttemptOptions): Promise<Answer | undefined> {
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
    // A single model of a host with its own format is requested in that format.
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

  /** Models of the stored providers, without providers that may not be used now. */
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
