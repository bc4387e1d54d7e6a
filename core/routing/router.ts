import { type GatewayConfig, type PipelineConfig, servicePrefixes } from '../config/schema.ts';
import type { Answer } from '../pipeline/answer.ts';
import { isPromise } from '../base/turns.ts';
import type { HookRuntime } from '../pipeline/call-hook.ts';
import type { MaybePromise, RequestContext } from '../pipeline/context.ts';
import { Exchange } from '../pipeline/exchange.ts';
import { AllowedModels } from '../access/scopes.ts';
import type { CheckPhase, Checks } from '../pipeline/plugin.ts';
import { addressedProvider, callerKey, ownRequest } from '../pipeline/keys.ts';
import type { ExpectedPrice } from '../pipeline/estimated-usage.ts';
import type { Limiter } from '../ports/counters.ts';
import type { CredentialFactory } from '../ports/credentials.ts';
import type { Directory, KeyRecord } from '../ports/directory.ts';
import { TrustedHosts } from '../base/host-rules.ts';
import type { LargeTranslation } from '../ports/large-translation.ts';
import type { PricedModels, Prices } from '../ports/prices.ts';
import type { ProviderTable } from '../providers/provider-row.ts';
import { Unanswered, whenAnswered } from '../organisation/guardrails.ts';
import type { RecordPlace } from '../ports/records.ts';
import type { HeaderList } from '../ports/header-list.ts';
import type {
  ConfigDraft,
  PlanDocument,
  RouteOptions,
  Router,
  SampleRequest,
  Target,
  WantedCredential,
} from '../pipeline/router.ts';
import type { SecretBox, SecretManagers } from '../ports/secret-managers.ts';
import type { Transport } from '../ports/transport.ts';
import type { Breakers } from './attempts/breakers.ts';
import { PlanRun, type PlanRunSetup, type TargetPlace } from './attempts/plan-run.ts';
import { isModelListRequest, ModelCatalogue, type ModelListings, isUnaddressed } from './model-catalogue.ts';
import type { ProviderDialects, AttemptParts } from './upstream-request.ts';
import type { CompiledConfig, LeafProvider, PlanLeaf } from './plan/plan-node.ts';
import { modelAt } from './plan/environment.ts';
import { ConfigStore } from './plan/config-store.ts';
import { providerLookup } from './plan/read-config.ts';
import { RoutingState } from './plan/routing-state.ts';
import { offlinePlan, planDocument } from './explain/offline-plan.ts';
import type { Dialect } from '../dialects/dialect.ts';
import type { DialectName } from '../dialects/endpoint.ts';
import {
  addressedModel,
  addressesProvider,
  type BroughtSettings,
  declaresJson,
  leafTarget,
  namesProvider,
  requestTarget,
  takeAddress,
  type TargetRules,
} from './resolve-target.ts';
import { runAttempt } from './attempt.ts';
import { StoredProviders } from './stored-providers.ts';
import { compileTargets, type KnownProvider } from './targets.ts';
import { GatewayError, unlessRefused } from '../errors/gateway-error.ts';
import { attemptOptionsOf } from './forward-headers.ts';
import { RequestGuardrails, DefaultConfigs } from './request-guardrails.ts';

interface RouterSetup {
  readonly config: GatewayConfig;
  readonly table: ProviderTable;
  readonly transport: Transport;
  readonly runtime: HookRuntime;
  /** The provider's side of every dialect. */
  readonly wires: ProviderDialects;
  /** Readers of the hosts' model lists. */
  readonly listings: ModelListings;
  readonly credentials: CredentialFactory;
  readonly prices: Prices;
  /** State of strategies and breakers; outlives generations. */
  readonly state: RoutingState;
  readonly breakers: Breakers;
  /** Counts attempts at targets with limits. */
  readonly limiter: Limiter;
  /** Source of a workspace's defaults and saved records. */
  readonly directory: Directory;
  /** Opens the secrets of stored providers; absent: there are none. */
  readonly secrets?: SecretBox | undefined;
  /** Reads the secrets that integrations refer to. Absent: those integrations cannot be used. */
  readonly secretManagers?: SecretManagers | undefined;
  /** The checks of guardrails; absent: no guardrail is accepted. */
  readonly checks?: Checks | undefined;
  /** The client's side of every dialect, for explanations; absent: nothing is explained. */
  readonly dialects?: ReadonlyMap<DialectName, Dialect> | undefined;
  /** Absent: large requests are translated on the main thread. */
  readonly largeTranslation?: LargeTranslation | undefined;
  /** A number of at least 0 and below 1. Default `Math.random`. */
  readonly random?: (() => number) | undefined;
}

