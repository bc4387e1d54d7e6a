// A part of the composition root: what is done beside requests, and where it waits.
import path from 'node:path';
import type { Features } from '../core/access/features.ts';
import { defineExpiryJobs, defineRefusedAttemptsJob } from '../core/administration/jobs/expiry-jobs.ts';
import { reportJobs } from '../core/administration/jobs/job-registry.ts';
import type { GatewayConfig } from '../core/config/schema.ts';
import type { Dependency } from '../core/http/dependencies.ts';
import type { UndoStack } from '../core/lifecycle/undo-stack.ts';
import type { Analytics } from '../core/ports/analytics.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Directory } from '../core/ports/directory.ts';
import type { LogExports } from '../core/ports/exports.ts';
import type { Jobs } from '../core/ports/jobs.ts';
import type { Log } from '../core/ports/log.ts';
import type { Metrics } from '../core/ports/metrics.ts';
import type { Resources } from '../core/ports/resources.ts';
import type { SecretBox } from '../core/ports/secret-managers.ts';
import type { UsageLedger } from '../core/ports/budgets.ts';
import { openLocalJobs } from '../storage/jobs/local-jobs.ts';
import { openAlerts, type OpenedAlerts } from './open-alerts.ts';
import { openBlobs } from './open-blobs.ts';
import { openExports } from './open-exports.ts';

/** Options of `openJobs`. */
interface JobsOptions {
  readonly config: Pick<GatewayConfig, 'storage' | 'exports' | 'security' | 'alerts'>;
  /** The data folder, absolute. */
  readonly data: string;
  readonly secrets: SecretBox;
  readonly features: Features;
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly opened: UndoStack;
}

/** What jobs work on. */
interface JobsStores {
  readonly resources: Resources | undefined;
  /** There when `resources` are. */
  readonly ledger: UsageLedger | undefined;
  readonly directory: Directory;
  readonly analytics: Analytics;
}

/** What jobs do for others, and what `/readyz` asks of them. */
interface OpenedJobs {
  /** Undefined when `storage.resources` is `none:`. */
  readonly exports: LogExports | undefined;
  /** Undefined when `storage.resources` is `none:`. */
  readonly alerts: OpenedAlerts | undefined;
  /** The store of exported files is none of them: without it requests are served all the same. */
  readonly dependencies: readonly Dependency[];
}

/**
 * Opens the jobs that the configuration names and starts those that look after `resources`; without resources there is
 * nothing to do. Throws one sentence with the remedy.
 */
export async function openJobs(options: JobsOptions, stores: JobsStores): Promise<OpenedJobs> {
  const { resources, ledger, directory, analytics } = stores;
  if (resources === undefined || ledger === undefined)
    return { exports: undefined, alerts: undefined, dependencies: [] };
  const { config, data, secrets, features, log, clock, metrics, opened } = options;
  const settings = config.exports;
  const blobs = await openBlobs({ settings, data, environment: process.env, clock });
  opened.push(() => blobs.close());
  const { jobs, dependencies } = await openQueue(options);
  opened.push(() => jobs.close());
  defineExpiryJobs(jobs, { resources, clock, features });
  defineRefusedAttemptsJob(jobs, { resources, clock, days: config.security.refused_attempts_days });
  const exports = openExports({
    resources,
    directory,
    analytics,
    blobs,
    jobs,
    secrets,
    features,
    settings,
    clock,
    log,
  });
  const alerts = openAlerts({ jobs, resources, ledger, config, clock, log, metrics });
  opened.push(() => alerts.close());
  reportJobs(metrics, jobs);
  await jobs.start();
  return { exports, alerts, dependencies };
}

async function openQueue({
  config,
  data,
  log,
  clock,
  metrics,
}: JobsOptions): Promise<{ readonly jobs: Jobs; readonly dependencies: readonly Dependency[] }> {
  const { url = sharedUrl(config) } = config.storage.jobs;
  if (url === 'file:') {
    const jobs = await openLocalJobs({ directory: path.join(data, 'jobs'), log, clock, metrics });
    return { jobs, dependencies: [] };
  }
  // A gateway that needs no server loads no client.
  const { openBullmqJobs } = await import('../storage/redis/bullmq-jobs.ts');
  const jobs = openBullmqJobs({ url, log, clock, metrics });
  return { jobs, dependencies: [{ name: 'redis (jobs)', check: () => jobs.ping() }] };
}

/** Gateways that share their limits share their jobs. */
function sharedUrl({ storage }: Pick<JobsOptions['config'], 'storage'>): string {
  return storage.counters.url === 'memory:' ? 'file:' : storage.counters.url;
}
