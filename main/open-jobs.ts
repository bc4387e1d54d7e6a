// A part of the composition root: what is done beside requests, and where it waits.
import path from 'node:path';
import type { Features } from '../core/access/features.ts';
import { defineExpiryJobs } from '../core/administration/expiry-jobs.ts';
import { reportJobs } from '../core/administration/job-metrics.ts';
import type { GatewayConfig } from '../core/config/schema.ts';
import type { Dependency } from '../core/http/operations.ts';
import type { UndoStack } from '../core/lifecycle/undo-stack.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Jobs } from '../core/ports/jobs.ts';
import type { Log } from '../core/ports/log.ts';
import type { Metrics } from '../core/ports/metrics.ts';
import type { Resources } from '../core/ports/resources.ts';
import { openLocalJobs } from '../storage/jobs/local-jobs.ts';

/** What `openJobs` needs. */
export interface JobsOptions {
  readonly config: Pick<GatewayConfig, 'storage'>;
  /** The data folder, absolute. */
  readonly data: string;
  readonly features: Features;
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly opened: UndoStack;
}

/**
 * Opens the jobs that the configuration names and starts those that look after `resources`; without resources there is
 * nothing to do. Returns what `/readyz` asks. Throws one sentence with the remedy.
 */
export async function openJobs(
  options: JobsOptions,
  resources: Resources | undefined,
): Promise<readonly Dependency[]> {
  if (resources === undefined) return [];
  const { config, data, features, log, clock, metrics, opened } = options;
  const { url = sharedUrl(config) } = config.storage.jobs;
  const dependencies: Dependency[] = [];
  let jobs: Jobs;
  if (url === 'file:') {
    jobs = await openLocalJobs({ directory: path.join(data, 'jobs'), log, clock, metrics });
  } else {
    // Who needs no server loads no client.
    const { openBullmqJobs } = await import('../storage/redis/bullmq-jobs.ts');
    const shared = openBullmqJobs({ url, log, clock, metrics });
    dependencies.push({ name: 'redis (jobs)', check: () => shared.ping() });
    jobs = shared;
  }
  opened.push(() => jobs.close());
  defineExpiryJobs(jobs, { resources, clock, features });
  reportJobs(metrics, jobs);
  await jobs.start();
  return dependencies;
}

/** Gateways that share their limits share their jobs. */
function sharedUrl({ storage }: JobsOptions['config']): string {
  return storage.counters.url === 'memory:' ? 'file:' : storage.counters.url;
}
