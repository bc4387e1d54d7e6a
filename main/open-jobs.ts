// Composition root: background jobs and their queue, and the alerts that they send.
import path from 'node:path';
import { presign, type AwsKeys, SigV4Signer } from '../adapters/credentials/aws-credentials.ts';
import type { Features } from '../core/access/features.ts';
import { defineExpiryJobs, defineRefusedAttemptsJob } from '../core/administration/jobs/expiry-jobs.ts';
import { reportJobs } from '../core/administration/jobs/job-registry.ts';
import type { GatewayConfig } from '../core/config/schema.ts';
import type { Dependency } from '../core/http/dependencies.ts';
import type { UndoStack } from '../core/lifecycle/undo-stack.ts';
import type { Analytics } from '../core/ports/analytics.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Directory } from '../core/ports/directory.ts';
import type { Blobs, LogExports } from '../core/ports/exports.ts';
import type { ExportSettings } from '../core/ports/request-row.ts';
import type { Jobs } from '../core/ports/jobs.ts';
import type { Log } from '../core/ports/log.ts';
import type { Metrics } from '../core/ports/metrics.ts';
import type { Resources } from '../core/ports/resources.ts';
import type { SecretBox } from '../core/ports/secret-managers.ts';
import type { UsageLedger } from '../core/ports/budgets.ts';
import { s3Place } from '../storage/blobs/s3-blobs.ts';
import { openLocalJobs } from '../storage/jobs/local-jobs.ts';
import { fileFormats } from '../adapters/file-formats/index.ts';
import type { ExportPlace } from '../core/administration/exports/export-rights.ts';
import { createLogExports } from '../core/administration/exports/log-exports.ts';
import { dataVisibility } from '../plugins/management/shared/data-visibility.ts';
import { createFileBlobs } from '../storage/blobs/file-blobs.ts';
import { createGuardedFetch } from '../adapters/guarded-fetch/guarded-fetch.ts';
import { sendMail } from '../adapters/mail/send-mail.ts';
import {
  createUsageAlerts,
  type StoredUsageAlerts,
  type UsageAlertsPlace,
} from '../core/administration/alerts/usage-alerts.ts';
import { AlertChannels } from '../core/administration/alerts/alert-channels.ts';
import { defineKeyNotices, type KeyNoticesPlace } from '../core/administration/alerts/key-notices.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Options of `openBlobs`. */
interface BlobsOptions {
  readonly settings: ExportSettings;
  /** The data folder, absolute. */
  readonly data: string;
  readonly environment: Environment;
  readonly clock: Pick<Clock, 'now'>;
}

/** The configured store; not contacted yet. Throws one sentence when keys are missing. */
export async function openBlobs({ settings, data, environment, clock }: BlobsOptions): Promise<Blobs> {
  const { url, region } = settings;
  if (!url.startsWith('s3:')) {
    const named = url.slice('file:'.length);
    return createFileBlobs(named === '' ? path.join(data, 'exports') : named);
  }
  const keys = keysOf(settings, environment);
  const signer = new SigV4Signer({ keys, region, service: 's3' });
  // A gateway with files on disk loads no client.
  const { createS3Blobs } = await import('../storage/blobs/s3-blobs.ts');
  return createS3Blobs({
    place: s3Place(settings),
    signer: {
      sign: (request) => signer.sign(request, clock.now()),
      presign: (origin, name, seconds) =>
        presign({ method: 'GET', origin, path: name, seconds }, { keys, region }, clock.now()),
    },
  });
}

function keysOf(settings: ExportSettings, environment: Environment): AwsKeys {
  const { access_key_id: id, secret_access_key: secret, session_token: token } = settings;
  const isOwn = id !== undefined || secret !== undefined;
  const accessKeyId = isOwn ? id : environment['AWS_ACCESS_KEY_ID'];
  const secretAccessKey = isOwn ? secret : environment['AWS_SECRET_ACCESS_KEY'];
  if (accessKeyId === undefined || secretAccessKey === undefined)
    throw new Error(
      'exports.url names a bucket, and its keys are missing: give exports.access_key_id and exports.secret_access_key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment.',
    );
  const sessionToken = (isOwn ? token : environment['AWS_SESSION_TOKEN']) || undefined;
  return { accessKeyId, secretAccessKey, sessionToken };
}

