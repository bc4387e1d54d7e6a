import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Analytics } from '../../core/ports/analytics.ts';
import { createAnalytics } from '../../storage/clickhouse/create-analytics.ts';
import { recordingLog, startTestChdb, temporaryFolder } from '../../storage/embedded/chdb-fixture.ts';

/** The real engine, which reads the segments of a journal in `directory` itself. Both go when the test ends. */
export async function openJournalStore(
  t: TestContext,
): Promise<{ readonly analytics: Analytics; readonly directory: string }> {
  const home = await temporaryFolder();
  const directory = join(home.path, 'journal');
  const { engine, close } = await startTestChdb([directory]);
  const { url, username, password } = engine;
  const analytics = await createAnalytics({ url, username, password, isEmbedded: true, log: recordingLog() });
  t.after(async () => {
    await analytics.close();
    await close();
    await home.remove();
  });
  return { analytics, directory };
}
