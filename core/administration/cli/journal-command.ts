import path from 'node:path';
import type { Analytics } from '../../ports/analytics.ts';
import type {
  FindStored,
  JournalInventory,
  JournalStatus,
  JournalVerdict,
  ReplayReport,
  ReplaySource,
  RowFault,
} from '../../ports/journal.ts';
import type { JournalCommand } from './command-arguments.ts';
import { alignColumns } from './in-columns.ts';
import { messageOf } from '../../errors/gateway-error.ts';

/** Store and bounds of a replay, once the data folder is locked. */
interface ReplayPlace {
  /** Undefined when the configuration names no store. */
  readonly analytics: Pick<Analytics, 'storedIds'> | undefined;
  readonly maxBytes: number;
}

/** Outside dependencies of `runJournalCommand`. Everything rejects with an error whose message is for the operator. */
export interface JournalTools {
  /** Data folders of the workers of a gateway, each with a journal of its own; none for a gateway in one process. */
  workerFolders(data: string): Promise<readonly string[]>;
  inventory(directory: string): Promise<JournalInventory>;
  /** Last journal status that the gateway of a data folder reported; undefined when it reported none. */
  told(data: string): Promise<JournalStatus | undefined>;
  verify(directory: string): Promise<JournalVerdict>;
  quarantine(directory: string): Promise<readonly ReplaySource[]>;
  replay(options: {
    readonly directory: string;
    readonly sources: readonly ReplaySource[];
    readonly stored: FindStored;
    readonly maxBytes: number;
  }): Promise<ReplayReport>;
  /** Process that holds a data folder, or undefined. */
  holder(data: string): Promise<number | undefined>;
  /** Locks the data folder, opens the store, and releases both when `use` has settled. */
  atStore(
    data: string,
    config: string | undefined,
    use: (place: ReplayPlace) => Promise<number>,
  ): Promise<number>;
  print(text: string): void;
  complain(text: string): void;
}

/** Runs `weir journal …`. Resolves to its exit code: 0, or 1 when something is wrong or bad rows were found. */
export async function runJournalCommand(command: JournalCommand, tools: JournalTools): Promise<number> {
  const data = path.resolve(command.data);
  try {
    if (command.action === 'replay') return await replay(command, data, tools);
    const folders = await foldersOf(data, tools);
    if (command.action === 'status') {
      const looks: Look[] = [];
      for (const folder of folders) looks.push(await look(folder, tools));
      tools.print(command.json ? looksJson(looks) : looks.map(inventoryText).join('\n\n'));
      return 0;
    }
    const verdicts: JournalVerdict[] = [];
    for (const folder of folders) verdicts.push(await tools.verify(journalOf(folder)));
    const holder = await tools.holder(data);
    tools.print(
      command.json
        ? verdictsJson(verdicts)
        : verdicts.map((verdict) => verdictText(verdict, holder)).join('\n'),
    );
    return verdicts.every(({ faultCount }) => faultCount === 0) ? 0 : 1;
  } catch (error) {
    tools.complain(messageOf(error));
    return 1;
  }
}

const journalOf = (data: string): string => path.join(data, 'journal');

/** The data folder of a gateway, and those of its workers. */
async function foldersOf(data: string, tools: JournalTools): Promise<readonly string[]> {
  return [data, ...(await tools.workerFolders(data))];
}

/** What there is to know of one journal. */
interface Look {
  readonly found: JournalInventory;
  /** Process of the running gateway, or of its worker. */
  readonly holder: number | undefined;
  /** Last report of the gateway or of its predecessor. */
  readonly told: JournalStatus | undefined;
}

async function look(data: string, tools: JournalTools): Promise<Look> {
  const found = await tools.inventory(journalOf(data));
  return { found, holder: await tools.holder(data), told: await tools.told(data) };
}

async function replay(
  command: Extract<JournalCommand, { action: 'replay' }>,
  data: string,
  tools: JournalTools,
): Promise<number> {
  const directory = journalOf(data);
  // Also rejects a wrong folder before anything is created there.
  await tools.inventory(directory);
  return tools.atStore(data, command.config, async ({ analytics, maxBytes }) => {
    if (analytics === undefined) {
      throw new Error(
        'There is no store to compare rows with: storage.analytics.url is "none:". Name one there, then replay.',
      );
    }
    const sources = command.quarantine
      ? await quarantined(data, tools)
      : command.files.map((file) => ({ path: path.resolve(file), table: command.table, remove: false }));
    const stored: FindStored = (table, ids, window) => analytics.storedIds(table, ids, window);
    const report = await tools.replay({ directory, sources, stored, maxBytes });
    tools.print((command.json ? replayJson : replayText)(report));
    return report.faultCount === 0 ? 0 : 1;
  });
}

/** Rows in quarantine, also those of workers, whose journals are shipped by the parent once they have gone. */
async function quarantined(data: string, tools: JournalTools): Promise<readonly ReplaySource[]> {
  const sources: ReplaySource[] = [];
  for (const folder of await foldersOf(data, tools))
    sources.push(...(await tools.quarantine(journalOf(folder))));
  return sources;
}

