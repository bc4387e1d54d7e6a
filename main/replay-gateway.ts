// Composition root: a gateway for recorded requests, which sends nothing: what it would send is noted.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createMockTransport } from '../adapters/mock/transport.ts';
import { createPrices } from '../adapters/pricing/genai-prices.ts';
import { createLog } from '../adapters/telemetry/line-log.ts';
import { createMetrics } from '../adapters/telemetry/prometheus.ts';
import { readFeatures } from '../core/access/features.ts';
import type { Judgement, Side } from '../core/administration/changes/compare-requests.ts';
import { isInlineConfig, type RecordedRequest } from '../core/administration/changes/recorded-request.ts';
import { isJsonObject } from '../core/base/json.ts';
import { sha256 } from '../core/base/bytes.ts';
import type { loadConfig } from '../core/config/load-config.ts';
import type { Problem } from '../core/config/problem.ts';
import type { GatewayConfig } from '../core/config/schema.ts';
import { localMessage, LocalResponse } from '../core/connection/local-request.ts';
import { GatewayError } from '../core/errors/gateway-error.ts';
import type { Gateway } from '../core/http/gateway.ts';
import type { UndoStack } from '../core/lifecycle/undo-stack.ts';
import type { Outcome } from '../core/pipeline/context.ts';
import type { Exchange } from '../core/pipeline/exchange.ts';
import { type Clock, systemClock } from '../core/ports/clock.ts';
import type { Directory, KeyRecord } from '../core/ports/directory.ts';
import { type Journal, shedReasons } from '../core/ports/journal.ts';
import type { Prices } from '../core/ports/prices.ts';
import type { SecretBox } from '../core/ports/secret-managers.ts';
import type { Transport, UpstreamHandler, UpstreamRequest } from '../core/ports/transport.ts';
import { privateFolders } from '../storage/embedded/own-folder.ts';
import { type Identity, openIdentity } from '../storage/identity/open-identity.ts';
import { assembleGateway, type Replay } from './assemble.ts';
import { openSecrets } from './open-secret-box.ts';
import { openStores } from './open-stores.ts';

/** The default organisation of a gateway, and its default workspace. */
export type ReplayPlace = Pick<Directory, 'defaultOrganisationId' | 'defaultWorkspaceId'>;

/** What a replay needs of a configuration. */
interface ReplayOptions {
  readonly file: string;
  readonly loaded: Extract<Awaited<ReturnType<typeof loadConfig>>, { ok: true }>;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Ids of the keys that either configuration defines: a key that only the other one has is unknown here. */
  readonly definedKeys: ReadonlySet<string>;
  /** Organisation and workspace of the gateway that served the requests; undefined when they are unknown. */
  readonly place: ReplayPlace | undefined;
  /** What its store holds; undefined without a store, or when it was not read. */
  readonly saved: Directory | undefined;
  readonly opened: UndoStack;
}

/** Longest time for one request, real milliseconds. */
const requestMs = 10_000;
const maxAnswerBytes = 64 * 1024 * 1024;
const golden = 0.618_033_988_749_894_9;

/** Headers that a recorded request does not bring along: of its connection, or of its body. */
const leftOut = new Set([
  ...['host', 'connection', 'content-length', 'content-encoding', 'transfer-encoding', 'expect', 'upgrade'],
  ...['authorization', 'x-api-key', 'x-goog-api-key', 'api-key', 'cookie', 'accept-encoding'],
]);

