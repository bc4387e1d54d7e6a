// Composition root: assembles the parts of a gateway, either for `weir start` in a process of its own (`serve.ts`), or
// for a plugin's test in its process (`testing/`).
import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import { createCredentialFactory } from '../adapters/credentials/index.ts';
import { dialects, providerDialects } from '../adapters/dialects/index.ts';
import { createLargeTranslation } from '../adapters/dialects/large-translation.ts';
import { modelListings } from '../adapters/dialects/host-endpoints.ts';
import { createOauthClients } from '../adapters/oauth/create-oauth-clients.ts';
import { createMcpClients } from '../adapters/mcp/create-mcp-clients.ts';
import { createGuardedFetch } from '../adapters/guarded-fetch/guarded-fetch.ts';
import { createMockTransport } from '../adapters/mock/transport.ts';
import { createPrices } from '../adapters/pricing/genai-prices.ts';
import { openPriceData } from '../adapters/pricing/price-data.ts';
import { providerTable } from '../adapters/providers.ts';
import { createOtlpTracer } from '../adapters/telemetry/otlp/create-tracer.ts';
import { createTokens } from '../adapters/tokens/tokens.ts';
import { ProviderTransport } from '../adapters/transport/provider-transport.ts';
import { createUndiciTransport } from '../adapters/transport/undici-transport.ts';
import { restartNeeded } from '../core/config/diff.ts';
import { loadConfig } from '../core/config/load-config.ts';
import { formatProblem, type Problem } from '../core/config/problem.ts';
import type { GatewayConfig } from '../core/config/schema.ts';
import { degradedOf, Dependencies } from '../core/http/dependencies.ts';
import { Gateway } from '../core/http/gateway.ts';
import { createHomePages, createInvitePage } from '../core/http/home-page.ts';
import { BrowserSessions } from '../core/access/browser-session.ts';
import { createOperations, createOperationsAccess } from '../core/http/operations.ts';
import { createReferencePages } from '../core/http/openapi/document.ts';
import { createRequestMetrics } from '../core/http/request-metrics.ts';
import { compilePipelines, hasPlugin } from '../core/http/route-table.ts';
import { PluginBundler } from '../core/lifecycle/plugin-bundler.ts';
import { type Followers, Reloader } from '../core/lifecycle/reload.ts';
import { type CanaryFollowers, canaryEntry, CanaryRuns } from '../core/lifecycle/config-canaries.ts';
import { MainFileEditor } from '../core/lifecycle/config-file-editor.ts';
import { type Generation, TracerInUse } from '../core/lifecycle/generation.ts';
import type { ConfigFileEditor } from '../core/ports/config-file.ts';
import { CanaryGate } from '../core/http/canary-gate.ts';
import { readBytes } from '../core/config/read-file.ts';
import { shownPipelines } from '../core/lifecycle/shown-pipelines.ts';
import type { Services } from '../core/lifecycle/scope.ts';
import type { UndoStack } from '../core/lifecycle/undo-stack.ts';
import { pluginErrors } from '../core/lifecycle/plugin-errors.ts';
import { compilePipeline } from '../core/pipeline/compile.ts';
import { createHookTimes, type HookRuntime, PendingHooks } from '../core/pipeline/call-hook.ts';
import type { Checks } from '../core/pipeline/plugin.ts';
import { PluginBreakers, PluginWork } from '../core/pipeline/plugin-breaker.ts';
import type { EngineRuntime } from '../core/pipeline/settle.ts';
import type { Log } from '../core/ports/log.ts';
import type { Metrics } from '../core/ports/metrics.ts';
import type { OwnRequests } from '../core/ports/own-requests.ts';
import type { CredentialFactory } from '../core/ports/credentials.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { SecretBox, SecretManagers } from '../core/ports/secret-managers.ts';
import { Breakers } from '../core/routing/attempts/breakers.ts';
import { createRouter } from '../core/routing/router.ts';
import { createEmbeddings } from '../core/routing/embed-text.ts';
import { compileTargets } from '../core/routing/targets.ts';
import { RoutingState } from '../core/routing/plan/routing-state.ts';
import { ConfiguredMcpServers } from '../core/organisation/mcp-virtual-servers.ts';
import type { Features } from '../core/access/features.ts';
import { builtIns, providerNames, providerRows } from './built-ins.ts';
import type { Stores } from './open-stores.ts';
import type { GuardedFetch, Transport } from '../core/ports/transport.ts';
import { TrustedHosts } from '../core/base/host-rules.ts';
import { createSecretStore, type SecretManagersOptions } from '../adapters/secret-managers/index.ts';

