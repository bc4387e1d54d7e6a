/**
 * A whole gateway for tests, on 127.0.0.1 and a port of its own: the real server, engine, router, transport and
 * dialects around the plugins that a test gives it; no configuration file and no analytics store.
 */
import { type Features, readFeatures } from '../../core/access/features.ts';
import { createCredentialFactory } from '../../adapters/credentials/index.ts';
import { dialects, providerDialects } from '../../adapters/dialects/index.ts';
import { modelListings } from '../../adapters/dialects/host-endpoints.ts';
import { createMockTransport } from '../../adapters/mock/transport.ts';
import { providerTable } from '../../adapters/providers.ts';
import { createSecretStore } from '../../adapters/secret-managers/index.ts';
import { createTokens } from '../../adapters/tokens/tokens.ts';
import { ProviderTransport } from '../../adapters/transport/provider-transport.ts';
import { createUndiciTransport, type UndiciTransport } from '../../adapters/transport/undici-transport.ts';
import type { GatewayConfig, PipelineConfig } from '../../core/config/schema.ts';
import type { Dialect } from '../../core/dialects/dialect.ts';
import type { DialectName } from '../../core/dialects/endpoint.ts';
import { Gateway } from '../../core/http/gateway.ts';
import { startServer } from '../../core/http/server.ts';
import { compilePipelines } from '../../core/http/route-table.ts';
import {
  realClock,
  RecordingMetrics,
  recordingLog,
  type Line,
} from '../../core/lifecycle/recording-services.test-support.ts';
import { guardsOf } from '../../core/lifecycle/offered-checks.ts';
import { createPluginScope, type Services } from '../../core/lifecycle/scope.ts';
import { compilePipeline } from '../../core/pipeline/compile.ts';
import type { Outcome } from '../../core/pipeline/context.ts';
import type { RequestFacts } from '../../core/pipeline/facts.ts';
import type { PluginInstance } from '../../core/pipeline/call-hook.ts';
import type { AnyPlugin } from '../../core/pipeline/plugin.ts';
import type { PluginBreaker } from '../../core/pipeline/plugin-breaker.ts';
import type { EngineRuntime } from '../../core/pipeline/settle.ts';
import type { Analytics } from '../../core/ports/analytics.ts';
import type { Cache } from '../../core/ports/cache.ts';
import type { ConfigFileEditor } from '../../core/ports/config-file.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { LocalBudgets } from '../../core/ports/budgets.ts';
import type { Counters, Limiter } from '../../core/ports/counters.ts';
import type { Directory, KeyRecord } from '../../core/ports/directory.ts';
import type { LogExports } from '../../core/ports/exports.ts';
import type { Journal } from '../../core/ports/journal.ts';
import { TrustedHosts } from '../../core/base/host-rules.ts';
import type { LargeTranslation } from '../../core/ports/large-translation.ts';
import type { Prices } from '../../core/ports/prices.ts';
import type { ProviderTable } from '../../core/providers/provider-row.ts';
import type { Resources } from '../../core/ports/resources.ts';
import type { McpClients } from '../../core/ports/mcp.ts';
import type { SecretManagers } from '../../core/ports/secret-managers.ts';
import type { GuardedFetch, Transport } from '../../core/ports/transport.ts';
import { Breakers } from '../../core/routing/attempts/breakers.ts';
import { createRouter } from '../../core/routing/router.ts';
import { createEmbeddings } from '../../core/routing/embed-text.ts';
import { compileTargets } from '../../core/routing/targets.ts';
import { RoutingState } from '../../core/routing/plan/routing-state.ts';
import { builtInPlugins } from '../../plugins/index.ts';
import provider from '../../plugins/provider/index.ts';
import { createMemoryCache } from '../../storage/memory/cache.ts';

