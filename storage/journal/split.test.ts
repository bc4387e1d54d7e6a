import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { Log } from '../../core/ports/log.ts';
import { DeduplicatingStore } from '../../tests/conformance/deduplicating-store.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { Bounds } from './bounds.ts';
import { openJournal } from './journal.ts';
import { Ledger, segments } from './segment.ts';
import { Quarantine, SegmentFolder } from './segment-folder.ts';
import { SegmentShipper } from './segment-shipper.ts';

const log: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };
const base = 'requests-lx2k3j4h-0123456789ab-7';
const rows = Array.from({ length: 13 }, (_, n) => JSON.stringify({ n }));
const bad = new Set([rows[3], rows[4], rows[12]]);

const unheard = { maxAgeMs: Infinity, onIdle: () => undefined, onStuck: () => undefined };

/** The process is gone: nothing that follows happens. */
const died = new Promise<never>(() => undefined);

/** Dies before the nth change on disk. */
class MortalFolder extends SegmentFolder {
  changesLeft = Infinity;
  onDeath = (): void => undefined;

  override async remove(file: string): Promise<void> {
    await this.live();
    await super.remove(file);
  }

  protected override async link(file: string, name: string): Promise<void> {
    await this.live();
    await super.link(file, name);
  }

  private live(): Promise<void> {
    this.changesLeft -= 1;
    if (this.changesLeft >= 0) return Promise.resolve();
    this.onDeath();
    return died;
  }
}

class FolderWithoutLinks extends SegmentFolder {
  protected override link(): Promise<void> {
    return Promise.reject(Object.assign(new Error('no links here'), { code: 'EPERM' }));
  }
}

async function place(t: TestContext) {
  const directory = await mkdtemp(join(tmpdir(), 'journal-'));
  t.after(() => rm(directory, { recursive: true }));
  const text = `${rows.join('\n')}\n`;
  await writeFile(join(directory, `${base}.sealed`), text);
  const store = new DeduplicatingStore();
  store.isBad = (row) => bad.has(row);
  const segment = segments.whole(base, Buffer.byteLength(text), rows.length);
  return { directory, store, segment };
}

async function shipper(folder: SegmentFolder, store: DeduplicatingStore) {
  const clock = new ManualClock();
  const quarantine = new Quarantine({ journal: folder.path, maxBytes: 100_000, clock, log });
  await quarantine.prepare();
  const ledger = new Ledger();
  ledger.accept(rows.length);
  const bounds = new Bounds({ maxBytes: 100_000, maxUnflushed: 1000, maxRow: 1000 }, log);
  const parts = { folder, quarantine, ledger, bounds, clock, log, insert: store.insert };
  return { ledger, shipper: new SegmentShipper({ ...parts, table: 'requests', ...unheard }) };
}

async function assertDelivered(directory: string, store: DeduplicatingStore): Promise<void> {
  assert.deepEqual(
    store.rows.requests,
    rows.filter((row) => !bad.has(row)),
  );
  assert.deepEqual(await readdir(directory), ['quarantine']);
  const kept = await readdir(join(directory, 'quarantine'));
  assert.equal(kept.length, bad.size);
}

test('a process that dies anywhere in a split neither loses nor doubles a row', async (t) => {
  let changes = 0;
  for (let finished = false; !finished; changes += 1) {
    const { directory, store, segment } = await place(t);
    const folder = new MortalFolder(directory);
    folder.changesLeft = changes;
    const death = new Promise<'dead'>((resolve) => (folder.onDeath = () => resolve('dead')));
    const { shipper: first } = await shipper(folder, store);
    first.enqueue(segment);
    finished = (await Promise.race([first.drained(), death])) !== 'dead';
    const options = { flushMs: 1000, shipMs: 1000, maxBytes: 100_000 };
    const next = await openJournal({
      directory,
      insert: store.insert,
      clock: new ManualClock(),
      log,
      ...options,
    });
    await next.settle(5000);
    await next.close(1000);
    await assertDelivered(directory, store);
  }
  assert.ok(changes > 20, `${changes} changes on disk`);
});

test('where a file cannot have two names, pieces are copies', async (t) => {
  const { directory, store, segment } = await place(t);
  const { shipper: subject, ledger } = await shipper(new FolderWithoutLinks(directory), store);
  subject.enqueue(segment);
  assert.equal(await subject.drained(), true);
  await assertDelivered(directory, store);
  assert.deepEqual(ledger.state(), { accepted: 13, stored: 10, pending: 0, shed: 3 });
});

test('what is posted once is posted in the same pieces again', async (t) => {
  const { directory, store, segment } = await place(t);
  const { shipper: subject } = await shipper(new SegmentFolder(directory), store);
  subject.enqueue(segment);
  await subject.drained();
  const text = `${rows.join('\n')}\n`;
  assert.equal(store.posted[0], base);
  for (const token of store.posted.slice(1)) {
    const [, from = 0, end = 0] = /:(\d+)-(\d+)$/.exec(token) ?? [];
    assert.equal(text[Number(end) - 1], '\n', token);
    assert.ok(Number(from) === 0 || text[Number(from) - 1] === '\n', token);
  }
  assert.equal(new Set(store.posted).size, store.posted.length);
});