/** Creates the secret managers of each configuration; their cached secrets are shared. */
function openSecretManagers(
  options: SecretManagersOptions,
): (security: GatewayConfig['security'], guardedFetch: GuardedFetch) => SecretManagers {
  const store = createSecretStore(options);
  return (security, guardedFetch) =>
    store.within({
      guardedFetch,
      trustedHosts: new TrustedHosts(security.trusted_hosts),
      sources: security.secret_sources,
    });
}

/** Parts of a gateway; all of them are open, and resources opened here are added to `opened`. */
interface AssemblyOptions {
  /** The configuration's file, and its content when the stores were opened. */
  readonly file: string;
  readonly config: GatewayConfig;
  /** The data folder, absolute. */
  readonly data: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly features: Features;
  /** The box of secrets at rest. */
  readonly secrets: SecretBox;
  /** Plugins may get all of it. */
  readonly stores: Omit<Stores, 'identity' | 'loans'>;
  readonly opened: UndoStack;
  /** Reports changes of a file (`Reloader`). */
  readonly watch: ConstructorParameters<typeof Reloader>[0]['watch'];
  /** Reads the configuration again. Default: from `file` and `environment`. */
  readonly load?: ConstructorParameters<typeof Reloader>[0]['load'];
  /** In a parent: its workers, which serve each configuration with it. */
  readonly followers?: Followers;
  /** In a parent: its workers, which serve each canary of the configuration. */
  readonly canaryFollowers?: CanaryFollowers;
  /** In a parent: metrics and state of its workers, for the operational pages. */
  readonly reports?: {
    renderMetrics(): ReturnType<Metrics['render']>;
    status(): Promise<Record<string, unknown>>;
  };
  /** In a worker: answers requests for administration and operation in its parent. Never rejects. */
  readonly elsewhere?: (
    request: IncomingMessage,
    response: ServerResponse,
    expectsContinue?: boolean,
  ) => Promise<void>;
  /** Of a gateway of several processes: what they know of targets is shared. Default: what this process knows. */
  readonly routingState?: RoutingState;
  /** Replaces the built-in mock provider as the answering side of `mock:`. */
  readonly inProcess?: Transport;
  /** For a gateway that sends nothing: recorded requests run through it to see where they would go. */
  readonly replay?: Replay;
}

/** Everything of a gateway that reaches outside, played. */
export interface Replay {
  /** Answers for every provider. */
  readonly providers: Transport;
  /** Carries everything else: tokens, embeddings, MCP servers, requests of plugins. Refuses it. */
  readonly outside: {
    readonly transport: Transport;
    readonly fetch: GuardedFetch;
    readonly own: OwnRequests;
  };
  readonly credentials: CredentialFactory;
  /** At least 0 and below 1. */
  readonly random: () => number;
  readonly settled: EngineRuntime['onSettled'];
}

/** A gateway that does not listen yet. */
interface Assembly {
  readonly gateway: Gateway;
  readonly reloader: Reloader<ReturnType<typeof compilePipelines>>;
  /** Gives requests to a canary of the configuration. */
  readonly canaryGate: CanaryGate<Generation<ReturnType<typeof compilePipelines>>>;
  /** The third-party plugin whose code threw this value. */
  attribute(thrown: unknown): string | undefined;
  /** Builds the first generation; returns the faults of the configuration when there is none. */
  start(): Promise<readonly Problem[]>;
}

