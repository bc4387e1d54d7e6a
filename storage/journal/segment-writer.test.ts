import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { Log } from '../../core/ports/log.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { Bounds } from './bounds.ts';
import { Ledger, type Segment } from './segment.ts';
import { SegmentFolder, type SegmentFile } from './segment-folder.ts';
import { SegmentWriter } from './segment-writer.ts';

type Step = 'create' | 'write' | 'finish' | 'close' | 'seal';

/** A real folder on a disk that fails: a failed write leaves half of its bytes behind. */
class FailingFolder extends SegmentFolder {
  failing: Step | undefined;
  attempts = 0;

  override async create(base: string): Promise<SegmentFile> {
    this.check('create');
    const file = await super.create(base);
    return {
      write: async (bytes, position) => {
        if (this.failing === 'write') await file.write(bytes.subarray(0, bytes.length / 2), position);
        this.check('write');
        await file.write(bytes, position);
      },
      sync: () => file.sync(),
      finish: (bytes) => {
        this.check('finish');
        return file.finish(bytes);
      },
      close: async () => {
        await file.close();
        this.check('close');
      },
    };
  }

  override async seal(base: string): Promise<void> {
    this.check('seal');
    await super.seal(base);
  }

  private check(step: Step): void {
    if (this.failing !== step) return;
    this.attempts += 1;
    throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
  }
}

async function place(t: TestContext) {
  const directory = await mkdtemp(join(tmpdir(), 'journal-'));
  const logged: string[] = [];
  const record = (message: string): void => void logged.push(message);
  const log: Log = { debug: record, info: record, warn: record, error: record, child: () => log };
  const clock = new ManualClock();
  const folder = new FailingFolder(directory);
  const ledger = new Ledger();
  const bounds = new Bounds({ maxBytes: 10_000, maxUnflushed: 1000, maxRow: 1000 }, log);
  const sealed: Segment[] = [];
  const writer = new SegmentWriter({
    table: 'requests',
    folder,
    ledger,
    bounds,
    clock,
    log,
    maxSegmentBytes: 1000,
    start: 0,
    sync: 'interval',
    syncMs: 1000,
    onOpened: () => undefined,
    onSealed: (segment) => void sealed.push(segment),
  });
  t.after(async () => {
    writer.abandon();
    await writer.seal();
    await rm(directory, { recursive: true });
  });
  const read = async () => {
    const files = await readdir(directory);
    return (await Promise.all(files.map((file) => readFile(join(directory, file), 'utf8')))).join('');
  };
  return { clock, folder, ledger, bounds, logged, sealed, writer, read, directory };
}

/** Lets the clock run until a promise is done. */
async function within(clock: ManualClock, promise: Promise<void>): Promise<void> {
  let done = false;
  void promise.then(() => (done = true));
  while (!done) {
    clock.advance(1000);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

const turns = async (condition: () => boolean): Promise<void> => {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 1));
};

for (const step of ['create', 'write', 'finish', 'close', 'seal'] as const) {
  test(`when ${step} fails rows wait, and every one is on disk once when it works again`, async (t) => {
    const { clock, folder, ledger, logged, sealed, writer, read } = await place(t);
    folder.failing = step;
    writer.append('{"n":1}');
    writer.append('{"n":"ä"}');
    const first = writer.seal();
    // A file is closed once, whether that fails or not; everything else is tried again.
    for (const attempts of step === 'close' ? [1] : [1, 2, 3]) {
      await turns(() => folder.attempts === attempts);
      clock.advance(5000);
    }
    writer.append('{"n":3}');
    assert.deepEqual(ledger.state(), { accepted: 3, stored: 0, pending: 3, shed: 0 });
    folder.failing = undefined;
    await within(clock, first);
    await within(clock, writer.seal());
    assert.equal(await read(), '{"n":1}\n{"n":"ä"}\n{"n":3}\n');
    assert.equal(
      sealed.reduce((sum, { rows }) => sum + rows, 0),
      3,
    );
    assert.equal(logged.filter((message) => message.includes('cannot be written')).length, 1);
    assert.equal(logged.filter((message) => message.includes('takes rows again')).length, 1);
  });
}

test('a disk that fails for long: memory is bounded, the rest is shed', async (t) => {
  const { clock, folder, ledger, writer, read } = await place(t);
  folder.failing = 'write';
  const line = JSON.stringify('x'.repeat(97));
  writer.append(line);
  const flushed = writer.flush();
  await turns(() => folder.attempts === 1);
  for (let n = 0; n < 20; n += 1) writer.append(line);
  const state = ledger.state();
  assert.deepEqual(state, { accepted: 21, stored: 0, pending: 11, shed: 10 });
  folder.failing = undefined;
  await within(clock, flushed);
  await writer.flush();
  assert.equal(await read(), `${line}\n`.repeat(11));
});

test('after abandon what the disk refuses is given up and counted, and its room is free again', async (t) => {
  const { folder, ledger, bounds, logged, writer } = await place(t);
  folder.failing = 'write';
  writer.append('{"n":1}');
  const flushed = writer.flush();
  await turns(() => folder.attempts === 1);
  writer.append('{"n":2}');
  writer.abandon();
  await flushed;
  assert.deepEqual(ledger.state(), { accepted: 2, stored: 0, pending: 0, shed: 2 });
  assert.equal(bounds.free, 10_000);
  assert.match(logged.at(-1) ?? '', /rows were lost/);
});

test('a flush ends although rows keep coming', async (t) => {
  const { ledger, writer } = await place(t);
  writer.append('{"n":1}');
  const flushed = writer.flush();
  let coming = true;
  const keepComing = (): void => {
    writer.append('{"n":2}');
    if (coming) setImmediate(keepComing);
  };
  keepComing();
  await flushed;
  coming = false;
  assert.ok(ledger.state().pending > 1);
});

test('rows of one flush that do not fit into a segment begin the next', async (t) => {
  const { sealed, writer } = await place(t);
  const line = JSON.stringify('x'.repeat(297));
  for (let n = 0; n < 3; n += 1) {
    writer.append(line);
    await writer.flush();
  }
  writer.append(line);
  await writer.seal();
  assert.deepEqual(
    sealed.map(({ rows }) => rows),
    [3, 1],
  );
  assert.ok(sealed.every(({ end }) => end <= 1000));
  assert.equal(new Set(sealed.map(({ token }) => token)).size, 2);
});

test('a segment whose sealing failed at its size takes no more rows', async (t) => {
  const { clock, folder, sealed, writer, read } = await place(t);
  const line = JSON.stringify('x'.repeat(497));
  writer.append(line);
  await writer.flush();
  folder.failing = 'seal';
  writer.append(line);
  const flushed = writer.flush();
  await turns(() => folder.attempts === 1);
  folder.failing = undefined;
  await within(clock, flushed);
  writer.append('{"n":1}');
  await within(clock, writer.seal());
  assert.deepEqual(
    sealed.map(({ rows }) => rows),
    [2, 1],
  );
  assert.match(await read(), /\{"n":1\}/);
});

test('sealing nothing makes no segment', async (t) => {
  const { directory, sealed, writer } = await place(t);
  await writer.seal();
  assert.deepEqual([sealed, await readdir(directory)], [[], []]);
});