/** The router of one generation: its providers and configs compiled, the transport shared with other generations. */
export function createRouter(setup: RouterSetup): Router {
  return new GenerationRouter(setup);
}

class GenerationRouter implements Router {
  readonly providers: ProviderTable;
  private readonly rules: TargetRules;
  private readonly catalogue: ModelCatalogue;
  private readonly configs: ConfigStore;
  private readonly guardrails: RequestGuardrails;
  private readonly defaults: DefaultConfigs;
  private readonly run: PlanRunSetup;
  private readonly setup: RouterSetup;
  private readonly brought = new WeakMap<PlanLeaf, BroughtSettings>();
  /** Options of the plugin `provider` in each pipeline, by the pipeline's name. */
  private readonly ofPipelines: ReadonlyMap<string, ProviderDefaults>;

  constructor(setup: RouterSetup) {
    this.setup = setup;
    const { config, transport, listings, runtime, wires, prices, state, breakers, limiter } = setup;
    const { key_prefix: keyPrefix } = config.security;
    const { header_prefix: headerPrefix } = config.server;
    const maker = { factory: setup.credentials, headerPrefix };
    const known = compileTargets(config.providers, setup.table, maker);
    const trustedHosts = new TrustedHosts(config.security.trusted_hosts);
    const { table, directory, secrets: box, secretManagers: managers } = setup;
    const { clock } = runtime;
    const stored =
      box && new StoredProviders({ maker, trustedHosts, directory, table, box, managers, clock });
    this.rules = { known, stored, headerPrefix, keyPrefix, trustedHosts };
    this.providers = setup.table;
    this.ofPipelines = new Map(config.pipelines.map((one) => [one.name, providerDefaults(one)]));
    this.catalogue = new ModelCatalogue({ known, stored, listings, transport, clock, keyPrefix });
    const names = { builtIn: setup.table.keys(), configured: Object.keys(config.providers) };
    const knowsProvider = providerLookup(names);
    const { configs } = config;
    this.defaults = new DefaultConfigs(setup.directory);
    this.configs = new ConfigStore({
      configs,
      knowsProvider,
      servicePrefixes: servicePrefixes(config.server),
      saved: setup.directory,
      checks: setup.checks,
    });
    this.guardrails = new RequestGuardrails(setup.checks, setup.directory);
    this.run = {
      ...{ config, wires, transport, runtime, prices, state, breakers, limiter, keyPrefix, clock },
      largeTranslation: setup.largeTranslation,
      random: setup.random ?? Math.random,
      optionsOf: attemptOptionsOf,
      serviceOf: (leaf, exchange, model) => this.serviceOf(leaf, exchange, model),
      targetOf: (exchange, leaf, place) => this.targetOf(exchange, leaf, place),
    };
  }

  missingConfig(slug: string, place?: RecordPlace): string | undefined {
    return this.configs.missing(slug, place);
  }

  unusableGuardrail(name: string, phase: CheckPhase, place: RecordPlace): string | undefined {
    return this.guardrails.unusable(name, phase, place);
  }

  toolGuardrails(
    context: RequestContext,
    call: Parameters<Router['toolGuardrails']>[1],
  ): ReturnType<Router['toolGuardrails']> {
    return this.guardrails.ofTool(asExchange(context), call);
  }

  checkConfig(draft: ConfigDraft): void {
    this.configs.check(draft);
  }

  async explainConfig(draft: ConfigDraft, request: SampleRequest, key: KeyRecord): Promise<PlanDocument> {
    const { config: gateway, dialects, prices, random = Math.random } = this.setup;
    if (dialects === undefined) throw new Error('This gateway has no dialects for explanations.');
    const config = this.configs.check(draft);
    const { clock } = this.run;
    const defaultProvider = [...this.ofPipelines.values()].find((one) => one.default !== undefined)?.default;
    const plan = await offlinePlan(request, config, {
      ...{ gateway, dialects, clock, known: this.rules.known },
      // A draft has no past: neither breakers nor turns of its own.
      shared: { state: new RoutingState(clock), breakers: { isOpen: () => false }, prices, random },
      caller: {
        key,
        rules: this.rules,
        targetOf: (exchange, leaf) => this.targetOf(exchange, leaf, { config, options: { defaultProvider } }),
        serviceOf: this.run.serviceOf,
      },
    });
    return planDocument(plan);
  }

