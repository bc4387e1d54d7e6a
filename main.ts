// The composition root: reads the command line, opens stores, builds the first generation, listens. Everything else
// lives in core (what a gateway is), plugins (what operators compose), adapters (providers) and storage.
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { createCredentialFactory } from './adapters/credentials/index.ts';
import { dialects, providerDialects } from './adapters/dialects/index.ts';
import { modelListings } from './adapters/dialects/model-listings.ts';
import { createGuardedFetch } from './adapters/guarded-fetch/guarded-fetch.ts';
import { createMockTransport } from './adapters/mock/transport.ts';
import { createPrices } from './adapters/pricing/genai-prices.ts';
import { providerTable } from './adapters/providers.ts';
import { createLog } from './adapters/telemetry/line-log.ts';
import { createMetrics } from './adapters/telemetry/prometheus.ts';
import { createTokens } from './adapters/tokens/tokens.ts';
import { createUndiciTransport } from './adapters/transport/undici-transport.ts';
import { readFeatures } from './core/access/read-features.ts';
import { helpText, readArguments, type Command } from './core/cli/arguments.ts';
import { runAdministrationCommand } from './core/cli/administration-command.ts';
import { runExplainCommand } from './core/cli/explain-command.ts';
import { runJournalCommand } from './core/cli/journal-command.ts';
import { welcome } from './core/cli/welcome.ts';
import { restartNeeded } from './core/config/diff.ts';
import { configJsonSchema } from './core/config/json-schema.ts';
import { loadConfig } from './core/config/load-config.ts';
import { formatProblem, type Problem } from './core/config/problem.ts';
import type { GatewayConfig } from './core/config/schema.ts';
import { watchFiles } from './core/config/watch.ts';
import { Gateway } from './core/http/gateway.ts';
import { createInvitePage } from './core/http/invite-page.ts';
import { createOperationsAccess } from './core/http/operations-access.ts';
import { createReferencePages } from './core/http/openapi/reference-pages.ts';
import { createOperations } from './core/http/operations.ts';
import { createRequestMetrics } from './core/http/request-metrics.ts';
import { startServer } from './core/http/server.ts';
import { compilePipelines, leftOutPlugins } from './core/http/serving.ts';
import { guardsOf } from './core/lifecycle/guards.ts';
import { PluginBundler } from './core/lifecycle/plugin-bundler.ts';
import { checkPlugins, prepareGeneration } from './core/lifecycle/prepare.ts';
import { installProcessGuards } from './core/lifecycle/process-guards.ts';
import { Reloader } from './core/lifecycle/reload.ts';
import type { Services } from './core/lifecycle/scope.ts';
import { UndoStack } from './core/lifecycle/undo-stack.ts';
import { pluginErrors } from './core/lifecycle/plugin-errors.ts';
import { compilePipeline } from './core/pipeline/compile.ts';
import type { HookRuntime } from './core/pipeline/call-hook.ts';
import type { Log } from './core/ports/log.ts';
import type { Metrics } from './core/ports/metrics.ts';
import { systemClock as clock } from './core/ports/system-clock.ts';
import type { Transport } from './core/ports/transport.ts';
import { Breakers } from './core/routing/attempts/breakers.ts';
import { createRouter } from './core/routing/create-router.ts';
import { createEmbeddings } from './core/routing/embed-text.ts';
import { compileTargets } from './core/routing/targets.ts';
import { RoutingState } from './core/routing/plan/routing-state.ts';
import { administrationTools } from './main/administration-tools.ts';
import { explainTools } from './main/explain-tools.ts';
import { journalTools } from './main/journal-tools.ts';
import { openSecretManagers, openSecrets } from './main/open-secrets.ts';
import { openStores } from './main/open-stores.ts';
import { builtInPlugins } from './plugins/index.ts';
import { lockData } from './storage/embedded/data-lock.ts';
import { openIdentity } from './storage/identity/open-identity.ts';

const root = path.dirname(fileURLToPath(import.meta.url));
const env = process.env;

const builtIns = new Map(builtInPlugins.map((plugin) => [plugin.name, plugin]));
const providerNames = new Set(providerTable.keys());

async function run(command: Command): Promise<number | undefined> {
  if (command.name === 'help') {
    const text = helpText(command.topic);
    if (command.problem === undefined) console.log(text);
    else console.error(`${command.problem}\n\n${text}`);
    return command.problem === undefined ? 0 : 2;
  }
  if (command.name === 'schema') {
    console.log(JSON.stringify(configJsonSchema(builtInPlugins), null, 2));
    return 0;
  }
  const load = (file: string) => loadConfig(file, { env });
  const parts = { configFile, load, clock, print: console.log, complain: console.error };
  if (command.name === 'explain')
    return runExplainCommand(command, explainTools({ ...parts, environment: env }));
  if (command.name === 'journal') return runJournalCommand(command, journalTools(parts));
  if (command.name === 'check') return check(configFile(command.file));
  if (command.name === 'start') return start(command);
  return runAdministrationCommand(command, administrationTools({ ...parts, environment: env }));
}

