/** A real analytics store for the tests of a file: the embedded engine on a folder of its own. */
import { after } from 'node:test';
import type { Analytics } from '../../core/ports/analytics.ts';
import { createAnalytics } from '../../storage/clickhouse/create-analytics.ts';
import { chdbMissing, recordingLog, startTestChdb } from '../../storage/embedded/chdb-fixture.ts';
import { testAnalytics } from './plugin-kit.ts';

/**
 * Opened before the tests of a file, and closed behind the last of them; one that answers nothing where the engine
 * cannot run (`chdbMissing`). An object of functions, as overrides are given to gateways.
 */
export async function openAnalyticsOfFile(): Promise<Analytics> {
  if (chdbMissing !== false) return testAnalytics();
  const { engine, close } = await startTestChdb();
  const { url, username, password } = engine;
  const analytics = await createAnalytics({ url, username, password, log: recordingLog() });
  after(async () => {
    await analytics.close();
    await close();
  });
  const methods = Object.keys(testAnalytics()).map((name) => {
    const method = analytics[name as keyof Analytics] as (...args: never[]) => unknown;
    return [name, method.bind(analytics)];
  });
  const functions = Object.fromEntries(methods) as Partial<Analytics>;
  return testAnalytics({ ...functions, close: () => Promise.resolve() });
}