/** Assembles the parts. Nothing runs before `start`. */
export function assembleGateway(options: AssemblyOptions): Assembly {
  const { file, config, data, environment: env, log, clock, metrics, features, secrets, opened } = options;
  const { reports, replay } = options;
  const { counters, limiter, directory, fileRecords, owned, following, alerts, jobs, ...stores } =
    options.stores;
  const transport =
    replay?.providers ??
    new ProviderTransport(
      createUndiciTransport({ log, clock, metrics }),
      options.inProcess ?? createMockTransport({ clock }),
    );
  const outside = replay?.outside.transport ?? transport;
  opened.push(() => transport.close());
  const largeTranslation = createLargeTranslation({ clock });
  opened.push(() => largeTranslation.close());
  const credentials = replay?.credentials ?? createCredentialFactory({ clock, transport, environment: env });
  const managers = openSecretManagers({ clock, log, transport: outside, credentials, environment: env });

  const countError = pluginErrors(metrics);
  const work = new PluginWork({ metrics, log, clock });
  const pluginBreakers = new PluginBreakers({ metrics, log, clock });
  const hooks: HookRuntime = {
    work,
    log,
    clock,
    countPluginError: (plugin, hook) => countError({ plugin, hook }).inc(),
    pending: new PendingHooks(clock),
  };
  const prices = createPrices({ log, own: config.prices.models });
  const priceData = openPriceData({
    file: path.join(data, 'prices.json'),
    clock,
    log,
    changed: (edition) => prices.dataChanged(edition),
  });
  opened.push(() => priceData.close());
  const { routingState = new RoutingState(clock) } = options;
  const breakers = new Breakers({ counters, clock, log, metrics });
  const bundler = new PluginBundler({ folder: path.join(data, 'plugins'), clock, log });
  const sources = { builtIns, bundler, providerNames, providerRows, clock };
  const editor = new MainFileEditor({ file, env, sources, reloader: () => reloader });
  const load =
    options.load ??
    ((draft?: Uint8Array) => {
      const main = path.resolve(file);
      const readFile = async (one: string) => (draft !== undefined && one === main ? draft : readBytes(one));
      return loadConfig(file, { env, readFile });
    });
  const canaryGate: Assembly['canaryGate'] = new CanaryGate();
  const canaries = new CanaryRuns({
    ...{ editor, load, clock, log, gate: canaryGate, followers: options.canaryFollowers },
    reloader: () => reloader,
    async audit(action, state, organisationId) {
      const { resources } = options.stores;
      if (resources === undefined || !features.isOn('audit_logs')) return;
      const entry = canaryEntry({ action, state, organisationId, at: clock.now() });
      await resources.write(organisationId, (writer) => writer.audit.append(entry));
    },
  });
  const configFile: ConfigFileEditor = {
    canaries,
    read: () => editor.read(),
    schema: () => editor.schema(),
    check: (draft) => editor.check(draft),
    write: (draft, written) => editor.write(draft, written),
  };
  const shared = {
    log,
    clock,
    metrics,
    prices,
    counters,
    limiter,
    directory,
    features,
    secrets,
    credentials,
    ownRequests: replay?.outside.own ?? ({ send: (request) => gateway.send(request) } satisfies OwnRequests),
    dialects,
    mcpServers: new ConfiguredMcpServers(),

    // A worker has none: its parent leads each reload.
    configFile: options.elsewhere === undefined ? configFile : undefined,
    ...stores,
  };
  const guarded = (security: GatewayConfig['security']) => {
    const guardedFetch =
      replay?.outside.fetch ??
      createGuardedFetch({ log, clock, metrics, trustedHosts: security.trusted_hosts });
    const secretManagers = managers(security, guardedFetch);
    const oauth = createOauthClients({ fetch: guardedFetch, clock });
    const mcp = createMcpClients({
      ...{ log, clock, oauth, transport: outside },
      trustedHosts: security.trusted_hosts,
    });
    return { guardedFetch, secretManagers, mcp, tokens: createTokens({ fetch: guardedFetch, clock, log }) };
  };
  /** What the router learns of targets: a canary learns apart, so that its failures touch nothing that serves. */
  const learned = { state: routingState, breakers };
  const learnedApart = (canary: string): typeof learned => ({
    state: new RoutingState(clock),
    breakers: new Breakers({ counters, clock, log: log.child({ canary }), apart: `canary:${canary}` }),
  });
  const services = (
    next: GatewayConfig,
    guards: Checks,
    { state, breakers }: typeof learned,
    own = guarded(next.security),
  ): Services => ({
    ...shared,
    ...own,
    guards,
    router: createRouter({
      ...{ config: next, table: providerTable, wires: providerDialects, listings: modelListings, dialects },
      ...{ transport, runtime: hooks, credentials, prices, state, breakers },
      ...{
        checks: guards,
        limiter,
        directory,
        secrets,
        secretManagers: own.secretManagers,
        largeTranslation,
        random: replay?.random,
      },
    }),
    embeddings: createEmbeddings({
      known: compileTargets(next.providers, providerTable, {
        factory: credentials,
        headerPrefix: next.server.header_prefix,
      }),
      transport: outside,
      wires: providerDialects,
      clock,
      metrics,
    }),
    headerPrefix: next.server.header_prefix,
    keyPrefix: next.security.key_prefix,
    basePath: next.server.base_path,
    publicUrl: next.server.public_url || undefined,
  });
  const tracer = new TracerInUse({
    closeMs: 5000,
    create: (settings) => createOtlpTracer(settings, { clock, log, metrics, directory }),
  });
  opened.push(() => tracer.close());
  const reloader: Reloader<ReturnType<typeof compilePipelines>> = new Reloader({
    ...sources,
    restartNeeded,
    breakers: pluginBreakers,
    runtime: hooks,
    log,
    metrics,
    services({ config: next, source, checks, hash }, isCanary) {
      fileRecords.prepare({ config: next, source });
      return services(next, checks, isCanary ? learnedApart(hash) : learned);
    },
    compile: (pipelines) =>
      compilePipelines(
        pipelines.map(({ config, instances }) => compilePipeline(config, instances, features)),
      ),
    load,
    inUse: (next) => {
      tracer.use(next.telemetry.otlp);
      following?.limitAge(next.security.directory_max_age * 1000);
      alerts?.use(next);
      prices.use(next.prices.models);
      priceData.use(
        next.prices.url === undefined
          ? undefined
          : {
              url: next.prices.url,
              fetch: createGuardedFetch({ log, clock, metrics, trustedHosts: next.security.trusted_hosts }),
            },
      );
    },
    watch: options.watch,
    ...(options.followers && { followers: options.followers }),
  });
  const dependencies = new Dependencies(options.stores.dependencies, { clock, metrics });
  opened.push(() => dependencies.close());
  const homes = {
    plain: createHomePages(config.server, { hasConsole: false }),
    withConsole: createHomePages(config.server, { hasConsole: true }),
  };
  const gateway: Gateway = new Gateway({
    server: config.server,
    dialects,
    clock,
    administration: { resources: stores.resources, owned, directory, features },
    runtime: {
      ...hooks,
      prices,
      hookTimes: createHookTimes(metrics),
      onSettled:
        replay?.settled ??
        settledOf(createRequestMetrics(metrics, config.telemetry.metrics), tracer, canaryGate),
    },
    current: () => reloader.current,
    canary: canaryGate,
    elsewhere: options.elsewhere,
    operations: createOperations({
      metrics: reports ? { render: () => reports.renderMetrics() } : metrics,
      elsewhere: options.elsewhere,
      dependencies,
      unready: () => following?.unready() ?? [],
      refusal: createOperationsAccess(config.server, directory, new BrowserSessions({ secrets, clock })),
      reference: createReferencePages(config.server, () => reloader.current),
      home: () => (hasPlugin(reloader.current.compiled, 'console') ? homes.withConsole : homes.plain),
      invitePage: createInvitePage(config.server),
      draining: () => gateway.isDraining,
      status: async () => ({
        ...status(reloader, gateway, { dependencies, following, jobs, work, pluginBreakers }),
        ...(await reports?.status()),
      }),
    }),
  });
  return {
    gateway,
    reloader,
    canaryGate,
    attribute: (thrown) => bundler.origins.attribute(thrown),
    async start() {
      const started = await reloader.start();
      if (!started.ok) return started.problems;
      opened.push(() => reloader.stop());
      fileRecords.follow(() => reloader.current);
      return [];
    },
  };
}

