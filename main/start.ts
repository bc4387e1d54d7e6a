// Composition root: `weir start`. The stores are opened while the rest of the gateway is being loaded: their engines
// take as long to start as the gateway's modules.
import { execFile } from 'node:child_process';
import path from 'node:path';
import { createLog } from '../adapters/telemetry/line-log.ts';
import { createMetrics } from '../adapters/telemetry/prometheus.ts';
import { readFeatures } from '../core/access/features.ts';
import type { Command } from '../core/administration/cli/arguments.ts';
import { loadConfig } from '../core/config/load-config.ts';
import type { ConfigSource } from '../core/config/config-source.ts';
import type { GatewayConfig } from '../core/config/schema.ts';
import { UndoStack } from '../core/lifecycle/undo-stack.ts';
import { keepSystemdInformed } from '../core/lifecycle/process-guards.ts';
import type { Log } from '../core/ports/log.ts';
import { systemClock as clock } from '../core/ports/clock.ts';
import { lockData } from '../storage/embedded/data-lock.ts';
import { checkWritable } from '../storage/embedded/disk-fault.ts';
import { privateFolders } from '../storage/embedded/own-folder.ts';
import { openIdentity } from '../storage/identity/open-identity.ts';
import { configFileOfStart, reportProblems } from './config-file.ts';
import { keepSchema } from './print-schema.ts';
import { openSecrets } from './open-secret-box.ts';
import { isWorker, workerCount, WorkerPool } from './workers/worker-pool.ts';

const env = process.env;

type Start = Extract<Command, { name: 'start' }>;

/** Starts a gateway, or one of its workers; returns the exit code when the start fails, undefined while it serves. */
export async function start(command: Start): Promise<number | undefined> {
  if (isWorker()) return (await import('./workers/start-worker.ts')).startWorker(command);
  const { file, written } = await configFileOfStart(command.config);
  const first = await loadConfig(file, { env });
  if (!first.ok) return reportProblems(first.problems);
  const { config, source } = first;
  keepSystemdInformed(env, (program, args) => execFile(program, args, () => undefined));
  const log = createLog({ ...config.log, write: (line) => process.stderr.write(line), clock });
  const drainDelayMs = command.drainDelayMs ?? config.server.drain_delay_ms ?? (isOnTerminal() ? 0 : 5000);
  const opened = new UndoStack({
    clock,
    timeoutMs: drainDelayMs + config.server.shutdown_timeout_ms + 10_000,
    onError: (error) => log.error('A part could not be closed', { error }),
  });
  try {
    await openAndServe(command, { file, written, config, source, log, opened, drainDelayMs });
    return undefined;
  } catch (error) {
    log.error(error instanceof Error ? error.message : String(error));
    await opened.dispose();
    return 1;
  }
}

interface Beginning {
  readonly file: string;
  /** This start has written it. */
  readonly written: boolean;
  readonly config: GatewayConfig;
  readonly source: ConfigSource;
  readonly log: Log;
  readonly opened: UndoStack;
  readonly drainDelayMs: number;
}

/** A person who stops it with Ctrl-C has no load balancer in front of it, and waits for the end. */
function isOnTerminal(): boolean {
  return process.stdin.isTTY || process.stdout.isTTY;
}

async function openAndServe(command: Start, beginning: Beginning): Promise<void> {
  const { config, log, opened } = beginning;
  const features = readFeatures(env, config.retention);
  const data = path.resolve(command.data);
  await privateFolders.own(data);
  await checkWritable(data);
  const lock = await lockData(data, { clock, log, onLost: endAtOnce(log) });
  opened.push(() => lock.release());
  await privateFolders.closeToOthers(data, log);
  const metrics = createMetrics();
  const identity = await openIdentity(data, {
    presetKey: env['WEIR_ADMIN_KEY'],
    ownerEmail: env['WEIR_OWNER_EMAIL'],
    keyPrefix: config.security.key_prefix,
  });
  const secrets = await openSecrets({ config, data, environment: env, log });
  const count = workerCount(config.server);
  const workers =
    count === 0 ? undefined : new WorkerPool({ ...beginning, count, data, environment: env, clock });
  const { openStores } = await import('./open-stores.ts');
  const [stores, { serve }] = await Promise.all([
    openStores({
      ...{ ...beginning, data, clock, metrics, identity, features, secrets, workers: count },
      afterWrite: workers && (() => workers.refresh()),
    }),
    import('./serve.ts'),
  ]);
  await serve({ ...beginning, command, data, metrics, features, secrets, stores, workers });
  // An editor may want it; no request does.
  keepSchema(data).catch((error: unknown) => log.warn('The schema for editors cannot be written', { error }));
}

/** Another process owns the folder now: this one must not write to it any more, not even to close cleanly. */
function endAtOnce(log: Log): (reason: string) => never {
  return (reason) => {
    log.error(`Ending at once: ${reason}`);
    process.exit(1);
  };
}