  answer(context: RequestContext, options: RouteOptions): MaybePromise<Answer> {
    try {
      return this.answered(context, options);
    } catch (error) {
      if (!(error instanceof Unanswered)) throw error;
      return error.answer.then(() => whenAnswered(() => this.answered(context, options)));
    }
  }

  private answered(context: RequestContext, options: RouteOptions): MaybePromise<Answer> {
    const exchange = asExchange(context);
    if (exchange.endpoint.id === 'mcp') throw notServed(exchange);
    if (exchange.trace !== undefined) exchange.trace.require(exchange);
    const isOwn = exchange.get(ownRequest) !== undefined;
    const allowed = isOwn ? undefined : AllowedModels.of(exchange.get(callerKey), this.setup.directory);
    if (allowed !== undefined) {
      const { body, models } = exchange;
      if (models.untold !== undefined && body.present && !body.loaded)
        return body.load().then(() => this.answer(exchange, options));
      allowed.require(models);
    }
    return this.routed(exchange, options, { isOwn, allowed });
  }

  private routed(
    exchange: Exchange,
    options: RouteOptions,
    { isOwn, allowed }: { readonly isOwn: boolean; readonly allowed: AllowedModels | undefined },
  ): MaybePromise<Answer> {
    exchange.guardrails = this.guardrails.of(exchange);
    if (isModelListRequest(exchange) && this.wantsAll(exchange, options))
      return this.catalogue.answer(exchange, this.openDefault(options.defaultProvider), allowed);
    const key = exchange.get(callerKey);
    const byDefault = this.defaults.of(key);
    const named = exchange.service('config') || undefined;
    if (key !== undefined && named !== undefined && named !== byDefault && !isOwn && !mayOverride(key))
      throw this.defaults.overrideDenied(key);
    if (named?.startsWith('{') === true) allowed?.refuseOwnConfig();
    if (named !== undefined) return this.planned(exchange, this.configOf(named, key), options);
    if (key !== undefined && byDefault !== undefined)
      return this.beginning(exchange, this.defaultConfig(byDefault, key), options);
    const { defaultConfig } = options;
    if (defaultConfig === undefined || namesProvider(exchange) || addressesProvider(exchange))
      return this.direct(exchange, options);
    return this.planned(exchange, this.configs.bySlug(defaultConfig, key), options);
  }

  /** Whether the request asks for the models of all providers, or names no provider. */
  private wantsAll(exchange: Exchange, options: RouteOptions): boolean {
    if (wantsCatalogue(exchange)) return true;
    const isOpen = (name: string): boolean => this.openDefault(name) !== undefined;
    if (!isUnaddressed(exchange, options, isOpen)) return false;
    const key = exchange.get(callerKey);
    const slug = this.defaults.of(key);
    return key === undefined || slug === undefined || !this.defaultConfig(slug, key).isComplete;
  }

  /**
   * The default provider, if it is the one that answers in this process. It does not restrict a list of models, unlike
   * one that the operator has configured.
   */
  private openDefault(name: string | undefined): KnownProvider | undefined {
    const known = name === undefined ? undefined : this.rules.known.get(name.replace(/^@/, ''));
    return known?.isInProcess === true ? known : undefined;
  }

  /** The named or inline config of the request; saved ones are those of the key's workspace. */
  private configOf(named: string, key: KeyRecord | undefined): CompiledConfig {
    return named.startsWith('{') ? this.configs.inline(named, key) : this.configs.bySlug(named, key);
  }

  /** The default config for requests of this key. Throws `config_unknown`. */
  private defaultConfig(slug: string, key: KeyRecord): CompiledConfig {
    const found = this.configs.find(slug, key);
    if (found === undefined) throw this.defaults.missing(slug, key);
    return found;
  }

  /**
   * Routes by the default config of a request's key, workspace or organisation. A config without a provider of its own
   * always applies; one that names its own is skipped for a provider in the request, where the key allows it.
   */
  private beginning(exchange: Exchange, config: CompiledConfig, options: RouteOptions): MaybePromise<Answer> {
    if (!config.isComplete || !mayOverride(exchange.get(callerKey)))
      return this.planned(exchange, config, options);
    if (namesProvider(exchange)) return this.directly(exchange, options);
    const addressing = takeAddress(exchange, this.rules);
    if (addressing === undefined) return this.unlessAddressed(exchange, config, options);
    return addressing.then(() => this.unlessAddressed(exchange, config, options));
  }

  private unlessAddressed(
    exchange: Exchange,
    config: CompiledConfig,
    options: RouteOptions,
  ): Promise<Answer> {
    return addressesProvider(exchange)
      ? this.directly(exchange, options)
      : this.planned(exchange, config, options);
  }

