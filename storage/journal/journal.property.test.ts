import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Journal, JournalTable } from '../../core/ports/journal.ts';
import type { Log } from '../../core/ports/log.ts';
import { DeduplicatingStore, type StoreMood } from '../../tests/conformance/deduplicating-store.ts';
import { assertBalanced } from '../../tests/conformance/journal.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { openJournal } from './journal.ts';

const log: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };
const tables = ['requests', 'bodies'] as const;

type Step =
  | { do: 'append'; table: JournalTable; rows: number; bad: boolean; owner: string }
  | { do: 'pass'; ms: number; turns: number }
  | { do: 'mood'; mood: StoreMood }
  | { do: 'flush' | 'settle' | 'restart' };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('append' as const),
      table: fc.constantFrom(...tables),
      rows: fc.integer({ min: 1, max: 12 }),
      bad: fc.boolean(),
      owner: fc.constantFrom('', 'loud', 'loud', 'quiet'),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('pass' as const),
      ms: fc.nat(200),
      turns: fc.nat(20),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('mood' as const),
      mood: fc.constantFrom<StoreMood>('up', 'up', 'away', 'lost-answer'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('flush' as const, 'settle', 'restart') }) },
);

/** One journal after another in one folder, on one clock, and what is known to be true of them. */
class Story {
  readonly clock = new ManualClock();
  readonly store = new DeduplicatingStore();
  readonly appended: Record<JournalTable, string[]> = { requests: [], bodies: [], feedback: [] };
  readonly shedBefore: Record<JournalTable, number> = { requests: 0, bodies: 0, feedback: 0 };
  private readonly directory: string;
  private journal: Journal | undefined;
  private n = 0;

  constructor(directory: string) {
    this.directory = directory;
    this.store.isBad = (row) => row.includes('bad');
  }

  async open(): Promise<void> {
    this.journal = await openJournal({
      directory: this.directory,
      insert: async (table, rows, token) => {
        assertBalanced(this.current);
        await this.store.insert(table, rows, token);
      },
      clock: this.clock,
      log,
      flushMs: 10,
      shipMs: 50,
      maxBytes: 900,
      maxSegmentBytes: 200,
      maxUnflushed: 300,
    });
  }

  get current(): Journal {
    assert.ok(this.journal);
    return this.journal;
  }

  async play(step: Step): Promise<void> {
    if (step.do === 'append') this.append(step);
    else if (step.do === 'mood') this.store.mood = step.mood;
    else if (step.do === 'pass') await this.pass(step.ms, step.turns);
    else if (step.do === 'flush') await this.current.flush();
    else if (step.do === 'settle') void this.current.settle(100);
    else await this.restart();
    assertBalanced(this.current);
  }

  async finish(): Promise<void> {
    this.store.mood = 'up';
    // The clock runs faster than the disk here, so no deadline in its time can be meant.
    await this.done(this.current.settle(Number.MAX_SAFE_INTEGER));
    for (const table of tables) {
      const { pending, shed } = this.current.state(table);
      assert.equal(pending, 0);
      const stored = this.store.rows[table];
      const known = new Set(this.appended[table]);
      assert.equal(new Set(stored).size, stored.length, 'a row was stored twice');
      assert.ok(stored.every((row) => known.has(row) && !row.includes('bad')));
      assert.equal(stored.length + shed + this.shedBefore[table], this.appended[table].length);
    }
    await this.done(this.current.close(1000));
  }

  private append({ table, rows, bad, owner }: Extract<Step, { do: 'append' }>): void {
    for (let i = 0; i < rows; i += 1) {
      this.n += 1;
      const line = JSON.stringify({ n: this.n, text: bad && i === 0 ? 'bad' : 'fine' });
      this.appended[table].push(line);
      this.current.append(table, line, owner);
    }
  }

  private async pass(ms: number, turns: number): Promise<void> {
    this.clock.advance(ms);
    for (let i = 0; i < turns; i += 1) await new Promise((resolve) => setImmediate(resolve));
  }

  private async restart(): Promise<void> {
    await this.done(this.current.close(20));
    const before = this.current;
    assertBalanced(before);
    await this.open();
    for (const table of tables) {
      this.shedBefore[table] += before.state(table).shed;
      assert.equal(this.current.state(table).accepted, before.state(table).pending, 'rows found at start');
    }
  }

  /** Lets the clock run until a promise is done. */
  private async done(promise: Promise<unknown>): Promise<void> {
    let isDone = false;
    const end = promise.finally(() => (isDone = true));
    while (!isDone) await this.pass(1000, 3);
    await end;
  }
}

test(
  'accepted = stored + pending + shed at any moment, and every row is stored once or shed',
  { timeout: 60_000 },
  async (t) => {
    const directory = await mkdtemp(join(tmpdir(), 'journal-'));
    t.after(() => rm(directory, { recursive: true }));
    let stories = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
        stories += 1;
        const story = new Story(join(directory, String(stories)));
        await story.open();
        for (const next of steps) await story.play(next);
        await story.finish();
      }),
      { numRuns: 40, endOnFailure: true },
    );
  },
);
