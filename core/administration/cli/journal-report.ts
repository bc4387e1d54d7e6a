import type {
  JournalInventory,
  JournalStatus,
  JournalVerdict,
  ReplayReport,
  RowFault,
} from '../../ports/journal-inspection.ts';

/**
 * What `weir journal status` prints. `holder` is the process of the gateway, when one runs; `told` is what it, or the one
 * before, last said.
 */
export function inventoryText(
  { directory, tables }: JournalInventory,
  holder: number | undefined,
  told: JournalStatus | undefined,
): string {
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
    ...inColumns([titles, ...rows]),
    ...(told === undefined ? [] : toldLines(told)),
    ...(kept
      ? [
          '',
          `The reasons stand in ${directory}/quarantine; when they are gone: weir journal replay --quarantine`,
        ]
      : []),
  ].join('\n');
}

function toldLines({
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
    ...inColumns([titles, ...rows]),
  ];
}

/** The same for programs. */
export function inventoryJson(
  { directory, tables }: JournalInventory,
  holder: number | undefined,
  told: JournalStatus | undefined,
): string {
  const entries = Object.entries(tables).map(([table, { oldest = null, ...counts }]) => [
    table,
    { ...counts, oldest },
  ]);
  const content = {
    ...{ directory, gateway_pid: holder ?? null },
    tables: Object.fromEntries(entries) as unknown,
    told: told === undefined ? null : toldJson(told),
  };
  return JSON.stringify(content, null, 2);
}

function toldJson({ maxBytes, lastError, tables, ...told }: JournalStatus): unknown {
  const entries = Object.entries(tables).map(([table, { shedBy, ...counts }]) => [
    table,
    { ...counts, shed_by: shedBy },
  ]);
  return {
    ...told,
    ...{ max_bytes: maxBytes, last_error: lastError, tables: Object.fromEntries(entries) as unknown },
  };
}

/** What `weir journal verify` prints. `holder` is the process of the gateway, when one runs. */
export function verdictText(verdict: JournalVerdict, holder: number | undefined): string {
  const { directory, segments, rows, bytes, unfinished, faultCount } = verdict;
  const ends = holder === undefined ? 'is torn; the next start cuts it' : 'is being written';
  return [
    ...faultLines(verdict),
    ...unfinished.map(({ file, offset }) => `${file}:${offset}: ${ends}`),
    `${directory}: ${segments} segments, ${rows} good rows, ${bytes} bytes, ${faultCount} faults`,
  ].join('\n');
}

/** The same for programs. */
export function verdictJson({ faultCount, ...verdict }: JournalVerdict): string {
  return JSON.stringify({ ...verdict, fault_count: faultCount }, null, 2);
}

/** What `weir journal replay` prints. */
export function replayText(report: ReplayReport): string {
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
export function replayJson({ added, known, removedFiles, faults, faultCount }: ReplayReport): string {
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

function inColumns(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => (row[column] ?? '').length)),
  );
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