  /** One attempt at the one target that the request names. */
  private direct(exchange: Exchange, options: RouteOptions): Promise<Answer> {
    const addressing = namesProvider(exchange) ? undefined : takeAddress(exchange, this.rules);
    if (addressing !== undefined) return addressing.then(() => this.directly(exchange, options));
    return this.directly(exchange, options);
  }

  private directly(exchange: Exchange, options: RouteOptions): Promise<Answer> {
    const { rules } = this;
    const target = requestTarget(exchange, rules, options.defaultProvider);
    if (isPromise(target)) return target.then((found) => this.tried(exchange, found, options));
    return this.tried(exchange, target, options);
  }

  private tried(exchange: Exchange, target: Target, options: RouteOptions): Promise<Answer> {
    const { rules, run } = this;
    const attemptOptions = attemptOptionsOf(exchange, undefined, options);
    const parts: AttemptParts = {
      exchange,
      target,
      options: attemptOptions,
      keyPrefix: rules.keyPrefix,
      params: undefined,
      cache: undefined,
      guardrails: undefined,
      judged: false,
    };
    if (!isModelListRequest(exchange)) return runAttempt(parts, run);
    return this.catalogue
      .ofTarget(exchange, target, attemptOptions)
      .then((listed) => listed ?? runAttempt(parts, run));
  }

  private planned(exchange: Exchange, config: CompiledConfig, options: RouteOptions): Promise<Answer> {
    exchange.facts.config = config.slug ?? 'inline';
    if (config.version !== undefined) exchange.facts.configVersion = String(config.version);
    if (exchange.trace !== undefined) exchange.trace.config(config.slug ?? config.id);
    const isReady = config.isComplete && !mustLoad(exchange, config) && !isModelListRequest(exchange);
    return isReady
      ? new PlanRun(exchange, config, options, this.run).run()
      : this.preparedPlan(exchange, config, options);
  }

  /** Runs a plan that needs the body, or another part of the request, beforehand. */
  private async preparedPlan(
    exchange: Exchange,
    config: CompiledConfig,
    options: RouteOptions,
  ): Promise<Answer> {
    if (mustLoad(exchange, config)) await exchange.body.load();
    if (!config.isComplete && !namesProvider(exchange)) await takeAddress(exchange, this.rules);
    const [first] = config.leaves;
    if (isModelListRequest(exchange) && first !== undefined) {
      const target = await this.targetOf(exchange, first, { config, options });
      const listed = await this.catalogue.ofTarget(
        exchange,
        target,
        attemptOptionsOf(exchange, first, options),
      );
      if (listed !== undefined) return listed;
    }
    return new PlanRun(exchange, config, options, this.run).run();
  }

  private targetOf(
    exchange: Exchange,
    leaf: PlanLeaf,
    { config, options }: ExplainedPlace,
  ): MaybePromise<Target> {
    let brought = this.brought.get(leaf);
    if (brought === undefined) {
      const { apiKey, fields, customHost } = leaf.settings;
      // Parts that an inline or saved config takes over from an operator's config count as the operator's.
      const isInline = (config.slug === undefined || leaf.isSaved === true) && leaf.definedIn === undefined;
      this.brought.set(leaf, (brought = { apiKey, fields, customHost, inline: isInline }));
    }
    if (leaf.provider !== undefined) return leafTarget(exchange, leaf.provider, this.rules, brought);
    return requestTarget(exchange, this.rules, options.defaultProvider, brought);
  }

  credentialFor(wanted: WantedCredential): MaybePromise<HeaderList> {
    if (this.rules.stored === undefined) throw new Error('This gateway has no secrets of records.');
    return this.rules.stored.credentialFor(wanted);
  }

  storedPrices(
    place: WantedCredential['place'],
    slug: string,
    model: string,
  ): string | PricedModels | undefined {
    return unlessRefused(() => this.rules.stored?.pricesOf(place, slug, model));
  }

  expectedPrice(context: RequestContext): ExpectedPrice | undefined {
    const exchange = asExchange(context);
    // Routing refuses the request for an error later.
    return unlessRefused(() => {
      const config = this.expectedConfig(exchange);
      const leaf = config?.leaves[0];
      const provider = leaf?.provider ?? this.namedProvider(exchange);
      if (provider === undefined) return undefined;
      const model = modelAt(leaf?.settings.params, exchange);
      const plain = addressedModel(model, this.rules, exchange.get(callerKey))?.model ?? model;
      const isOneOfSeveral = config !== undefined && config.leaves.length > 1;
      return { provider: this.serviceOf({ provider }, exchange, plain), model: plain, isOneOfSeveral };
    });
  }