/** Opens the configuration for recorded requests. Resolves to its mistakes when it does not start. */
export async function openReplay(options: ReplayOptions): Promise<Side | readonly Problem[]> {
  const { environment, opened, loaded, file } = options;
  const config = withoutStores(loaded.config);
  const clock = new RecordedClock();
  // The recorded requests were warned about when they were served.
  const log = createLog({ level: 'error', format: 'text', write: () => undefined, clock });
  const home = await mkdtemp(path.join(tmpdir(), 'weir-plan-'));
  opened.push(() => rm(home, { recursive: true, force: true, maxRetries: 5 }));
  const data = path.join(home, 'data');
  await privateFolders.own(data);
  const keyPrefix = config.security.key_prefix;
  const opening = await openIdentity(data, { presetKey: undefined, ownerEmail: undefined, keyPrefix });
  const identity = await identityAt(opening, options);
  const secrets = playedSecrets(await openSecrets({ config, data, environment, log }));
  const features = readFeatures(environment, config.retention);
  const parts = { config, file, data, features, secrets, log, clock, metrics: createMetrics(), opened };
  const stores = await openStores({ ...parts, source: loaded.source, identity });
  const keys = new ReplayKeys(config, stores.directory, options.definedKeys);
  const run = new ReplayRun(clock);
  const { gateway, start } = assembleGateway({
    ...parts,
    environment,
    stores: { ...stores, journal: noJournal, directory: keys.directory },
    load: () => Promise.resolve({ ...loaded, config }),
    watch: () => () => undefined,
    replay: run.outside,
  });
  const problems = await start();
  if (problems.length > 0) return problems;
  const prices = createPrices({ log, own: config.prices.models });
  return {
    judge: (request, names) =>
      run.judge(gateway, { request, prices, headers: headersOf(request, names, keys, config) }),
  };
}

/** The identity of the gateway that served the requests, with what its store holds. */
async function identityAt(identity: Identity, { place, saved }: ReplayOptions): Promise<Identity> {
  if (place === undefined) return identity;
  const { owner } = identity;
  const joined = await identity.join({
    ...{ organisationId: place.defaultOrganisationId, workspaceId: place.defaultWorkspaceId },
    ...{ ownerId: owner.id, ownerEmail: owner.email },
  });
  return saved === undefined ? joined : { ...joined, directory: saved };
}

/** Secrets of the store stay sealed: nothing is sent, so that any value does. Headers are sealed as a JSON object. */
function playedSecrets(box: SecretBox): SecretBox {
  return {
    keyId: box.keyId,
    seal: (text, context) => box.seal(text, context),
    open: (_sealed, context) => (context.endsWith('headers') ? '{}' : 'replay'),
    isCurrent: (sealed) => box.isCurrent(sealed),
  };
}

/** The configuration with nothing that is kept, watched or told. */
function withoutStores(config: GatewayConfig): GatewayConfig {
  return {
    ...config,
    prices: { ...config.prices, url: undefined },
    storage: {
      ...config.storage,
      resources: { ...config.storage.resources, url: 'none:' },
      analytics: { ...config.storage.analytics, url: 'none:' },
      counters: { ...config.storage.counters, url: 'memory:' },
      cache: { ...config.storage.cache, url: 'memory:' },
    },
    telemetry: { ...config.telemetry, otlp: undefined },
  };
}

function headersOf(
  request: RecordedRequest,
  names: Readonly<Record<string, string>>,
  keys: ReplayKeys,
  { server: { header_prefix: prefix } }: GatewayConfig,
): string[] {
  const { headers = {}, metadata } = request;
  const kept = Object.entries(headers).filter(
    // A config keeps its masks: nothing is sent, so that any secret does.
    ([name, value]) =>
      !leftOut.has(name) &&
      name !== `${prefix}-api-key` &&
      (!value.includes('***') || isInlineConfig([name, value])),
  );
  const own: [string, string][] = Object.entries(names).map(([name, value]) => [`${prefix}-${name}`, value]);
  const hasMetadata = kept.some(([name]) => name.endsWith('-metadata'));
  if (!hasMetadata && Object.keys(metadata).length > 0)
    own.push([`${prefix}-metadata`, JSON.stringify(metadata)]);
  if (request.apiKeyId !== '') own.push([`${prefix}-api-key`, keys.secretOf(request)]);
  return [...kept, ...own].flat();
}

