// Composition root: the gateway of `weir start`: listening, startup output and termination by signals.
import path from 'node:path';
import { url as inspectorUrl } from 'node:inspector';
import type { Command } from '../core/administration/cli/arguments.ts';
import { welcome } from '../core/administration/cli/welcome.ts';
import type { GatewayConfig } from '../core/config/schema.ts';
import { collectAfterStart } from '../core/base/collect-garbage.ts';
import { watchFiles } from '../core/config/watch.ts';
import { startServer } from '../core/http/server.ts';
import { hasPlugin, leftOutPlugins } from '../core/http/route-table.ts';
import { installProcessGuards, restartExitCode, startWatchdog } from '../core/lifecycle/process-guards.ts';
import type { UndoStack } from '../core/lifecycle/undo-stack.ts';
import type { Log } from '../core/ports/log.ts';
import type { ProcessMetrics } from '../adapters/telemetry/prometheus.ts';
import { systemClock as clock } from '../core/ports/clock.ts';
import type { SecretBox } from '../core/ports/secret-managers.ts';
import type { Features } from '../core/access/features.ts';
import { RoutingState, SharedLatencies } from '../core/routing/plan/routing-state.ts';
import { LatencyExchange, tellLatencies } from '../storage/parent/latencies.ts';
import type { Stores } from './open-stores.ts';
import { journalOfAll, shipLeftRows } from './workers/worker-journals.ts';
import type { WorkerPool } from './workers/worker-pool.ts';
import { reportProblems } from './config-file.ts';
import { assembleGateway } from './assemble.ts';

const env = process.env;

/** Resources for serving; all of them are open and added to `opened`. */
interface Serving {
  readonly command: Extract<Command, { name: 'start' }>;
  /** The configuration's file and content. */
  readonly file: string;
  /** This start has written the file. */
  readonly written: boolean;
  readonly config: GatewayConfig;
  /** The data folder, absolute. */
  readonly data: string;
  readonly log: Log;
  readonly metrics: ProcessMetrics;
  readonly features: Features;
  /** Time of continued listening after a termination signal, milliseconds. */
  readonly drainDelayMs: number;
  /** The box of secrets at rest. */
  readonly secrets: SecretBox;
  readonly stores: Stores;
  /** Undefined when this process serves alone. */
  readonly workers: WorkerPool | undefined;
  readonly opened: UndoStack;
}