  /** The config that will probably route the request; undefined for none. */
  private expectedConfig(exchange: Exchange): CompiledConfig | undefined {
    const key = exchange.get(callerKey);
    const named = exchange.service('config') || undefined;
    if (named !== undefined) return this.configOf(named, key);
    const byDefault = this.defaults.of(key);
    const slug = byDefault ?? this.ofPipelines.get(exchange.pipeline.name)?.config;
    if (slug === undefined) return undefined;
    const config = this.configs.find(slug, key);
    const isKept = byDefault !== undefined && (config?.isComplete === false || !mayOverride(key));
    return isKept || this.requestedProvider(exchange) === undefined ? config : undefined;
  }

  private namedProvider(exchange: Exchange): LeafProvider | undefined {
    const name = this.ofPipelines.get(exchange.pipeline.name)?.default;
    const byDefault: LeafProvider | undefined = name === undefined ? undefined : { name, kind: 'provider' };
    return this.requestedProvider(exchange) ?? byDefault;
  }

  private requestedProvider(exchange: Exchange): LeafProvider | undefined {
    const virtualKey = exchange.service('virtual-key');
    if (virtualKey) return { name: virtualKey, kind: 'virtual-key' };
    const named = exchange.service('provider');
    if (named) return { name: named, kind: 'provider' };
    const slug =
      exchange.get(addressedProvider) ??
      addressedModel(modelAt(undefined, exchange), this.rules, exchange.get(callerKey))?.slug;
    return slug === undefined ? undefined : { name: `@${slug}`, kind: 'provider' };
  }

  private serviceOf(
    { provider }: Pick<PlanLeaf, 'provider'>,
    exchange: Exchange,
    model: string,
  ): string | PricedModels {
    const { known, stored } = this.rules;
    const named = provider?.name ?? '';
    const name = named.startsWith('@') ? named.slice(1) : named;
    const isSlug = named !== name || provider?.kind === 'virtual-key';
    const own = known.get(name);
    const key = exchange.get(callerKey);
    if (stored !== undefined && key !== undefined && isSlug && own?.configured !== true)
      return stored.pricesOf(key, name, model) ?? name;
    return own?.row.service ?? name;
  }
}

/** A target's place, of which the default provider alone is needed. */
interface ExplainedPlace extends Pick<TargetPlace, 'config'> {
  readonly options: Pick<RouteOptions, 'defaultProvider'>;
}

/** Defaults for requests of a pipeline that name neither a config nor a provider. */
interface ProviderDefaults {
  readonly default: string | undefined;
  readonly config: string | undefined;
}

function providerDefaults({ plugins }: Pick<PipelineConfig, 'plugins'>): ProviderDefaults {
  const options = plugins.find(({ use }) => use === 'provider')?.options ?? {};
  const text = (name: string): string | undefined =>
    typeof options[name] === 'string' ? options[name] : undefined;
  return { default: text('default'), config: text('config') };
}

/** Whether the body must be in memory, for several attempts, edits or conditions; uploads that are not read are streamed. */
function mustLoad(exchange: Exchange, { readsBody }: CompiledConfig): boolean {
  const { body, endpoint } = exchange;
  if (!body.present || body.loaded) return false;
  if (endpoint.modelled) return true;
  return readsBody && declaresJson(exchange);
}

/** Limits and guardrails look at the calls of tools there, and no provider's answer is one. */
function notServed({ path, pipeline }: Exchange): GatewayError {
  return new GatewayError(
    'mcp_server_unknown',
    `The path ${JSON.stringify(path.slice(0, 128))} is one of MCP servers, and the pipeline "${pipeline.name}" serves none there. Add the plugin "mcp" to it, before "provider", or correct the path.`,
  );
}

function asExchange(context: RequestContext): Exchange {
  if (context instanceof Exchange) return context;
  throw new TypeError('The router carries only requests of the pipeline.');
}

/** Whether requests of this key may bring their own config, or skip the default one by naming a provider. */
function mayOverride(key: KeyRecord | undefined): boolean {
  return key?.defaults?.allowConfigOverride !== false;
}

/** Whether the header `fetch-integrated-models` asks for the models of all providers. */
function wantsCatalogue(exchange: Exchange): boolean {
  return exchange.service('fetch-integrated-models')?.toLowerCase() === 'true';
}
