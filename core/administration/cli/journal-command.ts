import path from 'node:path';
import type { Analytics } from '../../ports/analytics.ts';
import type {
  FindStored,
  JournalInventory,
  JournalStatus,
  JournalVerdict,
  ReplayReport,
  ReplaySource,
} from '../../ports/journal-inspection.ts';
import type { JournalCommand } from './journal-arguments.ts';
import {
  inventoryJson,
  inventoryText,
  replayJson,
  replayText,
  verdictJson,
  verdictText,
} from './journal-report.ts';

/** What a replay works with once the data folder is ours. */
export interface ReplayPlace {
  /** Undefined when the configuration names no store. */
  readonly analytics: Pick<Analytics, 'storedIds'> | undefined;
  readonly maxBytes: number;
}

/** What `runJournalCommand` needs from outside. Everything rejects with an error whose message is for the operator. */
export interface JournalTools {
  inventory(directory: string): Promise<JournalInventory>;
  /** What the gateway of a data folder last told of its journal; undefined when it told nothing. */
  told(data: string): Promise<JournalStatus | undefined>;
  verify(directory: string): Promise<JournalVerdict>;
  quarantine(directory: string): Promise<readonly ReplaySource[]>;
  replay(options: {
    readonly directory: string;
    readonly sources: readonly ReplaySource[];
    readonly stored: FindStored;
    readonly maxBytes: number;
  }): Promise<ReplayReport>;
  /** The process that holds a data folder, or undefined. */
  holder(data: string): Promise<number | undefined>;
  /** Takes the data folder, opens the store, and gives both back when `use` has settled. */
  atStore(
    data: string,
    config: string | undefined,
    use: (place: ReplayPlace) => Promise<number>,
  ): Promise<number>;
  print(text: string): void;
  complain(text: string): void;
}

/** Runs `weir journal …` and resolves to its exit code: 0, or 1 when something is wrong or bad rows were found. */
export async function runJournalCommand(command: JournalCommand, tools: JournalTools): Promise<number> {
  const data = path.resolve(command.data);
  const directory = path.join(data, 'journal');
  try {
    if (command.action === 'replay') return await replay(command, data, tools);
    if (command.action === 'status') {
      const found = await tools.inventory(directory);
      const [holder, told] = [await tools.holder(data), await tools.told(data)];
      tools.print((command.json ? inventoryJson : inventoryText)(found, holder, told));
      return 0;
    }
    const verdict = await tools.verify(directory);
    tools.print(command.json ? verdictJson(verdict) : verdictText(verdict, await tools.holder(data)));
    return verdict.faultCount === 0 ? 0 : 1;
  } catch (error) {
    tools.complain(error instanceof Error ? error.message : String(error));
    return 1;
  }
}

async function replay(
  command: Extract<JournalCommand, { action: 'replay' }>,
  data: string,
  tools: JournalTools,
): Promise<number> {
  const directory = path.join(data, 'journal');
  // Also tells a wrong folder before anything is made there.
  await tools.inventory(directory);
  return tools.atStore(data, command.config, async ({ analytics, maxBytes }) => {
    if (analytics === undefined) {
      throw new Error(
        'There is no store to compare rows with: storage.analytics.url is "none:". Name one there, then replay.',
      );
    }
    const sources = command.quarantine
      ? await tools.quarantine(directory)
      : command.files.map((file) => ({ path: path.resolve(file), table: command.table, remove: false }));
    const stored: FindStored = (table, ids, window) => analytics.storedIds(table, ids, window);
    const report = await tools.replay({ directory, sources, stored, maxBytes });
    tools.print((command.json ? replayJson : replayText)(report));
    return report.faultCount === 0 ? 0 : 1;
  });
}