type RunningServer = Awaited<ReturnType<typeof startServer>>;
import { createBudgets } from '../../storage/memory/budgets.ts';
import { createMemoryCounters } from '../../storage/memory/counters.ts';
import { createMemoryLimiter } from '../../storage/memory/limiter.ts';
import { createMemoryVectorIndex } from '../../storage/memory/vector-index.ts';
import type { Closing } from './postgres-kit.ts';
import { noOauth } from './fake-mcp.ts';
import { sha256, testAnalytics, TestJournal } from './plugin-kit.ts';
import { testSecrets } from './test-secrets.ts';
import { ConfiguredMcpServers } from '../../core/organisation/mcp-virtual-servers.ts';
import { withoutStore } from '../../core/organisation/without-store.ts';

/** A plugin and how it stands in the pipeline. */
export interface PlacedPlugin {
  readonly plugin: AnyPlugin;
  readonly options?: Readonly<Record<string, unknown>>;
  /** Default `fail`. */
  readonly onError?: 'fail' | 'skip';
  /** Default: what the plugin declares, else none. */
  readonly timeoutMs?: number;
  readonly breaker?: PluginBreaker;
}

/** What a test says about its gateway; everything has a default. */
export interface TestGatewayOptions {
  readonly exports?: LogExports;
  /** The plugins of one pipeline that takes everything. Default: `provider` alone, with `defaultProvider`. */
  readonly plugins?: readonly (AnyPlugin | PlacedPlugin)[];
  /** Instead of `plugins`. */
  readonly pipelines?: readonly {
    readonly name?: string;
    readonly match?: PipelineConfig['match'];
    readonly plugins: readonly (AnyPlugin | PlacedPlugin)[];
  }[];
  readonly providers?: GatewayConfig['providers'];
  readonly configs?: GatewayConfig['configs'];
  readonly guardedFetch?: GuardedFetch;
  /** Plugins whose checks guardrails can be made of, beside those of the gateway. */
  readonly checksOf?: readonly AnyPlugin[];
  /** Built-in rows. Default: those of the gateway. */
  readonly table?: ProviderTable;
  readonly server?: Partial<GatewayConfig['server']>;
  readonly security?: Partial<GatewayConfig['security']>;
  readonly telemetry?: Partial<GatewayConfig['telemetry']>;
  /** Service keys by their secret. */
  readonly keys?: Readonly<Record<string, KeyRecord>>;
  readonly dialects?: ReadonlyMap<DialectName, Dialect>;
  /** Answers the operational paths. Default: nothing does. */
  readonly operations?: ConstructorParameters<typeof Gateway>[0]['operations'];
  readonly clock?: Clock;
  /** Instead of the network. */
  readonly transport?: Transport;
  /** Default: nothing has a price. */
  readonly prices?: Prices;
  /** What administration routes read and change. Default: none. */
  readonly resources?: Resources;
  readonly configFile?: ConfigFileEditor;
  /** Instead of those that the security settings allow. */
  readonly secretManagers?: SecretManagers;
  /** Default: no server can be spoken to. */
  readonly mcp?: McpClients;
  /** Default: none. */
  readonly mcpServers?: ConfiguredMcpServers;
  /** What the operator has switched off; nothing by default. */
  readonly features?: Features;
  /** Instead of what a gateway without a store knows. */
  readonly directory?: Partial<Directory>;
  /** What the analytics store answers; nothing by default. */
  readonly analytics?: Partial<Analytics>;
  /** Where log rows go. Default: nowhere. */
  readonly journal?: Journal;
  /** Instead of counters in memory. */
  readonly counters?: Counters;
  /** Instead of budgets that are forgotten at the end. */
  readonly budgets?: LocalBudgets;
  /** Instead of one in memory. */
  readonly limiter?: Limiter;
  /** Instead of a cache in memory. */
  readonly cacheStore?: Cache;
  /** Told of each request that has settled, besides. */
  readonly onSettled?: EngineRuntime['onSettled'];
  readonly hookTimes?: EngineRuntime['hookTimes'];
  /** Default: large requests are translated beside others. */
  readonly largeTranslation?: LargeTranslation;
  /** Instead of `Math.random`, for what strategies and retries leave to chance. */
  readonly random?: () => number;
}

