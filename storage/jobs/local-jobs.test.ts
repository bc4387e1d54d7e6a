import assert from 'node:assert/strict';
import { open as openFile, readdir, readFile, rm, stat, writeFile, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { type Line, recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import { ManualClock, settle } from '../../tests/conformance/manual-clock.ts';
import { temporaryFolder } from '../embedded/chdb-fixture.ts';
import { jobsConformance } from '../../tests/conformance/jobs.ts';
import { openLocalJobs } from './local-jobs.ts';

jobsConformance({
  name: 'in the data folder', // a full one says too_many_jobs
  skip: false,
  shared: false,
  async place(t) {
    const folder = await temporaryFolder();
    t.after(() => folder.remove());
    return {
      open: (options) => openLocalJobs({ ...options, directory: folder.path }),
      child: ['local', folder.path],
    };
  },
});

describe('the file of jobs', () => {
  async function place(t: TestContext) {
    const folder = await temporaryFolder();
    t.after(() => folder.remove());
    const directory = path.join(folder.path, 'jobs');
    const lines: Line[] = [];
    const clock = new ManualClock();
    const ran: string[] = [];
    const open = async () => {
      const jobs = await openLocalJobs({ directory, clock, log: recordingLog(lines) });
      t.after(() => jobs.close());
      jobs.define({
        name: 'mail.send',
        attempts: 3,
        handle({ id, attempt }) {
          ran.push(`${id} ${attempt}`);
          return id === 'bad' ? Promise.reject(new Error('refused')) : Promise.resolve();
        },
      });
      return jobs;
    };
    return { directory, file: path.join(directory, 'jobs.jsonl'), lines, clock, ran, open };
  }

  test('keeps attempts and waits over a restart', async (t) => {
    const { open, clock, ran, file } = await place(t);
    const first = await open();
    await first.add('mail.send', 'bad', { secret: 's3cret' });
    assert.equal((await stat(file)).mode & 0o077, 0, 'nobody else reads it');
    await first.start();
    await settle();
    await clock.pass(999);
    assert.deepEqual(ran, ['bad 1']);
    await clock.pass(1);
    await first.close();
    assert.deepEqual(ran, ['bad 1', 'bad 2']);
    const again = await open();
    await again.start();
    await clock.pass(1999);
    assert.equal(ran.length, 2);
    await clock.pass(1);
    assert.deepEqual(ran, ['bad 1', 'bad 2', 'bad 3']);
    assert.deepEqual(await again.counts(), { waiting: 0, running: 0, failed: 1 });
    await again.close();
    assert.equal((await (await open()).counts()).failed, 1);
  });

  test('that was cut off in its last line loses nothing that was stored', async (t) => {
    const { open, file, lines } = await place(t);
    const first = await open();
    await first.add('mail.send', 'a', {});
    await first.add('mail.send', 'b', {});
    await first.close();
    const text = await readFile(file, 'utf8');
    await writeFile(file, text.slice(0, -2));
    assert.equal((await (await open()).counts()).waiting, 1);
    assert.deepEqual(lines, []);
  });

  test('that is damaged is read as far as it can be, and kept', async (t) => {
    const { open, file, lines } = await place(t);
    const first = await open();
    await first.add('mail.send', 'a', {});
    await first.close();
    const damaged = `{"put":{"key":"job:b"}}\n[]\nnonsense\n${await readFile(file, 'utf8')}`;
    await writeFile(file, damaged);
    assert.equal((await (await open()).counts()).waiting, 1);
    assert.match(lines[0]?.message ?? '', /^3 of 4 lines of .* are damaged .*\.damaged/);
    assert.equal(await readFile(`${file}.damaged`, 'utf8'), damaged);
  });

  test('does not grow with what is done', async (t) => {
    const { open, file } = await place(t);
    const jobs = await open();
    await jobs.start();
    for (let n = 0; n < 60; n += 1) await jobs.add('mail.send', String(n), 'x'.repeat(60_000));
    await settle();
    assert.ok((await stat(file)).size < 1_400_000);
  });

  test('on a disk that fails: a job is refused, and taken again when the disk works', async (t) => {
    const { open, directory } = await place(t);
    const jobs = await open();
    await jobs.close();
    await rm(directory, { recursive: true });
    await writeFile(directory, 'in the way');
    await assert.rejects(open(), /^Error: Jobs cannot be kept in .*EEXIST/);
    await rm(directory);
    const writer = await open();
    const [file] = (await readdir(directory)).map((name) => path.join(directory, name));
    assert.ok(file);
    const add = () => writer.add('mail.send', 'a', {});
    t.mock.method(await prototypeOfHandle(file), 'datasync', () => Promise.reject(new Error('ENOSPC')), {
      times: 1,
    });
    await assert.rejects(add(), { code: 'store_unavailable' });
    assert.equal((await writer.counts()).waiting, 0);
    await add();
    await writer.close();
    assert.equal((await (await open()).counts()).waiting, 1);
  });
});

/** What every file handle is made of. */
async function prototypeOfHandle(file: string): Promise<FileHandle> {
  const handle = await openFile(file, 'r');
  await handle.close();
  return Object.getPrototypeOf(handle) as FileHandle;
}
