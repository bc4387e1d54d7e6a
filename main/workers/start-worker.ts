// Composition root: a worker of `weir start`. It serves requests on the shared port; its stores are those of its
// parent, but for a journal of its own.
import { collectAfterStart } from '../../core/base/collect-garbage.ts';
import cluster from 'node:cluster';
import { connect } from 'node:net';
import path from 'node:path';
import { createLog } from '../../adapters/telemetry/line-log.ts';
import { createMetrics } from '../../adapters/telemetry/prometheus.ts';
import { type Features, readFeatures } from '../../core/access/features.ts';
import type { Command } from '../../core/administration/cli/arguments.ts';
import { loadConfig } from '../../core/config/load-config.ts';
import { readBytes } from '../../core/config/read-file.ts';
import { formatProblem, type Problem } from '../../core/config/problem.ts';
import { startServer, workerClientHeader } from '../../core/http/server.ts';
import { RoutingState } from '../../core/routing/plan/routing-state.ts';
import { installProcessGuards, restartExitCode, startWatchdog } from '../../core/lifecycle/process-guards.ts';
import { UndoStack } from '../../core/lifecycle/undo-stack.ts';
import { type Clock, systemClock as clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { lockData } from '../../storage/embedded/data-lock.ts';
import { privateFolders } from '../../storage/embedded/own-folder.ts';
import { Channel, type Offered, type Remote } from '../../storage/parent/channel.ts';
import { tellLatencies } from '../../storage/parent/latencies.ts';
import { openKeys, createSecretBox } from '../../storage/secrets/key-file.ts';
import { assembleGateway } from '../assemble.ts';
import { configFile } from '../config-file.ts';
import { keyVariables } from '../open-secret-box.ts';
import {
  type CallsOfParent,
  type CallsOfWorker,
  type ConfigTexts,
  slotVariable,
  socketVariable,
} from './worker-calls.ts';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import {
  directoryWithFile,
  fileRecordsOnly,
} from '../../core/administration/directory/file-records-directory.ts';
import { FileRecordsInUse } from '../../core/administration/directory/file-records-in-use.ts';
import type { ConfigSource } from '../../core/config/config-source.ts';
import type { GatewayConfig } from '../../core/config/schema.ts';
import type { Metrics } from '../../core/ports/metrics.ts';
import type { SecretBox } from '../../core/ports/secret-managers.ts';
import { keepSnapshots } from '../../storage/identity/directory-snapshot.ts';
import { readIdentity } from '../../storage/identity/open-identity.ts';
import { createBudgets } from '../../storage/memory/budgets.ts';
import { createMemoryCounters } from '../../storage/memory/counters.ts';
import { createMemoryLimiter } from '../../storage/memory/limiter.ts';
import { createNoAnalytics } from '../../storage/none/no-analytics.ts';
import { createParentResources, createParentStores } from '../../storage/parent/parent-stores.ts';
import { openSharedStores } from '../../storage/redis/open-shared-stores.ts';
import { isServer, openAnalytics } from '../open-analytics.ts';
import { followStore, openLogRows, type Stores } from '../open-stores.ts';

const env = process.env;

/** Serves until the parent ends it; returns the exit code when the start fails. */
export async function startWorker(command: Extract<Command, { name: 'start' }>): Promise<number | undefined> {
  // The parent decides about the end; a terminal sends its signals to every process. When the parent has gone, requests
  // in progress end first: the runtime would exit at once.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => undefined);
  if (cluster.worker) cluster.worker.exitedAfterDisconnect = true;
  const worker = new WorkerProcess(command);
  try {
    await worker.start();
    return undefined;
  } catch (error) {
    await worker.fail(error instanceof Error ? error.message : String(error));
    return 1;
  }
}

class WorkerProcess {
  readonly #command: Extract<Command, { name: 'start' }>;
  readonly #slot = Number(env[slotVariable]);
  readonly #hurry = new AbortController();
  /** Offered to the parent; complete when the gateway is. */
  readonly #calls: Record<string, (...args: never[]) => unknown> = {};
  #parent: Channel<CallsOfParent> | undefined;
  #log: Log | undefined;
  #opened: UndoStack | undefined;
  #drainDelayMs = 0;
  #isStopping = false;

  constructor(command: Extract<Command, { name: 'start' }>) {
    this.#command = command;
  }

  async fail(reason: string): Promise<void> {
    this.#log?.error(reason);
    await this.#parent?.call('worker.failed', reason).catch(() => undefined);
    await this.#opened?.dispose();
    process.exit(1);
  }

  async start(): Promise<void> {
    const parent = await this.#connect();
    const { texts, folder, journals, controlPlane } = await parent.call('worker.begin', this.#slot);
    const file = configFile(this.#command.config);
    let latest = texts;
    const load = () => loadTexts(file, latest);
    const first = await load();
    if (!first.ok) throw new Error(formatProblem(first.problems[0] as Problem));
    const { config, source } = first;
    const write = (line: string): unknown => process.stderr.write(line);
    const log = createLog({ ...config.log, write, clock }).child({ worker: this.#slot });
    this.#log = log;
    const deadlineMs = config.server.shutdown_timeout_ms;
    const opened = new UndoStack({
      clock,
      timeoutMs: 300_000 + deadlineMs,
      onError: (error) => log.error('A part could not be closed', { error }),
    });
    this.#opened = opened;
    void parent.closed.then(() => {
      if (!this.#isStopping) log.error('The parent process has gone: this worker ends after its requests');
      this.#stop(0);
    });
    await privateFolders.own(folder);
    const lock = await lockData(folder, { clock, log, onLost: () => process.exit(1) });
    opened.push(() => lock.release());
    const data = path.resolve(this.#command.data);
    const features = readFeatures(env, config.retention);
    const metrics = createMetrics();
    const secrets = createSecretBox(await openKeys(data, keyVariables(env)));
    const parts = { file, config, source, data, secrets, log, clock, metrics, opened };
    const stores = await openWorkerStores({ ...parts, parent, folder, journals, features });
    const routingState = new RoutingState(clock);
    const { gateway, reloader, canaryGate, attribute, start } = assembleGateway({
      ...parts,
      routingState,
      environment: env,
      features,
      stores,
      load,
      watch: () => () => undefined,
      elsewhere: askParent(controlPlane, () => gateway.isDraining),
    });
    const { watchdog_ms: limitMs } = config.server;
    const exit = process.exit.bind(process);
    if (limitMs > 0) startWatchdog({ limitMs, log, metrics, attribute, exit });
    const problems = await start();
    if (problems.length > 0) throw new Error(formatProblem(problems[0] as Problem));
    const calls: Offered<CallsOfWorker> = {
      'loans.recall': (numbers) => stores.leases.recall(numbers),
      'latencies.learn': (known) => routingState.learn(known, false),
      prepare: async (next: ConfigTexts) => {
        latest = next;
        return (await reloader.prepare()).map(formatProblem);
      },
      commit: () => reloader.commit('its parent has reloaded'),
      abandon: () => reloader.abandon(),
      'canary.begin': async (next: ConfigTexts, share: number) => {
        const built = await reloader.buildCanary(() => loadTexts(file, next));
        if ('problems' in built) return built.problems.map(formatProblem);
        canaryGate.begin(built.generation, reloader.current.hash, share);
        return [];
      },
      'canary.watch': (share: number) => {
        const { running } = canaryGate;
        if (running !== undefined) running.share = share;
        return running?.report();
      },
      'canary.end': () => {
        canaryGate.end();
        reloader.endCanary();
      },
      refresh: () => stores.following?.refresh(),
      metrics: () => metrics.collect(),
      state: () => ({
        generation: reloader.current.hash,
        active_requests: gateway.activeRequests,
        buffered_bytes: gateway.bufferedBytes,
        retiring_generations: reloader.retiring,
        uptime_seconds: Math.floor(process.uptime()),
      }),
      settle: (timeoutMs: number) => stores.journal.settle(timeoutMs),
      stop: (drainDelayMs: number) => this.#stop(drainDelayMs),
      hurry: () => this.#hurry.abort(),
    };
    Object.assign(this.#calls, calls);
    tellLatencies(routingState, clock, (reports, ...answered) =>
      parent.ask('latencies.report', [reports], ...answered),
    );
    // A worker that replaces another one knows what that one told.
    await new Promise<void>((resolve, reject) =>
      parent.ask(
        'latencies.recent',
        [],
        (known) => {
          routingState.learn(known, false);
          resolve();
        },
        reject,
      ),
    );
    const { host = config.server.host, port = config.server.port } = this.#command;
    collectAfterStart();
    const server = await startServer(gateway, { ...config.server, host }, port);
    opened.push(async () => {
      const { signal: hurry } = this.#hurry;
      const { cut } = await server.close(deadlineMs, { drainDelayMs: this.#drainDelayMs, hurry });
      if (cut > 0) log.warn('Requests were cut at the shutdown deadline', { cut });
    });
    installProcessGuards({
      process,
      log,
      metrics,
      attribute,
      onFatal: () => this.#stop(0, restartExitCode),
    });
    // Changes since the first generation was read.
    await stores.following?.refresh();
    await parent.call('worker.ready', server.port);
  }

  async #connect(): Promise<Channel<CallsOfParent>> {
    const socket = connect(env[socketVariable] as string);
    await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    this.#parent = new Channel<CallsOfParent>(socket, this.#calls);
    return this.#parent;
  }

  #stop(drainDelayMs: number, code = 0): void {
    if (this.#isStopping) return;
    this.#isStopping = true;
    this.#drainDelayMs = drainDelayMs;
    void (this.#opened?.dispose() ?? Promise.resolve()).then(() => process.exit(code));
  }
}

/** Reads the configuration that the parent has read; files that it did not need come from the disk. */
function loadTexts(file: string, texts: ConfigTexts): ReturnType<typeof loadConfig> {
  return loadConfig(file, { env, readFile: async (one) => texts.get(one) ?? readBytes(one) });
}

/** The way of administrative requests from a worker to its parent. */

/** Headers of one connection: each side has its own. */
const ofConnection = new Set(['connection', 'keep-alive', 'proxy-connection', 'upgrade', 'expect', 'te']);

/** Headers for the other connection: without those of this one. */
function passedOn(headers: readonly string[], dropped: ReadonlySet<string>): string[] {
  const passed: string[] = [];
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] as string;
    const low = name.toLowerCase();
    if (!dropped.has(low) && low !== workerClientHeader) passed.push(name, headers[at + 1] as string);
  }
  return passed;
}

const ofAnswer = new Set([...ofConnection, 'transfer-encoding']);

/**
 * Sends a request as it came to the socket of the parent, and its answer back. Resolves when the answer has ended;
 * never rejects. `isDraining` says whether the client's connection closes after the answer.
 */
function askParent(
  socketPath: string,
  isDraining: () => boolean,
): (request: IncomingMessage, response: ServerResponse, expectsContinue?: boolean) => Promise<void> {
  return (request, response, expectsContinue = false) =>
    new Promise((resolve) => {
      if (expectsContinue) response.writeContinue();
      const { method, url: path, rawHeaders, socket } = request;
      const headers = passedOn(rawHeaders, ofConnection);
      // A request of HTTP/1.0, such as a balancer's check, needs no Host; the one to the parent does.
      if (request.headers.host === undefined) headers.push('host', '');
      headers.push(workerClientHeader, socket.remoteAddress ?? '');
      const upstream = http.request({ socketPath, method, path, headers, agent: false });
      upstream.on('response', (answer) => {
        const head = passedOn(answer.rawHeaders, ofAnswer);
        if (isDraining()) head.push('connection', 'close');
        response.writeHead(answer.statusCode ?? 502, answer.statusMessage, head);
        answer.pipe(response);
        answer.on('error', () => response.destroy());
      });
      upstream.on('error', () => {
        if (response.headersSent) response.destroy();
        else if (!response.destroyed) refuse(response);
      });
      response.on('close', () => {
        upstream.destroy();
        resolve();
      });
      request.on('error', () => upstream.destroy());
      request.pipe(upstream);
    });
}

function refuse(response: ServerResponse): void {
  const { status, message, type, code } = new GatewayError(
    'store_unavailable',
    'The administration of this gateway is starting again. Try again in a moment.',
  );
  response.writeHead(status, { 'content-type': 'application/json', 'retry-after': '1' });
  response.end(JSON.stringify({ error: { message, type, param: null, code } }));
}

// The stores of a worker. Its journal is its own; a Redis server is called from here; everything else
// is in the parent.

/** Options of `openWorkerStores`. */
interface WorkerStoresOptions {
  readonly parent: Remote<CallsOfParent>;
  /** The configuration's file. */
  readonly file: string;
  readonly config: GatewayConfig;
  readonly source: ConfigSource;
  /** The data folder, absolute; the parent holds its lock. */
  readonly data: string;
  /** The worker's own folder; this process holds its lock. */
  readonly folder: string;
  /** Number of journals of this gateway. */
  readonly journals: number;
  readonly features: Features;
  readonly secrets: SecretBox;
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly opened: UndoStack;
}

interface WorkerStores extends Omit<Stores, 'identity' | 'loans'> {
  /** What this worker has borrowed of the limits of its parent. */
  readonly leases: ReturnType<typeof createParentStores>['leases'];
}

/** Opens the stores of a worker; resources to close are added to `opened`. */
async function openWorkerStores(options: WorkerStoresOptions): Promise<WorkerStores> {
  const { parent, config, folder, journals, opened } = options;
  const [counts, administration] = await Promise.all([openCounts(options), openAdministration(options)]);
  // A server takes the rows from here; the embedded engine reads them from the disk, when the parent tells it to.
  const store = isServer(config)
    ? await openAnalytics(options)
    : {
        insert: (...rows: Parameters<Stores['analytics']['insert']>) =>
          parent.call('analytics.insert', ...rows),
      };
  const journal = await openLogRows({ ...options, opened }, store, {
    directory: path.join(folder, 'journal'),
    shares: journals,
  });
  return {
    ...counts,
    ...administration,
    journal,
    // Routes that query logs run in the parent.
    analytics: createNoAnalytics(),
    exports: undefined,
    alerts: undefined,
    jobs: undefined,
  };
}

/** In memory, all counts are the parent's; on a server, this process is one of its clients. */
async function openCounts({
  parent,
  config,
  features,
  clock,
  log,
  metrics,
  opened,
}: WorkerStoresOptions): Promise<
  Pick<
    WorkerStores,
    'counters' | 'limiter' | 'leases' | 'budgets' | 'ledger' | 'cache' | 'vectors' | 'dependencies'
  >
> {
  const { max_value_bytes: maxValueBytes } = config.storage.cache;
  const own = createParentStores({ parent, clock, log, metrics, maxValueBytes });
  opened.push(() => own.leases.close());
  const isInMemory = config.storage.counters.url === 'memory:';
  const counters = createMemoryCounters({ clock, log });
  opened.push(() => counters.close());
  const ledger = config.storage.resources.url === 'none:' ? undefined : own.ledger;
  const budgets = createBudgets({ clock, log, ledger, enforces: features.isOn('usage_limits') });
  if (!isInMemory) {
    await budgets.start();
    opened.push(async () => void (await budgets.close()));
  }
  const shared = await openSharedStores({
    ...{ storage: config.storage, log, clock, metrics, counters, budgets },
    limiter: createMemoryLimiter({ counters, budgets }),
    hasLedger: ledger !== undefined,
    cache: own.cache,
    vectors: own.vectors,
  });
  opened.push(() => shared.close());
  const { cache, vectors, dependencies } = shared;
  const { counters: inUse, limiter, budgets: told } = isInMemory ? own : shared;
  const { leases } = own;
  return { counters: inUse, limiter, leases, budgets: told, ledger, cache, vectors, dependencies };
}

async function openAdministration(
  options: WorkerStoresOptions,
): Promise<Pick<WorkerStores, 'resources' | 'stored' | 'owned' | 'directory' | 'fileRecords' | 'following'>> {
  const { parent, config, data, secrets, log, clock } = options;
  const identity = await readIdentity(data, process.env['WEIR_OWNER_EMAIL']);
  const { defaultOrganisationId: organisationId, defaultWorkspaceId } = identity.directory;
  const place = { defaultOrganisationId: organisationId, defaultWorkspaceId, secrets };
  const fileRecords = new FileRecordsInUse(options, place, clock);
  const { current } = fileRecords;
  if (config.storage.resources.url === 'none:')
    return {
      resources: undefined,
      stored: undefined,
      owned: fileRecordsOnly(current, place),
      directory: directoryWithFile(identity.directory, current),
      fileRecords,
      following: undefined,
    };
  const isShared = !config.storage.resources.url.startsWith('pglite:');
  const kept = isShared ? keepSnapshots({ data, organisationId, secrets, log }) : undefined;
  const followed = await followStore(options, {
    identity,
    store: createParentResources(parent),
    fileRecords,
    isShared,
    // The parent writes them.
    snapshots: kept && {
      read: () => kept.read(),
      write: () => Promise.resolve(),
      confirm: () => Promise.resolve(),
    },
  });
  return { ...followed, fileRecords };
}
