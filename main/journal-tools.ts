// Composition root: dependencies of the commands `weir journal …`.
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { JournalTools } from '../core/administration/cli/journal-command.ts';
import { dataFolderHolder } from '../storage/embedded/data-lock.ts';
import { diskRoom } from '../storage/journal/disk-room.ts';
import { journalFiles } from '../storage/journal/inventory.ts';
import { quarantineSources, replayRows } from '../storage/journal/replay.ts';
import { journalStatus } from '../storage/journal/status-file.ts';
import { workerFolders } from './workers/worker-journals.ts';
import { type ToolParts, useAnalytics } from './command-tools.ts';

/** The tools of `runJournalCommand`. */
export function journalTools(parts: ToolParts): JournalTools {
  const { clock, print, complain } = parts;
  return {
    workerFolders: async (data) =>
      (await workerFolders(data)).filter((folder) => existsSync(path.join(folder, 'journal'))),
    inventory: journalFiles.readInventory,
    told: (data) => journalStatus.read(journalStatus.file(data)),
    verify: journalFiles.verify,
    quarantine: quarantineSources,
    replay: (options) => replayRows({ ...options, clock }),
    holder: async (data) => (await dataFolderHolder(data))?.pid,
    print,
    complain,
    atStore: (data, named, use) =>
      useAnalytics(parts, { config: named, data, needsLock: () => true }, async (analytics, { config }) => {
        const { analytics: store, journal } = config.storage;
        return use({
          analytics: store.url === 'none:' ? undefined : analytics,
          maxBytes:
            journal.max_bytes ?? diskRoom.boundFor(await diskRoom.under(data), 0, journal.min_free_bytes),
        });
      }),
  };
}