/** Actions for each settled request. */
function settledOf(
  count: EngineRuntime['onSettled'],
  tracer: TracerInUse,
  gate: Assembly['canaryGate'],
): EngineRuntime['onSettled'] {
  return (exchange, outcome) => {
    count(exchange, outcome);
    tracer.settled(exchange, outcome, exchange.startedMonotonic);
    if (gate.running !== undefined && exchange.matched.route === undefined)
      gate.running.count(exchange.generation, outcome);
  };
}

function isoTime(at: number): string {
  return new Date(at).toISOString();
}

interface StatusParts extends Pick<Stores, 'following' | 'jobs'> {
  readonly dependencies: Dependencies;
  readonly work: PluginWork;
  readonly pluginBreakers: PluginBreakers;
}

function status(
  reloader: Reloader<unknown>,
  gateway: Gateway,
  { dependencies, following, jobs, work, pluginBreakers }: StatusParts,
): Record<string, unknown> {
  const { known } = dependencies;
  const reasons = following?.unready() ?? [];
  return {
    status: gateway.isDraining ? 'draining' : reasons.length > 0 ? 'not ready' : 'serving',
    ...(reasons.length > 0 && { reasons }),
    degraded: degradedOf(known),
    dependencies: known,
    directory: following?.status() ?? null,
    generation: reloader.current.hash,
    uptime_seconds: Math.floor(process.uptime()),
    active_requests: gateway.activeRequests,
    buffered_bytes: gateway.bufferedBytes,
    retiring_generations: reloader.retiring,
    plugin_breakers: pluginBreakers.tripped,
    loop_blocks: work.blocks.map(({ at, ...block }) => ({ ...block, at: isoTime(at) })),
    jobs:
      jobs?.runs().map(({ name, everyMs = null, attempts, failed, last, error }) => ({
        ...{ name, every_ms: everyMs, attempts, failed },
        last_run: last
          ? { at: isoTime(last.at), outcome: last.outcome, took_ms: Math.round(last.tookMs) }
          : null,
        last_error: error ? { at: isoTime(error.at), message: error.message } : null,
      })) ?? [],
    config_error: reloader.lastError
      ? {
          at: isoTime(reloader.lastError.at),
          problems: reloader.lastError.problems.map(formatProblem),
        }
      : null,
    restart_needed: reloader.restartNeeded ?? null,
    pipelines: shownPipelines(reloader.current.config.pipelines, reloader.current.source),
    reloads: reloader.history.map(({ at, outcome, reason, tookMs, generation, problems }) => ({
      ...{ at: isoTime(at), outcome, reason, took_ms: Math.round(tookMs), generation },
      problems: problems.map(({ file, line, column, message }) => ({ file, line, column, message })),
    })),
  };
}
