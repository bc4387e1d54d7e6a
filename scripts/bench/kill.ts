import { setTimeout as pause } from 'node:timers/promises';
import { journalIds, storedCopies, untilShipped } from '../../tests/kit/stored-copies.ts';
import { load } from '../../main/bench-command/load.ts';
import { removeFolder, startUpstream, startWeir, type WeirSubject } from './subject.ts';
import { requestBytes } from './workload.ts';

interface KillFigures {
  rounds: number;
  /** Rows that were on disk in the journal when the process was killed, over all rounds. */
  rows_flushed: number;
  missing: number;
  doubled: number;
}

/** Kills the gateway under load, restarts it on the same folder, and looks for every row that the journal had flushed. */
export async function measureKill(quick: boolean): Promise<KillFigures> {
  const rounds = quick ? 2 : 5;
  const upstream = await startUpstream();
  const figures: KillFigures = { rounds, rows_flushed: 0, missing: 0, doubled: 0 };
  let folder: string | undefined;
  try {
    for (let round = 0; round < rounds; round++) {
      const weir: WeirSubject = await startWeir({
        upstreamPort: upstream.port,
        ...(folder === undefined ? {} : { folder }),
      });
      folder = weir.folder;
      const traffic = load(weir.port, requestBytes(weir.port, false), 20_000, 16);
      await pause(700 + round * 333);
      weir.child.kill('SIGKILL');
      await traffic;
      const flushed = await journalIds({ data: weir.dataFolder }, 'requests');
      figures.rows_flushed += flushed.length;
      const again = await startWeir({ upstreamPort: upstream.port, folder });
      const { missing, doubled } = await lookFor(again, flushed);
      figures.missing += missing;
      figures.doubled += doubled;
    }
    return figures;
  } finally {
    await upstream.stop();
    if (folder !== undefined) await removeFolder(folder);
  }
}

/** Waits until the journal has shipped everything, stops the gateway, and asks the store itself. */
async function lookFor(
  weir: WeirSubject,
  ids: readonly string[],
): Promise<{ missing: number; doubled: number }> {
  const home = { data: weir.dataFolder };
  await untilShipped(home);
  await weir.stop();
  const { requests: copies } = await storedCopies(home);
  return {
    missing: ids.filter((id) => !copies.has(id)).length,
    doubled: [...copies.values()].filter((count) => count > 1).length,
  };
}
