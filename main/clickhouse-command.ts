// Composition root: `weir clickhouse schema`.
import path from 'node:path';
import { loadConfig } from '../core/config/load-config.ts';
import { messageOf } from '../core/errors/gateway-error.ts';
import { serverOptions } from '../storage/clickhouse/open-server.ts';
import { schemaScript } from '../storage/clickhouse/schema-script.ts';
import { reportProblems } from './config-file.ts';

/** Prints the statements of the schema for the configured server; returns the exit code. Connects to nothing. */
export async function printClickHouseSchema(
  file: string,
  { oneServer }: { readonly oneServer: boolean },
): Promise<number> {
  const loaded = await loadConfig(file, { env: process.env });
  if (!loaded.ok) return reportProblems(loaded.problems);
  const { analytics } = loaded.config.storage;
  try {
    if (!analytics.url.startsWith('http'))
      throw new Error(
        `storage.analytics.url is "${analytics.url}", and no ClickHouse server; the embedded engine makes its tables itself`,
      );
    const { database, layout } = await serverOptions(analytics, path.dirname(file));
    console.log(
      await schemaScript({
        ...(database !== undefined && { database }),
        ...(layout && { layout }),
        oneServer,
      }),
    );
    return 0;
  } catch (error) {
    console.error(`${file}: ${messageOf(error)}`);
    return 1;
  }
}