/** Builds the first generation, listens and announces it. Throws one sentence with the remedy. */
export async function serve(serving: Serving): Promise<void> {
  const { command, file, config, data, log, metrics, features, opened, workers } = serving;
  const { identity, ...stores } = serving.stores;
  const routingState = new RoutingState(clock);
  if (workers !== undefined) {
    const { analytics } = stores;
    const latencies = new LatencyExchange(new SharedLatencies(clock), clock);
    const own = latencies.join((known) => Promise.resolve(routingState.learn(known, false)));
    tellLatencies(routingState, clock, (reports, onAnswer) => onAnswer(own.report(reports)));
    opened.push(() => workers.close());
    await workers.open({ ...stores, latencies, resources: stores.stored }, (folder) =>
      shipLeftRows({ config, analytics, clock, log }, folder),
    );
  }
  const { gateway, reloader, attribute, start } = assembleGateway({
    ...serving,
    routingState,
    stores: workers === undefined ? stores : { ...stores, journal: journalOfAll(stores.journal, workers) },
    clock,
    environment: env,
    ...(workers && {
      load: workers.load,
      followers: workers,
      canaryFollowers: workers,
      reports: {
        renderMetrics: async () => metrics.render(await workers.metrics()),
        status: async () => ({ workers: await workers.states() }),
      },
    }),
    watch: (files, onChange, since) => watchFiles(files, onChange, { clock, log, since }),
  });
  const { watchdog_ms: limitMs } = config.server;
  // A debugger stops the loop on purpose. Started before the first plugin is loaded: its top level may loop.
  if (limitMs > 0 && inspectorUrl() === undefined)
    startWatchdog({ limitMs, log, metrics, attribute, exit: process.exit.bind(process) });
  const problems = await start();
  if (problems.length > 0) {
    reportProblems(problems);
    throw new Error('The configuration is not valid; nothing was started.');
  }
  const { host = config.server.host, port = config.server.port } = command;
  const signals = handleSignals({
    log,
    opened,
    metrics,
    attribute,
    reload: () => void reloader.reload('SIGHUP'),
  });
  const { hurry, isFatal } = signals;
  const drainDelay = (): number => (isFatal() ? 0 : serving.drainDelayMs);
  collectAfterStart();
  const place = workers === undefined ? port : { socket: workers.controlPlane };
  const server = await startServer(gateway, { ...config.server, host }, place);
  opened.push(async () => {
    // The workers have drained before.
    const drainDelayMs = workers === undefined ? drainDelay() : 0;
    if (drainDelayMs > 0)
      log.info('New requests should go elsewhere; it still listens', { drain_delay_ms: drainDelayMs });
    const { cut } = await server.close(config.server.shutdown_timeout_ms, { drainDelayMs, hurry });
    if (cut > 0) log.warn('Requests were cut at the shutdown deadline', { cut });
  });
  if (workers !== undefined) {
    opened.push(async () => {
      gateway.announceDrain();
      await workers.stop({
        drainDelayMs: drainDelay(),
        deadlineMs: config.server.shutdown_timeout_ms,
        hurry,
      });
    });
  }
  const served = workers === undefined ? server.port : await workers.start();
  const text = welcome({
    url: `http://${host.includes(':') ? `[${host}]` : host}:${served}`,
    config: path.relative('', file) || file,
    isNewConfig: serving.written,
    data: path.relative('', data) || data,
    analytics: analyticsPlace(config, path.relative('', data) || data),
    basePath: config.server.base_path,
    headerPrefix: config.server.header_prefix,
    newOwnerKey: identity.newOwnerKey,
    off: features.off,
    leftOut: leftOutPlugins(reloader.current.compiled),
    hasConsole: hasPlugin(reloader.current.compiled, 'console'),
  });
  // A key whose line was not written, or not reached because the start failed, is replaced by the next start.
  process.stdout.write(`${text}\n`, (error) => {
    if (error) return;
    identity
      .keyShown()
      .catch((reason: unknown) => log.error('The data folder cannot be written to', { error: reason }));
  });
}

/** Location of log rows, in words. */
function analyticsPlace({ storage }: GatewayConfig, data: string): string {
  const { url } = storage.analytics;
  if (url === 'none:') return 'kept in the journal (storage.analytics.url is "none:")';
  if (url.startsWith('http')) return `ClickHouse at ${url}`;
  return `embedded ClickHouse in ${path.join(data, 'analytics')}`;
}

interface SignalParts {
  readonly log: Log;
  readonly opened: UndoStack;
  readonly metrics: ProcessMetrics;
  attribute(thrown: unknown): string | undefined;
  reload(): void;
}

/** State of the termination signals. */
interface Signals {
  /** Aborted by a second signal: no further waiting. */
  readonly hurry: AbortSignal;
  /** True when the process ends because it cannot continue safely. */
  isFatal(): boolean;
}

/** One Ctrl-C arrives several times: from the terminal, from npm and from the process that npm starts. */
const sameSignalMs = 300;
/** Upper bound of closing after a second signal, milliseconds. */
const hurriedCloseMs = 2000;

function handleSignals({ log, opened, metrics, attribute, reload }: SignalParts): Signals {
  const hurry = new AbortController();
  let stoppingSince: number | undefined;
  let fatal = false;
  const stop = (reason: string, code: number): void => {
    if (stoppingSince !== undefined) return;
    stoppingSince = clock.monotonic();
    log.info(`Shutting down: ${reason}`);
    void opened.dispose().then(() => process.exit(code));
  };
  const stopBySignal = (signal: NodeJS.Signals): void => {
    if (stoppingSince === undefined) return stop(signal, Number(process.exitCode ?? 0));
    if (hurry.signal.aborted || clock.monotonic() - stoppingSince < sameSignalMs) return;
    log.warn(`Shutting down at once: a second signal (${signal})`);
    hurry.abort();
    setTimeout(() => process.exit(1), hurriedCloseMs);
  };
  process.on('SIGTERM', stopBySignal);
  process.on('SIGINT', stopBySignal);
  process.on('SIGHUP', reload);
  installProcessGuards({
    process,
    log,
    metrics,
    attribute,
    onFatal() {
      fatal = true;
      stop('an uncaught exception', restartExitCode);
    },
  });
  return { hurry: hurry.signal, isFatal: () => fatal };
}