/** The file named, the one in this folder, or the one that comes with the gateway. */
function configFile(named: string | undefined): string {
  const local = path.resolve('gateway.config.yaml');
  if (named !== undefined) return path.resolve(named);
  return existsSync(local) ? local : path.join(root, 'gateway.config.yaml');
}

async function check(file: string): Promise<number> {
  const loaded = await loadConfig(file, { env });
  const log = createLog({
    level: 'error',
    format: 'text',
    write: (line) => process.stderr.write(line),
    clock,
  });
  const bundler = new PluginBundler({ folder: path.resolve('data', 'plugins'), clock, log });
  const sources = { builtIns, bundler, providerNames };
  if (!loaded.ok) {
    const { draft, problems } = loaded;
    return report(draft === undefined ? problems : await checkPlugins({ ...draft, ...sources }, problems));
  }
  const { config, source } = loaded;
  const prepared = await prepareGeneration({ config, source, ...sources });
  if (!prepared.ok) return report(prepared.problems);
  report([...loaded.warnings, ...prepared.prepared.warnings]);
  console.log(`${path.relative('', file)} is valid.`);
  return 0;
}

function report(problems: readonly Problem[]): number {
  for (const problem of problems) console.error(formatProblem(problem));
  return problems.some((problem) => problem.severity !== 'warning') ? 1 : 0;
}

async function start(command: Extract<Command, { name: 'start' }>): Promise<number | undefined> {
  const file = configFile(command.config);
  const first = await loadConfig(file, { env });
  if (!first.ok) return report(first.problems);
  const { config } = first;
  const log = createLog({ ...config.log, write: (line) => process.stderr.write(line), clock });
  const opened = new UndoStack({
    clock,
    timeoutMs: config.server.shutdown_timeout_ms + 10_000,
    onError: (error) => log.error('A part could not be closed', { error }),
  });
  try {
    await serve({ command, file, config, log, opened });
    return undefined;
  } catch (error) {
    log.error(error instanceof Error ? error.message : String(error));
    await opened.dispose();
    return 1;
  }
}

interface Serving {
  readonly command: Extract<Command, { name: 'start' }>;
  readonly file: string;
  readonly config: GatewayConfig;
  readonly log: Log;
  readonly opened: UndoStack;
}

async function serve({ command, file, config, log, opened }: Serving): Promise<void> {
  const features = readFeatures(env);
  const data = path.resolve(command.data);
  await mkdir(data, { recursive: true }).catch((cause: Error) => {
    throw new Error(
      `The data folder cannot be made: ${cause.message}. Name another one (--data, WEIR_DATA).`,
      {
        cause,
      },
    );
  });
  const lock = await lockData(data, { clock });
  opened.push(() => lock.release());
  const metrics = createMetrics();
  const identity = await openIdentity(data, {
    ...{ presetKey: env['WEIR_ADMIN_KEY'], ownerEmail: env['WEIR_OWNER_EMAIL'] },
    keyPrefix: config.security.key_prefix,
  });
  const { counters, directory, dependencies, fileRecords, ...stores } = await openStores({
    ...{ config, file, data, log, clock, metrics, opened, identity, features },
  });
  const transport = openTransport(log, metrics);
  opened.push(() => transport.close());
  const credentials = createCredentialFactory({ clock, transport, environment: env });
  const managers = openSecretManagers({ clock, log, transport, credentials, environment: env });

  const countError = pluginErrors(metrics);
  const hooks: HookRuntime = {
    log,
    clock,
    countPluginError: (plugin, hook) => countError({ plugin, hook }).inc(),
  };
  const prices = createPrices({ log });
  const routingState = new RoutingState(clock);
  const breakers = new Breakers({ counters, clock, log, metrics });
  const secrets = await openSecrets({ config, data, environment: env, log });
  const guards = guardsOf(builtInPlugins);
  const shared = { log, clock, metrics, prices, counters, directory, features, secrets, guards, ...stores };
  const guarded = (security: GatewayConfig['security']) => {
    const guardedFetch = createGuardedFetch({ log, clock, metrics, trustedHosts: security.trusted_hosts });
    const secretManagers = managers(security, guardedFetch);
    return { guardedFetch, secretManagers, tokens: createTokens({ fetch: guardedFetch, clock, log }) };
  };
  const services = (next: GatewayConfig, own = guarded(next.security)): Services => ({
    ...shared,
    ...own,
    router: createRouter({
      ...{ config: next, table: providerTable, wires: providerDialects, listings: modelListings },
      ...{ transport, runtime: hooks, credentials, prices, state: routingState, breakers, directory },
      ...{ secrets, secretManagers: own.secretManagers },
    }),
    embeddings: createEmbeddings({
      known: compileTargets(next.providers, providerTable, {
        factory: credentials,
        headerPrefix: next.server.header_prefix,
      }),
      ...{ transport, wires: providerDialects, clock, metrics },
    }),
    headerPrefix: next.server.header_prefix,
    keyPrefix: next.security.key_prefix,
    publicUrl: next.server.public_url || undefined,
  });
  const bundler = new PluginBundler({ folder: path.join(data, 'plugins'), clock, log });
  const reloader = new Reloader({
    ...{ builtIns, bundler, providerNames, restartNeeded, log, metrics, clock },
    services(next) {
      fileRecords.prepare(next.organisation);
      return services(next);
    },
    compile: (pipelines) =>
      compilePipelines(
        pipelines.map(({ config, instances }) => compilePipeline(config, instances, features)),
      ),
    load: () => loadConfig(file, { env }),
    watch: (files, onChange, since) => watchFiles(files, onChange, { clock, log, since }),
  });
  const started = await reloader.start();
  if (!started.ok) {
    report(started.problems);
    throw new Error('The configuration is not valid; nothing was started.');
  }
  opened.push(() => reloader.stop());
  fileRecords.follow(() => reloader.current.config.organisation);

  const gateway: Gateway = new Gateway({
    server: config.server,
    ...{ dialects, clock, administration: { resources: stores.resources, directory, features } },
    runtime: { ...hooks, prices, onSettled: createRequestMetrics(metrics) },
    current: () => reloader.current,
    operations: createOperations({
      metrics,
      dependencies,
      refusal: createOperationsAccess(config.server, directory),
      reference: createReferencePages(config.server, () => reloader.current),
      invitePage: createInvitePage(config.server),
      draining: () => gateway.isDraining,
      status: () => status(reloader, gateway),
    }),
  });
  const { host = config.server.host, port = config.server.port } = command;
  const server = await startServer(gateway, { ...config.server, host }, port);
  opened.push(async () => {
    const { cut } = await server.close(config.server.shutdown_timeout_ms);
    if (cut > 0) log.warn('Requests were cut at the shutdown deadline', { cut });
  });
  handleSignals({ log, opened, metrics, bundler, reload: () => void reloader.reload('SIGHUP') });
  console.log(
    welcome({
      url: `http://${server.host.includes(':') ? `[${server.host}]` : server.host}:${server.port}`,
      config: path.relative('', file) || file,
      data: path.relative('', data) || data,
      analytics: analyticsPlace(config, path.relative('', data) || data),
      basePath: config.server.base_path,
      headerPrefix: config.server.header_prefix,
      newOwnerKey: identity.newOwnerKey,
      ...{ off: features.off, leftOut: leftOutPlugins(reloader.current.compiled) },
    }),
  );
}

