import assert from 'node:assert/strict';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { JournalRoom } from '../../core/ports/journal.ts';
import type { Log } from '../../core/ports/log.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { journalStatus } from './status-file.ts';

async function place(t: TestContext) {
  const data = await mkdtemp(join(tmpdir(), 'journal-status-'));
  t.after(() => rm(data, { recursive: true, force: true }));
  const clock = new ManualClock();
  const logged: string[] = [];
  const record = (message: string): void => void logged.push(message);
  const log: Log = { debug: record, info: record, warn: record, error: record, child: () => log };
  const none = { share: 0, bodies: 0, disk: 0, memory: 0, length: 0, closed: 0, refused: 0, age: 0, lost: 0 };
  const journal = {
    accepted: 0,
    state: () => ({ accepted: journal.accepted, stored: 0, pending: journal.accepted - 1, shed: 1 }),
    shedBy: () => ({ ...none, share: 1 }),
    room: (): JournalRoom => ({
      policy: 'block',
      maxBytes: 100,
      bytes: 7,
      waiting: 1,
      waited: 2,
      refused: 3,
    }),
    lastError: undefined as string | undefined,
  };
  return { data, file: journalStatus.file(data), clock, log, logged, journal };
}

const until = async (clock: ManualClock, done: () => Promise<boolean>): Promise<void> => {
  while (!(await done())) {
    clock.advance(1000);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
};

test('what a journal says is found in its file, with its changes, and a last time', async (t) => {
  const { file, clock, log, journal } = await place(t);
  journal.accepted = 1;
  const end = journalStatus.keep({ file, journal, clock, log });
  await until(clock, async () => (await journalStatus.read(file)) !== undefined);
  const first = await journalStatus.read(file);
  const table = { accepted: 1, stored: 0, pending: 0, shed: 1, shedBy: { share: 1 } };
  assert.deepEqual(first, {
    at: first?.at,
    pid: process.pid,
    ...journal.room(),
    lastError: null,
    tables: { requests: table, bodies: table, feedback: table },
  });
  assert.equal((await stat(file)).mode & 0o077, 0);
  journal.accepted = 2;
  await until(clock, async () => (await journalStatus.read(file))?.tables.requests.accepted === 2);
  journal.lastError = 'it is away';
  await end();
  assert.equal((await journalStatus.read(file))?.lastError, 'it is away');
  assert.equal(clock.waiting, 0, 'nothing is written after the end');
});

test('a file that is missing, broken or of somebody else tells nothing', async (t) => {
  const { file } = await place(t);
  assert.equal(await journalStatus.read(file), undefined);
  for (const text of ['', '{"at":', '[]', 'null', '{"at":"x","tables":{}}']) {
    await writeFile(file, text);
    assert.equal(await journalStatus.read(file), undefined, text);
  }
});

test('a folder that cannot be written is told once', async (t) => {
  const { data, clock, log, logged, journal } = await place(t);
  const end = journalStatus.keep({ file: join(data, 'missing', 'file'), journal, clock, log });
  await until(clock, () => Promise.resolve(logged.length > 0));
  await end();
  assert.equal(logged.length, 1);
  assert.match(logged[0] ?? '', /status cannot be written to/);
});
