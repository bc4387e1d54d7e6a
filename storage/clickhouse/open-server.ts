import type { Analytics, AnalyticsServerSettings } from '../../core/ports/analytics.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { type ClickHouseOptions, createAnalytics } from './create-analytics.ts';
import { openWhenReachable } from './waiting-analytics.ts';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';

const certificate = /-----BEGIN (TRUSTED )?CERTIFICATE-----/;

/**
 * Options of `createAnalytics` for a server. `folder` is the folder of the configuration: `ca_file` is relative to it.
 * Throws a sentence with the remedy when the settings contradict each other; a password is never part of it.
 */
export async function serverOptions(
  settings: AnalyticsServerSettings,
  folder: string,
): Promise<Omit<ClickHouseOptions, 'log'>> {
  const url = parse(settings.url);
  const { cluster, ca_file: caFile } = settings;
  if (caFile !== undefined && url.protocol !== 'https:') {
    throw new Error('storage.analytics.ca_file needs a url that begins with https://');
  }
  checkLayout(settings);
  const { insert_quorum: replicas, insert_quorum_parallel: parallel } = settings;
  return {
    url: url.origin,
    username: settings.username ?? 'default',
    password: settings.password ?? '',
    database: url.pathname.slice(1) || 'weir',
    certificateAuthority: caFile === undefined ? undefined : await readAuthority(resolve(folder, caFile)),
    layout: {
      cluster,
      replica: settings.replicated ? { path: settings.replica_path, name: settings.replica_name } : undefined,
      sharded: settings.sharded,
      quorum: replicas === undefined ? undefined : { replicas, parallel },
    },
  };
}

/** Throws a sentence for settings of a cluster that contradict each other. */
function checkLayout(settings: AnalyticsServerSettings): void {
  const { cluster, replicated, sharded, insert_quorum: quorum, insert_quorum_parallel: parallel } = settings;
  if (sharded && cluster === undefined)
    throw new Error(
      'storage.analytics.sharded needs storage.analytics.cluster, the name of the cluster whose shards have the rows',
    );
  if (quorum !== undefined && !replicated)
    throw new Error(
      'storage.analytics.insert_quorum needs storage.analytics.replicated: true; a table without replicas has no quorum',
    );
  if (!parallel && quorum === undefined)
    throw new Error(
      'storage.analytics.insert_quorum_parallel: false needs storage.analytics.insert_quorum: a number of replicas, or auto',
    );
}

function parse(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined) throw new Error('storage.analytics.url is no URL: write https://HOST:8443/DATABASE');
  if (url.username !== '' || url.password !== '') {
    throw new Error(
      'storage.analytics.url holds a user name or a password: put them into storage.analytics.username and storage.analytics.password',
    );
  }
  return url;
}

async function readAuthority(file: string): Promise<Buffer> {
  const bytes = await readFile(file).catch((cause: Error) => {
    throw new Error(`storage.analytics.ca_file cannot be read: ${cause.message}`, { cause });
  });
  if (certificate.test(bytes.toString('latin1'))) return bytes;
  throw new Error(`storage.analytics.ca_file holds no certificate in PEM: ${file}`);
}

/** Settings that apply to every store. */
export type StoreRules = Pick<ClickHouseOptions, 'queryBounds' | 'retention' | 'textIndex'>;

/**
 * Opens the analytics store on the configured server; `folder` is the folder of the configuration. Waits for an
 * unavailable server in the background (`openWhenReachable`). Throws one sentence with the remedy when a setting has to
 * be changed, here or on the server.
 */
export async function openServer(
  settings: AnalyticsServerSettings,
  folder: string,
  { clock, log, ...rules }: { readonly clock: Clock; readonly log: Log } & StoreRules,
): Promise<Analytics> {
  const options = await serverOptions(settings, folder);
  return openWhenReachable({ open: () => createAnalytics({ ...options, ...rules, log }), clock, log });
}