/** Defines the jobs of exports, and creates the interface for routes. */
function openExports(place: Omit<ExportPlace, 'formats' | 'rule'>): LogExports {
  return createLogExports({ ...place, formats: fileFormats, rule: dataVisibility });
}

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

/** Stores used by jobs. */
interface JobsStores {
  readonly resources: Resources | undefined;
  /** Present when `resources` are. */
  readonly ledger: UsageLedger | undefined;
  readonly directory: Directory;
  readonly analytics: Analytics;
}

/** Interfaces of the jobs, what has run, and their checks for `/readyz`. */
interface OpenedJobs {
  /** Undefined when `storage.resources` is `none:`. */
  readonly exports: LogExports | undefined;
  /** Undefined when `storage.resources` is `none:`. */
  readonly alerts: OpenedAlerts | undefined;
  /** Undefined when `storage.resources` is `none:`. */
  readonly jobs: Pick<Jobs, 'runs'> | undefined;
  /** The store of exported files is not among them: requests are served without it. */
  readonly dependencies: readonly Dependency[];
}

/**
 * Opens the configured jobs and starts those that maintain `resources`; without resources there are no jobs. Throws one
 * sentence with the remedy.
 */
export async function openJobs(options: JobsOptions, stores: JobsStores): Promise<OpenedJobs> {
  const { resources, ledger, directory, analytics } = stores;
  if (resources === undefined || ledger === undefined)
    return { exports: undefined, alerts: undefined, jobs: undefined, dependencies: [] };
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
  return { exports, alerts, jobs, dependencies };
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
  // A gateway without a server loads no client.
  const { openBullmqJobs } = await import('../storage/redis/bullmq-jobs.ts');
  const jobs = openBullmqJobs({ url, log, clock, metrics });
  return { jobs, dependencies: [{ name: 'redis (jobs)', check: () => jobs.ping() }] };
}

/** Gateways with shared limits share their jobs. */
function sharedUrl({ storage }: Pick<JobsOptions['config'], 'storage'>): string {
  return storage.counters.url === 'memory:' ? 'file:' : storage.counters.url;
}

/** Parts of the configuration that alerts depend on. */
type AlertsConfig = Pick<GatewayConfig, 'alerts' | 'security'>;

/** Alerts that follow the configuration. */
export interface OpenedAlerts extends StoredUsageAlerts {
  /** Applies the recipients and the allowed webhook hosts of this configuration. */
  use(config: AlertsConfig): void;
}

/** Defines the jobs of alerts, with the settings of `config` until another one is applied. */
function openAlerts({
  config,
  ...place
}: Omit<UsageAlertsPlace, 'settings' | 'fetch' | 'channels'> &
  Pick<KeyNoticesPlace, 'jobs' | 'resources'> & {
    readonly metrics: Metrics;
    readonly config: AlertsConfig;
  }): OpenedAlerts {
  const inUse = ({ alerts, security }: AlertsConfig) => {
    const { log, clock, metrics } = place;
    return {
      alerts,
      fetch: createGuardedFetch({ log, clock, metrics, trustedHosts: security.trusted_hosts }),
    };
  };
  let current = inUse(config);
  const settings = () => current.alerts;
  const channels = new AlertChannels({ ...place, settings, sendMail });
  const alerts = createUsageAlerts({ ...place, settings, fetch: () => current.fetch, channels });
  defineKeyNotices({ ...place, channels, canMail: () => current.alerts.smtp !== undefined });
  return {
    crossed: (crossing) => alerts.crossed(crossing),
    close: () => alerts.close(),
    use: (next) => void (current = inUse(next)),
  };
}