/** One request that has settled. */
export interface SettledRequest {
  readonly id: string;
  readonly outcome: Outcome;
  readonly facts: RequestFacts;
}

/** A gateway that listens. */
export interface TestGateway {
  readonly url: string;
  readonly port: number;
  readonly gateway: Gateway;
  readonly server: RunningServer;
  readonly transport: UndiciTransport;
  /** The gateway's own log. */
  readonly lines: readonly Line[];
  /** Last values by `name{label=value}`. */
  readonly metrics: ReadonlyMap<string, number>;
  /** In the order in which they settled. */
  readonly settled: readonly SettledRequest[];
  /** Failures of plugins, as `plugin/hook`. */
  readonly pluginErrors: readonly string[];
  /** Requests that hold the generation. */
  readonly held: () => number;
  /** The request number `count` (from 1) to settle, waited for. */
  untilSettled(count?: number): Promise<SettledRequest>;
}

/** The `provider` plugin with its options, for lists of plugins. */
export function providerPlugin(options: Readonly<Record<string, unknown>> = {}): PlacedPlugin {
  return { plugin: provider, options };
}

/** Starts a gateway; it ends with the test, cutting what is still open. */
export async function startTestGateway(t: Closing, options: TestGatewayOptions = {}): Promise<TestGateway> {
  const config = testConfig(options);
  const clock = options.clock ?? realClock;
  const lines: Line[] = [];
  const log = recordingLog(lines);
  const metrics = new RecordingMetrics();
  const network = createUndiciTransport({ log, clock, metrics });
  const transport = options.transport ?? new ProviderTransport(network, createMockTransport({ clock }));
  const settled: SettledRequest[] = [];
  const waiting: { count: number; resolve: (one: SettledRequest) => void }[] = [];
  const pluginErrors: string[] = [];
  const runtime: EngineRuntime = {
    log,
    clock,
    prices: options.prices ?? {
      price: () => ({ cost: '0', status: 'none', version: '' }),
      parts: () => undefined,
      rates: () => undefined,
    },
    hookTimes: options.hookTimes,
    countPluginError: (plugin, hook) => void pluginErrors.push(`${plugin}/${hook}`),
    onSettled(exchange, outcome) {
      options.onSettled?.(exchange, outcome);
      settled.push({ id: exchange.id, outcome, facts: exchange.facts });
      for (const one of waiting.splice(0)) {
        const found = settled[one.count - 1];
        if (found) one.resolve(found);
        else waiting.push(one);
      }
    },
  };
  const memory = createMemoryCounters({ clock, log });
  const counters = options.counters ?? memory;
  const budgets = options.budgets ?? createBudgets({ clock, log });
  const limiter = options.limiter ?? createMemoryLimiter({ counters: memory, budgets });
  const credentials = createCredentialFactory({ clock, transport, environment: {} });
  const table = options.table ?? providerTable;
  const headerPrefix = config.server.header_prefix;
  const directory: Directory = {
    ...withoutStore,
    ...options.directory,
    keyByHash: (hash) =>
      Object.entries(options.keys ?? {}).find(([secret]) => sha256(secret) === hash)?.[1] ??
      options.directory?.keyByHash?.(hash),
    keyById: (id) =>
      Object.values(options.keys ?? {}).find((key) => key.id === id) ?? options.directory?.keyById?.(id),
    defaultOrganisationId: 'default-org',
    defaultWorkspaceId: 'default-ws',
  };
  const services: Services = {
    ...{ log, clock, metrics, counters, limiter, budgets, prices: runtime.prices },
    features: options.features ?? readFeatures({}),
    guards: guardsOf([...builtInPlugins, ...(options.checksOf ?? [])]),
    dialects,
    secrets: testSecrets,
    credentials,
    ownRequests: { send: (request) => gateway.send(request) },
    journal: options.journal ?? new TestJournal(),
    analytics: testAnalytics(options.analytics),
    resources: options.resources,
    configFile: options.configFile,
    exports: options.exports,
    secretManagers:
      options.secretManagers ??
      createSecretStore({ clock, log, transport, credentials, environment: {} }).within({
        guardedFetch: options.guardedFetch ?? noFetch,
        trustedHosts: new TrustedHosts(config.security.trusted_hosts),
        sources: config.security.secret_sources,
      }),
    mcp: options.mcp ?? noMcp,
    cache: options.cacheStore ?? createMemoryCache({ clock, maxBytes: 64_000_000, maxValueBytes: 4_000_000 }),
    guardedFetch: options.guardedFetch ?? noFetch,
    tokens: createTokens({ fetch: options.guardedFetch ?? noFetch, clock, log }),
    directory,
    router: createRouter({
      checks: guardsOf([...builtInPlugins, ...(options.checksOf ?? [])]),
      config,
      table,
      transport,
      runtime,
      wires: providerDialects,
      dialects,
      listings: modelListings,
      credentials,
      prices: runtime.prices,
      state: new RoutingState(clock),
      random: options.random,
      breakers: new Breakers({ counters, clock, log }),
      ...{ limiter, directory },
      ...{ secrets: testSecrets, secretManagers: options.secretManagers },
      largeTranslation: options.largeTranslation,
    }),
    embeddings: createEmbeddings({
      known: compileTargets(config.providers, table, { factory: credentials, headerPrefix }),
      transport,
      wires: providerDialects,
      clock,
      metrics,
    }),
    vectors: createMemoryVectorIndex({ clock }),
    mcpServers: options.mcpServers ?? new ConfiguredMcpServers(),
    headerPrefix,
    keyPrefix: config.security.key_prefix,
    basePath: config.server.base_path,
    publicUrl: config.server.public_url || undefined,
  };
  const disposers: (() => Promise<void>)[] = [];
  const servers: RunningServer[] = [];
  // Also where a plugin cannot be created, and no server starts.
  t.after(async () => {
    for (const server of servers) await server.close(0);
    await transport.close();
    await network.close();
    for (const dispose of disposers) await dispose();
    memory.close();
  });
  const compiled = [];
  for (const pipeline of pipelinesOf(options)) {
    const instances: PluginInstance[] = [];
    for (const placed of pipeline.plugins) instances.push(await createInstance(placed, services, disposers));
    const { name = 'gateway', match = { path: '/**' } } = pipeline;
    compiled.push(compilePipeline({ name, match, plugins: [] }, instances, services.features));
  }
  const generation = { hash: 'generation-1', compiled: compilePipelines(compiled), held: 0 };
  const gateway = new Gateway({
    server: config.server,
    dialects: options.dialects ?? dialects,
    clock,
    runtime,
    administration: {
      resources: options.resources,
      directory: services.directory,
      features: services.features,
    },
    current: () => ({
      ...generation,
      acquire: () => void generation.held++,
      release: () => void generation.held--,
    }),
    operations: options.operations ?? (() => false),
  });
  const server = await startServer(gateway, config.server, 0);
  servers.push(server);
  return {
    url: `http://127.0.0.1:${server.port}`,
    port: server.port,
    gateway,
    server,
    transport: network,
    metrics: metrics.values,
    lines,
    settled,
    pluginErrors,
    held: () => generation.held,
    untilSettled(count = 1) {
      const found = settled[count - 1];
      if (found) return Promise.resolve(found);
      return new Promise((resolve) => waiting.push({ count, resolve }));
    },
  };
}

