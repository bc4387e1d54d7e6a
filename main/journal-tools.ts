// A part of the composition root: what the commands `weir journal …` work with.
import type { JournalTools } from '../core/administration/cli/journal-command.ts';
import type { LoadResult } from '../core/config/load-config.ts';
import { formatProblem } from '../core/config/problem.ts';
import { UndoStack } from '../core/lifecycle/undo-stack.ts';
import type { Clock } from '../core/ports/clock.ts';
import { createLog } from '../adapters/telemetry/line-log.ts';
import { openAnalytics } from './open-analytics.ts';
import { dataFolderHolder, lockData } from '../storage/embedded/data-lock.ts';
import { boundOn, diskUnder } from '../storage/journal/disk-room.ts';
import { readInventory, verifyJournal } from '../storage/journal/inventory.ts';
import { quarantineSources, replayRows } from '../storage/journal/replay.ts';
import { readStatus, statusFile } from '../storage/journal/status-file.ts';

/** The tools of `runJournalCommand`; `configFile` gives the file that is named, or the usual one. */
export function journalTools(parts: {
  readonly configFile: (named: string | undefined) => string;
  readonly load: (file: string) => Promise<LoadResult>;
  readonly clock: Clock;
  readonly print: (text: string) => void;
  readonly complain: (text: string) => void;
}): JournalTools {
  const { configFile, load, clock, print, complain } = parts;
  return {
    inventory: readInventory,
    told: (data) => readStatus(statusFile(data)),
    verify: verifyJournal,
    quarantine: quarantineSources,
    replay: (options) => replayRows({ ...options, clock }),
    holder: async (data) => (await dataFolderHolder(data))?.pid,
    print,
    complain,
    async atStore(data, named, use) {
      const file = configFile(named);
      const loaded = await load(file);
      if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join('\n'));
      const { config } = loaded;
      const write = (line: string): void => void process.stderr.write(line);
      const log = createLog({ level: 'warn', format: 'text', write, clock });
      const opened = new UndoStack({
        clock,
        timeoutMs: 20_000,
        onError: (error) => log.error('A part could not be closed', { error }),
      });
      try {
        const lock = await lockData(data, { clock });
        opened.push(() => lock.release());
        const analytics = await openAnalytics({ config, file, data, log, clock, opened });
        const { analytics: store, journal } = config.storage;
        return await use({
          analytics: store.url === 'none:' ? undefined : analytics,
          maxBytes: journal.max_bytes ?? boundOn(await diskUnder(data), 0, journal.min_free_bytes),
        });
      } finally {
        await opened.dispose();
      }
    },
  };
}
