// Composition root: a worker of `weir start`. It serves requests on the shared port; its stores are those of its
// parent, but for a journal of its own.
import { collectGarbage } from '../../core/base/collect-garbage.ts';
import cluster from 'node:cluster';
import { connect } from 'node:net';
import path from 'node:path';
import { createLog } from '../../adapters/telemetry/line-log.ts';
import { createMetrics } from '../../adapters/telemetry/prometheus.ts';
import { readFeatures } from '../../core/access/features.ts';
import type { Command } from '../../core/administration/cli/arguments.ts';
import { loadConfig } from '../../core/config/load-config.ts';
import { readBytes } from '../../core/config/read-file.ts';
import { formatProblem, type Problem } from '../../core/config/problem.ts';
import { startServer } from '../../core/http/server.ts';
import { RoutingState } from '../../core/routing/plan/routing-state.ts';
import { installProcessGuards, restartExitCode, startWatchdog } from '../../core/lifecycle/process-guards.ts';
import { UndoStack } from '../../core/lifecycle/undo-stack.ts';
import { systemClock as clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { lockData } from '../../storage/embedded/data-lock.ts';
import { ownFolder } from '../../storage/embedded/own-folder.ts';
import { Channel, type Offered } from '../../storage/parent/channel.ts';
import { tellLatencies } from '../../storage/parent/latencies.ts';
import { openKeys } from '../../storage/secrets/key-file.ts';
import { createSecretBox } from '../../storage/secrets/secret-box.ts';
import { assembleGateway } from '../assemble.ts';
import { configFile } from '../config-file.ts';
import { keyVariables } from '../open-secret-box.ts';
import { askParent } from './control-plane.ts';
import {
  type CallsOfParent,
  type CallsOfWorker,
  type ConfigTexts,
  slotVariable,
  socketVariable,
} from './worker-calls.ts';
import { openWorkerStores } from './worker-stores.ts';

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
    await ownFolder(folder);
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
    collectGarbage();
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