const noFetch: GuardedFetch = {
  fetch() {
    throw new Error('This test gateway has no guarded fetch; pass one in its options.');
  },
};

const noMcp: McpClients = {
  oauth: noOauth,
  upstream: () => {
    throw new Error('This test gateway speaks to no MCP server; pass `mcp` in its options.');
  },
  describe: () =>
    Promise.reject(new Error('This test gateway speaks to no MCP server; pass `mcp` in its options.')),
  greet: () =>
    Promise.reject(new Error('This test gateway speaks to no MCP server; pass `mcp` in its options.')),
};

/** A configuration as the loader fills it in, with short timeouts nowhere. */
export function testConfig({
  providers,
  configs,
  server,
  security,
  telemetry,
}: TestGatewayOptions = {}): GatewayConfig {
  return {
    version: 1,
    server: {
      host: '127.0.0.1',
      port: 0,
      base_path: '/v1',
      public_url: '',
      header_prefix: 'x-service',
      header_aliases: ['x-portkey'],
      workers: 1,
      backlog: 4096,
      operations: 'loopback',
      trusted_proxies: [],
      max_body_bytes: 1_000_000,
      max_buffered_bytes: 64_000_000,
      header_timeout_ms: 15_000,
      max_body_members: 200_000,
      max_body_depth: 128,
      body_idle_timeout_ms: 30_000,
      body_min_bytes_per_second: 500,
      body_timeout_ms: 3_600_000,
      client_stall_timeout_ms: 60_000,
      keep_alive_timeout_ms: 75_000,
      watchdog_ms: 0,
      shutdown_timeout_ms: 30_000,
      ...server,
    },
    security: {
      trusted_hosts: [],
      key_prefix: 'wk_',
      directory_max_age: 900,
      refused_attempts_days: 30,
      secret_sources: { environment_prefix: '', folder: '', machine_identity: false },
      ...security,
    },
    changes: {
      canary: {
        ...{ share: 10, duration_s: 300, min_requests: 20 },
        ...{ max_error_rise: 1, max_refusal_rise: 1, max_latency_rise: 50 },
      },
    },
    storage: {
      engine_start_ms: 300_000,
      redis_budget_ms: 50,
      resources: { url: 'none:' },
      analytics: {
        url: 'none:',
        replicated: false,
        replica_path: '',
        replica_name: '',
        sharded: false,
        insert_quorum_parallel: true,
        text_index: true,
        max_memory_bytes: 1_073_741_824,
        max_queued_queries: 32,
        query_timeout_s: 20,
      },
      counters: { url: 'memory:' },
      cache: { max_bytes: 64_000_000, max_value_bytes: 4_000_000 },
      jobs: {},
      journal: {
        flush_ms: 20,
        ship_ms: 1000,
        max_bytes: 1_048_576,
        when_full: 'shed',
        block_ms: 10_000,
        sync: 'interval',
        sync_ms: 1000,
        max_age_hours: 72,
      },
    },
    retention: { logs_days: 90, bodies_days: 30, metrics_days: 365 },
    exports: {
      url: 'file:',
      expires_days: 7,
      max_rows: 10_000_000,
      link_minutes: 60,
      denied_fields: [],
      region: 'us-east-1',
      endpoint: '',
      path_style: false,
    },
    alerts: { webhooks: [] },
    prices: { models: [] },
    log: { level: 'info', format: 'text' },
    telemetry: {
      propagate: false,
      otlp: undefined,
      metrics: { labels: [], max_label_values: 50 },
      ...telemetry,
    },
    providers: providers ?? {},
    configs: configs ?? {},
    pipelines: [],
  };
}

function pipelinesOf({ plugins, pipelines }: TestGatewayOptions) {
  return pipelines ?? [{ plugins: plugins ?? [providerPlugin({ default: 'up' })] }];
}

async function createInstance(
  given: AnyPlugin | PlacedPlugin,
  services: Services,
  disposers: (() => Promise<void>)[],
): Promise<PluginInstance> {
  const placed: PlacedPlugin = 'plugin' in given ? given : { plugin: given };
  const { plugin, options = {}, onError = 'fail', timeoutMs, breaker } = placed;
  const { scope, dispose } = createPluginScope(plugin.name, services);
  disposers.push(dispose);
  return {
    definition: plugin,
    name: plugin.name,
    hooks: await plugin.create(options, scope),
    onError,
    timeoutMs: timeoutMs ?? plugin.capabilities?.timeoutMs ?? 0,
    breaker,
    builtIn: false,
  };
}
