// Composition root: the journals of workers, in the parent's view.
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import type { GatewayConfig } from '../../core/config/schema.ts';
import { UndoStack } from '../../core/lifecycle/undo-stack.ts';
import type { Analytics } from '../../core/ports/analytics.ts';
import type { Journal } from '../../core/ports/journal.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { lockData } from '../../storage/embedded/data-lock.ts';
import { openLogRows } from '../open-stores.ts';

/** Longest work on one folder at a time. */
const shipMs = 60_000;

/** Dependencies of `shipLeftRows`. */
interface ShippingParts {
  readonly config: Pick<GatewayConfig, 'storage'> & Parameters<typeof openLogRows>[0]['config'];
  readonly analytics: Pick<Analytics, 'insert'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Ships the rows in the folder of a worker that has gone; resolves true when all of them are stored. */
export async function shipLeftRows(parts: ShippingParts, folder: string): Promise<boolean> {
  const { config, analytics, clock, log } = parts;
  if (config.storage.analytics.url === 'none:') return false;
  const opened = new UndoStack({
    clock,
    onError: (error) => log.error('A journal could not be closed', { folder, error }),
  });
  try {
    const lock = await lockData(folder, { clock, log, onLost: () => undefined });
    opened.push(() => lock.release());
    const place = { directory: path.join(folder, 'journal'), shares: 1 };
    const journal = await openLogRows({ config, log, clock, opened }, analytics, place);
    return await journal.settle(shipMs);
  } finally {
    await opened.dispose();
  }
}

/** The journal of the parent, which settles when those of the workers have, too. */
export function journalOfAll(own: Journal, workers: Pick<Journal, 'settle'>): Journal {
  return {
    append: (...row) => own.append(...row),
    admit: () => own.admit(),
    flush: () => own.flush(),
    settle: async (timeoutMs) => {
      const settled = await Promise.all([own.settle(timeoutMs), workers.settle(timeoutMs)]);
      return settled.every((one) => one);
    },
    // A worker may have accepted rows a moment ago: a reader that finds nothing settles before it says so.
    state: (table) => ({ ...own.state(table), pending: own.state(table).pending + 1 }),
    shedBy: (table) => own.shedBy(table),
    room: () => own.room(),
    get lastError() {
      return own.lastError;
    },
    close: (deadlineMs) => own.close(deadlineMs),
  };
}

/** Where the workers of a data folder have their own ones. */
export const workersFolder = (data: string): string => path.join(data, 'workers');

/** The data folders of workers that are there, in the order of their numbers. */
export async function workerFolders(data: string): Promise<readonly string[]> {
  const names = await readdir(workersFolder(data)).catch(() => []);
  const numbers = names.filter((name) => /^[1-9]\d*$/.test(name)).map(Number);
  return numbers.sort((a, b) => a - b).map((number) => path.join(workersFolder(data), String(number)));
}