/** Where log rows are kept, in words. */
function analyticsPlace({ storage }: GatewayConfig, data: string): string {
  const { url } = storage.analytics;
  if (url === 'none:') return 'kept in the journal (storage.analytics.url is "none:")';
  if (url.startsWith('http')) return `ClickHouse at ${url}`;
  return `embedded ClickHouse in ${path.join(data, 'analytics')}`;
}

/** The built-in provider answers in this process; everything else goes over the network. */
function openTransport(log: Log, metrics: Metrics): Transport {
  const network = createUndiciTransport({ log, clock, metrics });
  const mock = createMockTransport({ clock });
  return {
    send: (request, handler) => (request.origin.startsWith('mock:') ? mock : network).send(request, handler),
    upgrade: (request) => network.upgrade(request),
    close: async () => {
      await Promise.all([network.close(), mock.close()]);
    },
  };
}

function status(reloader: Reloader<unknown>, gateway: Gateway): Record<string, unknown> {
  return {
    status: gateway.isDraining ? 'draining' : 'serving',
    generation: reloader.current.hash,
    uptime_seconds: Math.floor(process.uptime()),
    active_requests: gateway.activeRequests,
    buffered_bytes: gateway.bufferedBytes,
    retiring_generations: reloader.retiring,
    config_error: reloader.lastError
      ? {
          at: new Date(reloader.lastError.at).toISOString(),
          problems: reloader.lastError.problems.map(formatProblem),
        }
      : null,
    restart_needed: reloader.restartNeeded ?? null,
  };
}

interface SignalParts {
  readonly log: Log;
  readonly opened: UndoStack;
  readonly metrics: Metrics;
  readonly bundler: PluginBundler;
  reload(): void;
}

function handleSignals({ log, opened, metrics, bundler, reload }: SignalParts): void {
  let stopping = false;
  const stop = (reason: string, code: number): void => {
    if (stopping) return;
    stopping = true;
    log.info(`Shutting down: ${reason}`);
    void opened.dispose().then(() => process.exit(code));
  };
  process.on('SIGTERM', () => stop('SIGTERM', 0));
  process.on('SIGINT', () => stop('SIGINT', 0));
  process.on('SIGHUP', reload);
  installProcessGuards({
    process,
    log,
    metrics,
    attribute: (thrown) => bundler.origins.attribute(thrown),
    onFatal: () => stop('an uncaught exception', 1),
  });
}

// Who reads our output may leave (`weir start 2>&1 | head`). That is no reason to end, and an error that is reported
// where nobody reads would raise the next one, without end.
for (const output of [process.stdout, process.stderr]) output.on('error', () => undefined);
const code = await run(readArguments(process.argv.slice(2), env));
if (code !== undefined) process.exitCode = code;
