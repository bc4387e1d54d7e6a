import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { RecordFile } from '../../core/base/record-file.ts';
import type { AlertClaim, UsageDelta, UsageLedger, UsageRow } from '../../core/ports/budgets.ts';
import type { Log } from '../../core/ports/log.ts';

/** A line of the file: the present use of one budget. */
const Line = Type.Object({
  key: Type.String(),
  organisationId: Type.String(),
  epoch: Type.Number(),
  used: Type.Number(),
  /** Absent in lines of earlier versions. */
  since: Type.Optional(Type.Number()),
  corrections: Type.Optional(Type.Number()),
  /** The last claimed crossings, with their claimants. */
  threshold: Type.Optional(Type.Array(Type.String(), { minItems: 2, maxItems: 2 })),
  exhausted: Type.Optional(Type.Array(Type.String(), { minItems: 2, maxItems: 2 })),
});
type Line = Static<typeof Line>;

/** A row with the number of its last change. */
interface Kept {
  readonly line: Line;
  readonly change: number;
}

/** A ledger in the data folder. */
interface UsageFile extends UsageLedger {
  close(): Promise<void>;
}

/**
 * Keeps the use of budgets in a file of the data folder, for a gateway without a relational store. Rejects when the
 * file cannot be read or written.
 */
export async function openUsageFile({
  directory,
  log,
}: {
  readonly directory: string;
  readonly log: Log;
}): Promise<UsageFile> {
  const rows = new Map<string, Kept>();
  let changes = 0;
  const snapshot = () => [...rows.values()].map(({ line }) => line);
  const file = new RecordFile<Line>({ directory, name: 'usage.jsonl', log, read: readLine, snapshot });
  for (const line of await file.read()) rows.set(line.key, { line, change: changes });
  await file.rewrite();
  const put = (line: Line): Promise<void> => {
    rows.set(line.key, { line, change: ++changes });
    return file.append(line);
  };
  return {
    isShared: false,
    async exchange(deltas, after) {
      const before = deltas.map(({ key }) => rows.get(key));
      try {
        await Promise.all(deltas.map((delta) => put(added(rows.get(delta.key)?.line, delta))));
      } catch (error) {
        // A failed exchange stores nothing: it is repeated.
        deltas.forEach(({ key }, index) => {
          const row = before[index];
          if (row === undefined) rows.delete(key);
          else rows.set(key, row);
        });
        throw error;
      }
      const since = after === '' ? -1 : Number(after);
      const changed = [...rows.values()].filter(({ change }) => change > since);
      return { rows: changed.map(({ line }) => rowOf(line)), mark: String(changes) };
    },
    async correct(corrections) {
      const corrected = new Set<string>();
      for (const { key, epoch, added: missing, corrections: read } of corrections) {
        const row = rows.get(key)?.line;
        if (row?.epoch !== epoch || (row.corrections ?? 0) !== read) continue;
        await put({ ...row, used: row.used + missing, corrections: read + 1 });
        corrected.add(key);
      }
      return corrected;
    },
    async claim({ key, organisationId, kind, mark, by }: AlertClaim) {
      const row = rows.get(key)?.line ?? { key, organisationId, epoch: 0, used: 0 };
      const [claimed, claimant] = row[kind] ?? [];
      if (claimed === mark) return claimant === by;
      await put({ ...row, [kind]: [mark, by] });
      return true;
    },
    close: () => file.close(),
  };
}

function rowOf({ threshold, exhausted, since, corrections = 0, ...row }: Line): UsageRow {
  return {
    ...row,
    since,
    corrections,
    claimed: { threshold: threshold?.[0] ?? '', exhausted: exhausted?.[0] ?? '' },
  };
}

function readLine(text: string): Line | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return Value.Check(Line, value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The row with the added count: within its period, or as the first of a later one. */
function added(row: Line | undefined, { key, organisationId, epoch, added: more, since }: UsageDelta): Line {
  if (row === undefined) return { key, organisationId, epoch, used: more, since };
  if (epoch < row.epoch) return row;
  if (epoch > row.epoch) return { ...row, epoch, used: more, since };
  const { since: before } = row;
  return {
    ...row,
    used: row.used + more,
    ...(before !== undefined && { since: Math.min(before, since) }),
  };
}