/** Output of `weir journal status`. */
function inventoryText({ found: { directory, tables }, holder, told }: Look): string {
  const titles = ['', 'segments', 'rows', 'bytes', 'oldest row', 'in quarantine'];
  const rows = Object.entries(tables).map(([table, { segments, rows, bytes, oldest, quarantine }]) => [
    table,
    ...[segments, rows, bytes].map(String),
    oldest ?? '-',
    quarantine.files === 0 ? '-' : `${quarantine.files} files, ${quarantine.bytes} bytes`,
  ]);
  const kept = Object.values(tables).some(({ quarantine }) => quarantine.files > 0);
  return [
    `Journal   ${directory}`,
    `Gateway   ${holder === undefined ? 'not running' : `process ${holder}`}`,
    '',
    ...alignColumns([titles, ...rows]),
    ...(told === undefined ? [] : statusLines(told)),
    ...(kept
      ? [
          '',
          `The reasons are in ${directory}/quarantine; after you have removed their causes: weir journal replay --quarantine`,
        ]
      : []),
  ].join('\n');
}

function statusLines({
  at,
  pid,
  policy,
  maxBytes,
  bytes,
  waiting,
  waited,
  refused,
  lastError,
  tables,
}: JournalStatus): string[] {
  const titles = ['', 'accepted', 'stored', 'pending', 'shed', 'shed for'];
  const rows = Object.entries(tables).map(([table, { accepted, stored, pending, shed, shedBy }]) => [
    table,
    ...[accepted, stored, pending, shed].map(String),
    Object.entries(shedBy)
      .map(([reason, count]) => `${reason} ${count}`)
      .join(', ') || '-',
  ]);
  const share = maxBytes > 0 ? Math.round((bytes / maxBytes) * 100) : 0;
  return [
    '',
    `As process ${pid} told it at ${at}, since it began:`,
    '',
    `Bound     ${bytes} of ${maxBytes} bytes (${share} %)`,
    policy === 'block'
      ? `Policy    block: ${waiting} requests wait, ${waited} waited and went on, ${refused} were refused`
      : 'Policy    shed',
    `Shipping  ${lastError ?? 'works'}`,
    '',
    ...alignColumns([titles, ...rows]),
  ];
}

/** The same for programs: the journal of the gateway, and those of its workers. */
function looksJson([own, ...workers]: readonly Look[]): string {
  const content = { ...inventoryOf(own as Look), workers: workers.map(inventoryOf) };
  return JSON.stringify(content, null, 2);
}

function inventoryOf({ found: { directory, tables }, holder, told }: Look) {
  const entries = Object.entries(tables).map(([table, { oldest = null, ...counts }]) => [
    table,
    { ...counts, oldest },
  ]);
  return {
    directory,
    gateway_pid: holder ?? null,
    tables: Object.fromEntries(entries) as unknown,
    told: told === undefined ? null : statusJson(told),
  };
}

function statusJson({ maxBytes, lastError, tables, ...told }: JournalStatus): unknown {
  const entries = Object.entries(tables).map(([table, { shedBy, ...counts }]) => [
    table,
    { ...counts, shed_by: shedBy },
  ]);
  return {
    ...told,
    max_bytes: maxBytes,
    last_error: lastError,
    tables: Object.fromEntries(entries) as unknown,
  };
}

/** Output of `weir journal verify`. `holder` is the process of the running gateway. */
function verdictText(verdict: JournalVerdict, holder: number | undefined): string {
  const { directory, segments, rows, bytes, unfinished, faultCount } = verdict;
  const ends = holder === undefined ? 'is torn; the next start cuts it' : 'is being written';
  return [
    ...faultLines(verdict),
    ...unfinished.map(({ file, offset }) => `${file}:${offset}: ${ends}`),
    `${directory}: ${segments} segments, ${rows} good rows, ${bytes} bytes, ${faultCount} faults`,
  ].join('\n');
}

/** The same for programs: of the journal of the gateway, and of those of its workers. */
function verdictsJson([own, ...workers]: readonly JournalVerdict[]): string {
  const shown = ({ faultCount, ...verdict }: JournalVerdict) => ({ ...verdict, fault_count: faultCount });
  return JSON.stringify({ ...shown(own as JournalVerdict), workers: workers.map(shown) }, null, 2);
}

/** Output of `weir journal replay`. */
function replayText(report: ReplayReport): string {
  const { added, known, removedFiles, faultCount } = report;
  const total = added.requests + added.bodies + added.feedback;
  return [
    ...faultLines(report),
    `${total} rows are back in the journal (requests ${added.requests}, bodies ${added.bodies}, feedback ${added.feedback}), ${known} were there or stored already, ${faultCount} cannot be put back; ${removedFiles} files of the quarantine are done.`,
    ...(total > 0 ? ['They are shipped when the gateway starts.'] : []),
    ...(faultCount > 0
      ? ['Repair what is named above and replay again, or remove files that are not worth it.']
      : []),
  ].join('\n');
}

/** The same for programs. */
function replayJson({ added, known, removedFiles, faults, faultCount }: ReplayReport): string {
  const content = { added, known, removed_files: removedFiles, faults, fault_count: faultCount };
  return JSON.stringify(content, null, 2);
}

function faultLines({
  faults,
  faultCount,
}: {
  readonly faults: readonly RowFault[];
  readonly faultCount: number;
}): string[] {
  const more = faultCount - faults.length;
  return [
    ...faults.map(({ file, offset, reason }) => `${file}:${offset}: ${reason}`),
    ...(more > 0 ? [`… and ${more} more`] : []),
  ];
}
