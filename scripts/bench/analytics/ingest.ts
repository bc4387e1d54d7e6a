import { mkdir, mkdtemp } from 'node:fs/promises';
import path from 'node:path';
import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { systemClock as clock } from '../../../core/ports/clock.ts';
import { bodyRow, requestRow, storedTime } from '../../../tests/conformance/analytics-rows.ts';
import { removeFolder } from '../subject.ts';
import {
  cpuMicroseconds,
  openBenchJournal,
  openSeeded,
  storedOf,
  watchMemory,
  type SeededStore,
  type StoredCounts,
} from './store.ts';

/** Figures of storing log rows with bodies. */
export interface IngestFigures {
  readonly accepted: number;
  /** Their counts in the tables. */
  readonly stored: StoredCounts;
  /** Until the last one was in the store. */
  readonly rows_per_second: number;
  /** CPU of the thread that makes, accepts and ships them, microseconds. */
  readonly cpu_us_per_row: number;
  readonly engine_mib: number;
}

const bodyBytes = 2048;
/** Rows and bodies that wait: enough to keep the store busy, and far less than the journal sheds at. */
const mostPending = 20_000;
const rowsATurn = 200;
/** The thread that makes, accepts and ships rows. */
const ownThread = `/proc/self/task/${process.pid}/stat`;

/** Puts rows through a real journal into the seeded store as fast as it takes them, for so many seconds. */
export async function ingest(store: SeededStore, seconds: number): Promise<IngestFigures> {
  // A journal of its own, where the engine may read: the gateway's may hold rows of an earlier run.
  const parent = path.join(store.data, 'journal');
  await mkdir(parent, { recursive: true });
  const directory = await mkdtemp(path.join(parent, 'bench-'));
  const organisationId = `bench-${randomUUID()}`;
  const { analytics, engineMemory, close } = await openSeeded(store);
  const peak = watchMemory(engineMemory);
  let figures: Omit<IngestFigures, 'stored'>;
  try {
    const journal = await openBenchJournal(directory, analytics);
    const made = rowMaker(organisationId);
    const before = await cpuMicroseconds(ownThread);
    const from = clock.monotonic();
    let accepted = 0;
    while (clock.monotonic() - from < seconds * 1000) {
      if (journal.state('requests').pending + journal.state('bodies').pending > mostPending) {
        await pause(5);
        continue;
      }
      for (let row = 0; row < rowsATurn; row += 1, accepted += 1) {
        const { request, body } = made(accepted);
        journal.append('requests', request);
        journal.append('bodies', body);
      }
      await pause(0);
    }
    if (!(await journal.settle(120_000))) throw new Error(`The journal did not settle: ${journal.lastError}`);
    const elapsed = (clock.monotonic() - from) / 1000;
    const cpu = (await cpuMicroseconds(ownThread)) - before;
    await journal.close(5000);
    figures = {
      accepted,
      rows_per_second: accepted / elapsed,
      cpu_us_per_row: cpu / accepted,
      engine_mib: peak() / 2 ** 20,
    };
  } finally {
    await close();
    await removeFolder(directory);
  }
  return { ...figures, stored: await storedOf(store, organisationId) };
}

/** Rows as the logger writes them, with the members that differ between rows; bodies are 2 KB that do not repeat. */
export function rowMaker(organisationId: string): (number: number) => { request: string[]; body: string[] } {
  const models = ['gpt-4o', 'gpt-4o-mini', 'claude-sonnet-4-5', 'gemini-2.5-flash'];
  const kinds = Array.from({ length: 64 }, (_, kind) => {
    const row = requestRow({
      id: '',
      created_at: '',
      organisation_id: organisationId,
      workspace_id: `workspace-${kind % 8}`,
      api_key_id: `key-${kind % 16}`,
      model: models[kind % 4] as string,
      latency_ms: 300 + kind * 17.5,
      is_success: true,
      status: 200,
      tries: '',
      decision: '',
      option: '',
      retries: 0,
    });
    const text = randomBytes(bodyBytes / 2)
      .toString('base64')
      .slice(0, bodyBytes / 2);
    const body = bodyRow(row, {
      request: JSON.stringify({ model: row.model, messages: [{ role: 'user', content: text }] }),
      response: JSON.stringify({ choices: [{ message: { role: 'assistant', content: text.slice(100) } }] }),
    });
    return { request: tailOf(row), body: tailOf(body) };
  });
  return (number) => {
    const { request, body } = kinds[number % kinds.length] as (typeof kinds)[number];
    const head = `{"id":"${randomUUID()}","created_at":"${storedTime(clock.now())}"`;
    return { request: [head, request], body: [head, body] };
  };
}

/** Everything but the id and the time. */
function tailOf(row: { readonly id: string; readonly created_at: string }): string {
  const rest = Object.entries(row).filter(([name]) => name !== 'id' && name !== 'created_at');
  return `,${JSON.stringify(Object.fromEntries(rest)).slice(1)}`;
}