/** Time as it was when the present request came. */
class RecordedClock implements Clock {
  #at = 0;
  #since = systemClock.monotonic();

  /** Goes on to a moment; never back. */
  goTo(at: number): void {
    this.#at = Math.max(at, this.now());
    this.#since = systemClock.monotonic();
  }

  now(): number {
    return this.#at + (systemClock.monotonic() - this.#since);
  }

  monotonic(): number {
    return this.now();
  }

  after(ms: number, run: () => void): () => void {
    return systemClock.after(ms, run);
  }
}

/** The keys of recorded requests, by secrets that exist here alone. */
class ReplayKeys {
  readonly directory: Directory;
  readonly #byHash = new Map<string, KeyRecord>();
  readonly #secrets = new Map<string, string>();
  readonly #config: GatewayConfig;
  readonly #inner: Directory;
  readonly #defined: ReadonlySet<string>;

  constructor(config: GatewayConfig, inner: Directory, defined: ReadonlySet<string>) {
    this.#config = config;
    this.#inner = inner;
    this.#defined = defined;
    this.directory = new Proxy(inner, {
      get: (target, name): unknown => {
        if (name === 'keyByHash') return (hash: string) => this.#byHash.get(hash) ?? target.keyByHash(hash);
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  }

  /** The secret that stands for the request's key; that of no key where this configuration has none of its id. */
  secretOf(request: RecordedRequest): string {
    const { apiKeyId } = request;
    let secret = this.#secrets.get(apiKeyId);
    if (secret === undefined) {
      secret = `${this.#config.security.key_prefix}replay_${sha256(apiKeyId, 'hex')}`;
      const key = this.#keyOf(request);
      if (key !== undefined) this.#byHash.set(sha256(secret, 'base64'), key);
      this.#secrets.set(apiKeyId, secret);
    }
    return secret;
  }

  #keyOf({ apiKeyId: id, organisationId, workspaceId, userId }: RecordedRequest): KeyRecord | undefined {
    const own = this.#inner.keyById(id);
    if (own !== undefined) return own;
    const written = keysOf(this.#config).find((one) => one.id === id);
    if (written === undefined && this.#defined.has(id)) return undefined;
    const kind = written?.kind ?? 'workspace-service';
    return {
      ...{ id, name: written?.name ?? id, kind, userId, expiresAt: written?.expiresAt ?? null },
      organisationId: organisationId || this.#inner.defaultOrganisationId,
      workspaceId: workspaceId || this.#inner.defaultWorkspaceId,
      scopes: written?.scopes ?? ['*'],
    };
  }
}

/** A key in the options of `auth`. */
interface WrittenKey extends Pick<KeyRecord, 'id' | 'name' | 'kind' | 'expiresAt'> {
  readonly scopes: readonly string[] | undefined;
}

/** The keys that a configuration itself defines. */
export function keysOf({ pipelines, organisation }: GatewayConfig): readonly WrittenKey[] {
  const lists: unknown[] = pipelines.flatMap(({ plugins }) =>
    plugins.filter(({ use }) => use === 'auth').map(({ options }) => options['keys']),
  );
  const found = lists.flatMap((list) => (Array.isArray(list) ? (list as unknown[]) : []));
  const others: unknown[] = [...(organisation?.keys ?? [])];
  return [...found, ...others].filter(isJsonObject).map((key) => {
    const { name, id, kind, scopes, expires_at: expires } = key;
    const isOwner = kind === 'owner';
    const called = typeof name === 'string' ? name : '';
    return {
      id: typeof id === 'string' ? id : called,
      name: called,
      kind:
        kind === 'owner' || kind === 'organisation-service' || kind === 'workspace-user'
          ? kind
          : 'workspace-service',
      expiresAt: typeof expires === 'string' ? Date.parse(expires) : null,
      scopes: Array.isArray(scopes) ? scopes.map(String) : isOwner ? ['*'] : ['completions.write'],
    };
  });
}

/** One request on its way. */
interface Running {
  sent: UpstreamRequest | undefined;
  readonly unasked: Set<string>;
  settled(exchange: Exchange, outcome: Outcome): void;
}

/** Runs one request after the other through a gateway, and notes what it does. */
class ReplayRun {
  readonly outside: Replay;
  readonly #clock: RecordedClock;
  readonly #mock: Transport;
  readonly #turns = new Map<string, number>();
  #running: Running | undefined;
  #turn = 0;
  #draws = 0;

  constructor(clock: RecordedClock) {
    this.#clock = clock;
    this.#mock = createMockTransport({ clock });
    const refuse = (what: string): GatewayError => {
      this.#running?.unasked.add(what);
      return new GatewayError('fetch_failed', `${what} is not asked while requests are only compared.`);
    };
    const failing: Transport = {
      send: (request, handler) => {
        const error = refuse(request.origin);
        queueMicrotask(() => handler.fail(error, { stale: false }));
        return { resume: () => undefined, abort: () => undefined };
      },
      close: () => Promise.resolve(),
    };
    this.outside = {
      providers: {
        send: (request, handler) => {
          if (this.#running !== undefined) this.#running.sent ??= request;
          return this.#mock.send({ ...request, origin: 'mock:' }, new AlwaysAnswered(handler));
        },
        close: () => this.#mock.close(),
      },
      outside: {
        transport: failing,
        fetch: {
          fetch: ({ url }) => ({
            answer: Promise.reject(refuse(new URL(url).origin)),
            abort: () => undefined,
          }),
        },
        own: {
          send: ({ path: place }) => ({
            answer: Promise.reject(refuse(`a model at ${place}`)),
            abort: () => undefined,
          }),
        },
      },
      credentials: { create: () => ({ authorize: () => ['authorization', 'Bearer replay'] }) },
      // Both configurations draw the same numbers for a request. They are spread evenly: shares come out with few requests.
      random: () => (this.#turn * golden + this.#draws++ * Math.SQRT2) % 1,
      settled: (exchange, outcome) => this.#running?.settled(exchange, outcome),
    };
  }

  async judge(
    gateway: Gateway,
    { request, headers, prices }: { request: RecordedRequest; headers: readonly string[]; prices: Prices },
  ): Promise<Judgement> {
    const way = [request.method, request.path, request.model, request.config].join('\n');
    this.#turn = (this.#turns.get(way) ?? 0) + 1;
    if (this.#turns.size < 100_000) this.#turns.set(way, this.#turn);
    this.#draws = 0;
    this.#clock.goTo(request.at);
    const body = Buffer.from(request.body ?? madeBody(request));
    const message = localMessage({ method: request.method, path: request.path, headers, body });
    const unasked = new Set<string>();
    const { exchange, outcome, sent } = await new Promise<{
      readonly exchange: Exchange;
      readonly outcome: Outcome;
      readonly sent: UpstreamRequest | undefined;
    }>((resolve, reject) => {
      const cancel = systemClock.after(requestMs, () =>
        reject(new Error(`The request ${request.id} has not ended within ${requestMs / 1000} s.`)),
      );
      const running: Running = {
        sent: undefined,
        unasked,
        settled(found, ending) {
          cancel();
          resolve({ exchange: found, outcome: ending, sent: running.sent });
        },
      };
      this.#running = running;
      gateway.handle(message, new LocalResponse(message, maxAnswerBytes), false);
    });
    this.#running = undefined;
    const { facts } = exchange;
    const { error } = outcome;
    const target =
      sent === undefined
        ? undefined
        : { provider: facts.provider, model: facts.modelRequested || request.model };
    const members = membersOf(sent?.body);
    const model = members.get('model');
    return {
      pipeline: exchange.pipeline.name,
      wire: exchange.matched.endpoint.dialect,
      config: facts.config,
      target: target && { ...target, model: model === undefined ? target.model : String(JSON.parse(model)) },
      refusal:
        sent !== undefined || error === undefined
          ? undefined
          : {
              ...{ status: error.status, code: error.code, by: refuserOf(exchange, error) },
              isForModel: error.plugin === 'provider' && error.param === 'model',
            },
      sentPath: sent?.path ?? '',
      sent: members,
      dropped: facts.dropped,
      cost: sent === undefined ? undefined : costOf(exchange, request, prices),
      unasked: [...unasked],
    };
  }
}

function refuserOf({ facts }: Exchange, { plugin = '' }: GatewayError): string {
  const guardrails = facts.verdicts.filter(({ verdict }) => verdict === 'refused').map(({ name }) => name);
  return guardrails.length === 0 ? plugin : `${plugin} (${guardrails.join(', ')})`;
}

function costOf({ facts }: Exchange, { usage, at }: RecordedRequest, prices: Prices): number | undefined {
  if (usage === undefined) return undefined;
  const model = facts.modelAnswered || facts.modelRequested;
  const { cost, status } = prices.price(usage, facts.pricedBy ?? facts.aiService, model, at);
  return status === 'priced' ? Number(cost) : undefined;
}

function membersOf(body: UpstreamRequest['body'] | undefined): Map<string, string> {
  if (!(body instanceof Uint8Array)) return new Map();
  try {
    const value: unknown = JSON.parse(Buffer.from(body).toString());
    return new Map(
      isJsonObject(value) ? Object.entries(value).map(([name, one]) => [name, JSON.stringify(one)]) : [],
    );
  } catch {
    return new Map();
  }
}

/** A request in the place of one whose body was not kept. */
function madeBody({ method, endpoint, model, stream }: RecordedRequest): string {
  if (method === 'GET') return '';
  const said = endpoint === 'embeddings' || endpoint === 'responses' ? { input: '-' } : { prompt: '-' };
  const isChat = endpoint === 'chat.completions' || endpoint === 'messages';
  const turns = {
    messages: [{ role: 'user', content: '-' }],
    ...(endpoint === 'messages' && { max_tokens: 1 }),
  };
  return JSON.stringify({ model, ...(isChat ? turns : said), ...(stream && { stream }) });
}

/** Passes an answer on, and an empty one in the place of a failure: what follows a failure is not compared. */
class AlwaysAnswered implements UpstreamHandler {
  readonly #to: UpstreamHandler;
  #isEmpty = false;

  constructor(to: UpstreamHandler) {
    this.#to = to;
  }

  head(status: number, headers: Parameters<UpstreamHandler['head']>[1]): void {
    this.#isEmpty = status >= 400;
    if (this.#isEmpty) this.#to.head(200, ['content-type', 'application/json']);
    else this.#to.head(status, headers);
  }

  data(chunk: Buffer): boolean {
    return this.#isEmpty || this.#to.data(chunk);
  }

  end(): void {
    if (this.#isEmpty) this.#to.data(Buffer.from('{}'));
    this.#to.end();
  }

  fail(...reason: Parameters<UpstreamHandler['fail']>): void {
    this.#to.fail(...reason);
  }
}

const state = { accepted: 0, stored: 0, pending: 0, shed: 0 };

/** Requests that are only compared leave no rows. */
const noJournal: Journal = {
  append: () => undefined,
  admit: () => undefined,
  flush: () => Promise.resolve(),
  settle: () => Promise.resolve(true),
  state: () => state,
  shedBy: () =>
    Object.fromEntries(shedReasons.map((reason) => [reason, 0])) as Record<
      (typeof shedReasons)[number],
      number
    >,
  room: () => ({ policy: 'shed', maxBytes: 1, bytes: 0, waiting: 0, waited: 0, refused: 0 }),
  lastError: undefined,
  close: () => Promise.resolve(),
};
