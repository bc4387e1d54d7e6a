import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { LogExports } from '../../ports/exports.ts';
import type { LogExportData } from '../../ports/record-kinds.ts';
import { createFileBlobs } from '../../../storage/blobs/file-blobs.ts';
import {
  exportDirectory,
  exportPlace,
  exportRecord,
  ExportRecords,
  logEntry,
  ManyLogs,
} from '../../../tests/kit/export-kit.ts';
import { testKey, TestClock } from '../../../tests/kit/plugin-kit.ts';
import type { ExportPlace } from './export-rights.ts';
import { createLogExports } from './log-exports.ts';

const run = { organisationId: 'org-1', exportId: 'export-1', run: 1 };
let folder = '';
let count = 0;

before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'weir-exports-'));
});
after(() => rm(folder, { recursive: true, force: true }));

/** A clock on which every question takes a while, so that slices end. */
class TickingClock extends TestClock {
  readonly #stepMs: number;

  constructor(stepMs: number) {
    super();
    this.#stepMs = stepMs;
  }

  override monotonic(): number {
    this.advance(this.#stepMs);
    return super.monotonic();
  }
}

function setUp(
  data: Partial<LogExportData> = {},
  logs = new ManyLogs(2500),
  changes: Partial<ExportPlace> = {},
) {
  count += 1;
  const directory = path.join(folder, String(count));
  const blobs = createFileBlobs(directory);
  const records = new ExportRecords(exportRecord(data));
  const place = exportPlace({ analytics: logs, resources: records.resources, blobs, ...changes });
  return { directory, blobs, records, place, logs, exports: createLogExports(place) };
}

async function textOf(exports: LogExports, records: ExportRecords): Promise<string> {
  const file = await exports.open(records.records.get('export-1') ?? exportRecord());
  const chunks: Buffer[] = [];
  for await (const chunk of file?.content ?? []) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/** The numbers of the entries in the file, in its order. */
async function numbersOf(exports: LogExports, records: ExportRecords): Promise<number[]> {
  const lines = (await textOf(exports, records)).split('\n').slice(0, -1);
  return lines.map((line) => (JSON.parse(line) as { request: { index: number } }).request.index);
}

async function filesIn(directory: string): Promise<string[]> {
  const found = await readdir(directory, { recursive: true, withFileTypes: true }).catch(() => []);
  return found.filter((entry) => entry.isFile()).map(({ name }) => name);
}

const upTo = (end: number, from = 0): number[] => Array.from({ length: end - from }, (_, at) => from + at);

describe('exports: a run', () => {
  test('every row once, in their order, and nothing else is left', async () => {
    const { exports, records, place, directory } = setUp();
    await exports.enqueue(exportRecord());
    assert.equal(await place.jobs.drain(), 1);
    assert.deepEqual(await numbersOf(exports, records), upTo(2500));
    const { state, rows, bytes, error, expiresAt, finishedAt } = records.data();
    assert.deepEqual([state, rows, error], ['success', 2500, '']);
    assert.equal(expiresAt, (finishedAt ?? 0) + 7 * 86_400_000);
    const text = await textOf(exports, records);
    assert.equal(bytes, Buffer.byteLength(text));
    assert.deepEqual(await filesIn(directory), ['logs-export-1.jsonl']);
  });

  test('bodies are read for those who ask for them alone; pages begin where the last one ended', async () => {
    const { place, logs } = setUp({ requestedData: ['id'] });
    await place.jobs.run('exports.run', run);
    assert.ok(logs.queries.length > 2);
    assert.ok(
      logs.queries.every(
        ({ bodies, order, limit }) => bodies === false && order === 'oldest' && limit <= 2000,
      ),
    );
    const [first, second] = logs.queries;
    assert.equal(first?.after, undefined);
    assert.equal(second?.window.from, second?.after?.createdAt);
    assert.deepEqual(first?.visibility, { organisationId: 'org-1', workspaceId: 'ws-1' });
  });

  for (const [skip, limit, expected] of [
    [0, 10, upTo(10)],
    [1000, 700, upTo(1700, 1000)],
    [2400, 1000, upTo(2500, 2400)],
    [5000, 10, []],
  ] as const) {
    test(`a page of the rows: ${limit} behind the first ${skip}`, async () => {
      const { exports, records, place } = setUp({ skip, limit });
      await place.jobs.run('exports.run', run);
      assert.deepEqual(await numbersOf(exports, records), expected);
      assert.equal(records.data().rows, expected.length);
    });
  }

  test('in slices: each goes on behind the last part, tells how far it is, and lets others take their turn', async () => {
    const clock = new TickingClock(400);
    const { exports, records, place } = setUp({}, new ManyLogs(4000), { clock, sliceMs: 1000 });
    await exports.enqueue(exportRecord());
    const told: number[] = [];
    let jobs = 0;
    for (let next = place.jobs.added.shift(); next !== undefined; next = place.jobs.added.shift()) {
      await place.jobs.run('exports.run', next.data);
      told.push(records.data().rows);
      jobs += 1;
    }
    assert.ok(jobs > 3, `${jobs} slices`);
    assert.deepEqual(
      told,
      [...told].sort((a, b) => a - b),
    );
    assert.ok((told[0] ?? 0) > 0 && (told[0] ?? 0) < 4000);
    assert.deepEqual(await numbersOf(exports, records), upTo(4000));
  });

  test('a store that answers again: nothing is twice, nothing is missing', async () => {
    const logs = new ManyLogs(3000);
    let failures = 0;
    logs.onPage = (page) => {
      // Longer than an attempt goes on asking.
      if (page % 12 < 6) return;
      failures += 1;
      throw new GatewayError('store_unavailable', 'The analytics store is not available: it restarts.');
    };
    const { exports, records, place } = setUp({}, logs);
    for (let attempt = 1; records.data().state === 'in_progress'; attempt++)
      await place.jobs.run('exports.run', run, { attempt }).catch((error: unknown) => {
        assert.ok(GatewayError.is(error));
      });
    assert.ok(failures > 3);
    assert.deepEqual(await numbersOf(exports, records), upTo(3000));
  });

  test('a page that is too much for the store is asked for with fewer rows', async () => {
    const logs = new ManyLogs(600);
    const store = logs.logs.bind(logs);
    const { place, records } = setUp({}, logs, {
      analytics: {
        logs: (query) =>
          query.limit > 40
            ? Promise.reject(new GatewayError('query_timeout', 'It took too long.'))
            : store(query),
      },
    });
    await place.jobs.run('exports.run', run);
    assert.equal(records.data().state, 'success');
    assert.equal(records.data().rows, 600);
  });

  test('a store that stays away: the export fails with a sentence after its last attempt', async () => {
    const logs = new ManyLogs(10);
    logs.onPage = () => {
      throw new GatewayError('store_unavailable', 'The analytics store is not available: it is away.');
    };
    const { records, place, directory } = setUp({}, logs);
    await assert.rejects(place.jobs.run('exports.run', run, { attempt: 39 }), /it is away/);
    assert.equal(records.data().state, 'in_progress');
    await place.jobs.run('exports.run', run, { attempt: 40 });
    assert.equal(records.data().state, 'failed');
    assert.match(records.data().error, /given up after 40 attempts: .*it is away\. Start it again/);
    assert.deepEqual(await filesIn(directory), []);
  });

  test('a part that was damaged meanwhile is not handed out', async () => {
    const { records, place, blobs } = setUp({}, new ManyLogs(500), {
      clock: new TickingClock(400),
      sliceMs: 1,
    });
    await place.jobs.run('exports.run', run);
    const parts = JSON.parse(await text(blobs, 'org-1/export-1/parts-1/manifest.json')) as {
      parts: { name: string; bytes: number }[];
    };
    const [part] = parts.parts;
    await blobs.write(part?.name ?? '', Buffer.alloc(part?.bytes ?? 0, 'x'));
    await place.jobs.drain();
    assert.equal(records.data().state, 'failed');
    assert.match(records.data().error, /not as it was stored/);
  });
});

async function text(blobs: ExportPlace['blobs'], name: string): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of (await blobs.read(name))?.content ?? []) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

describe('exports: who made one', () => {
  const gone: readonly [string, Partial<ExportPlace>, Partial<LogExportData>, RegExp][] = [
    [
      'their key is gone',
      { directory: exportDirectory({ keyById: () => undefined }) },
      {},
      /key "first key".* is gone/,
    ],
    [
      'their key has expired',
      { directory: exportDirectory({ keyById: () => testKey({ expiresAt: 1 }) }) },
      {},
      /has expired/,
    ],
    [
      'their key lacks the scope',
      { directory: exportDirectory({ keyById: () => testKey({ scopes: ['logs.view'] }) }) },
      {},
      /lacks the scope "logs\.export"/,
    ],
    [
      'their workspace is archived',
      { directory: exportDirectory({ isArchived: (id) => id === 'ws-1' }) },
      {},
      /is archived/,
    ],
    [
      'their key is of another workspace now',
      { directory: exportDirectory({ keyById: () => testKey({ workspaceId: 'ws-2' }) }) },
      {},
      /may not read all of these logs/,
    ],
    [
      'they see their own rows alone by now',
      {
        directory: exportDirectory({
          settingsIn: () => {
            const security = exportDirectory().settingsIn('org-1', 'ws-1');
            return {
              ...security,
              data_visibility: { ...security.data_visibility, managersViewAllData: false },
            };
          },
        }),
      },
      {},
      /may not read all of these logs/,
    ],
    [
      'their user is gone',
      {},
      { creator: { ...exportRecord().data.creator, userId: 'ann', isKnownUser: true } },
      /the user who made it is gone/,
    ],
    [
      'a field was denied',
      { settings: { expires_days: 7, max_rows: 1, link_minutes: 1, denied_fields: ['cost'] } },
      {},
      /cost may not be exported/,
    ],
    ['exports are switched off', { features: { isOn: () => false } }, {}, /DATA_EXPORTS_ENABLED/],
  ];
  for (const [name, changes, data, sentence] of gone) {
    test(`${name}: the run fails before the next page, and its parts are removed`, async () => {
      const logs = new ManyLogs(2000);
      const { place, records, directory } = setUp(data, logs);
      const later = exportPlace({ ...place, resources: records.resources, ...changes });
      createLogExports(later);
      await later.jobs.run('exports.run', run);
      assert.deepEqual([records.data().state, logs.queries.length], ['failed', 0]);
      assert.match(records.data().error, sentence);
      assert.deepEqual(await filesIn(directory), []);
    });
  }

  test('in between, too', async () => {
    const logs = new ManyLogs(5000);
    let isGone = false;
    logs.onPage = (page) => void (isGone = page === 3);
    const { place, records } = setUp({}, logs, {
      directory: exportDirectory({ keyById: () => (isGone ? undefined : testKey()) }),
    });
    await place.jobs.run('exports.run', run);
    assert.deepEqual([records.data().state, logs.queries.length], ['failed', 3]);
  });

  test('a bearer of a token is judged by what was known of them', async () => {
    const creator = { ...exportRecord().data.creator, keyId: 'jwt:x', isKnownKey: false };
    const { place, records } = setUp({ creator }, new ManyLogs(10));
    await place.jobs.run('exports.run', run);
    assert.equal(records.data().state, 'success');
  });

  test('a draft cannot be started for them: 403 with the sentence', () => {
    const { exports } = setUp({}, new ManyLogs(0), {
      directory: exportDirectory({ keyById: () => undefined }),
    });
    assert.throws(
      () => exports.requireRights(exportRecord()),
      (error) => GatewayError.is(error) && error.code === 'scope_missing' && /is gone/.test(error.message),
    );
  });
});

describe('exports: the end of a run', () => {
  test('cancelled in another process: it ends before the next page, and what it has stored is removed', async () => {
    const logs = new ManyLogs(5000);
    const { place, records, directory } = setUp({}, logs);
    logs.onPage = (page) => {
      if (page === 3) records.change({ state: 'stopped' });
    };
    await place.jobs.run('exports.run', run);
    assert.equal(logs.queries.length, 3);
    assert.equal(records.data().state, 'stopped');
    assert.deepEqual(await filesIn(directory), []);
  });

  test('cancelled here: it ends at once, and a later job removes the rest', async () => {
    const logs = new ManyLogs(5000);
    const { place, records, exports, directory } = setUp({}, logs);
    logs.onPage = async (page) => {
      if (page !== 3) return;
      records.change({ state: 'stopped' });
      await exports.discard(exportRecord());
    };
    await place.jobs.run('exports.run', run);
    assert.equal(place.jobs.added[0]?.delayMs, 2000);
    await place.jobs.drain();
    assert.deepEqual(await filesIn(directory), []);
    assert.equal(records.data().state, 'stopped');
  });

  test('the end of the gateway: the run goes on where it was', async () => {
    const logs = new ManyLogs(3000);
    const { place, records, exports } = setUp({}, logs, { clock: new TickingClock(400), sliceMs: 900 });
    await place.jobs.run('exports.run', run);
    const seen = records.data().rows;
    assert.ok(seen > 0 && seen < 3000);
    place.jobs.added.length = 0;
    const controller = new AbortController();
    controller.abort(new Error('the gateway ends'));
    await assert.rejects(
      place.jobs.run('exports.run', run, { signal: controller.signal }),
      /the gateway ends/,
    );
    assert.equal(records.data().state, 'in_progress');
    place.jobs.added.push({ id: 'again', data: run, delayMs: 0 });
    await place.jobs.drain();
    assert.deepEqual(await numbersOf(exports, records), upTo(3000));
  });

  test('started again after it was stopped: the old run changes nothing', async () => {
    const { place, records, exports } = setUp({ run: 2 }, new ManyLogs(50));
    await place.jobs.run('exports.run', run);
    assert.equal(records.data().state, 'in_progress');
    await place.jobs.run('exports.run', { ...run, run: 2 });
    await place.jobs.run('exports.run', run);
    assert.equal(records.data().state, 'success');
    assert.deepEqual(await numbersOf(exports, records), upTo(50));
  });

  test('two attempts at the same time make one file of one of them', async () => {
    const logs = new ManyLogs(3000);
    const { records, exports, place } = setUp({}, logs);
    const twin = exportPlace({ ...place, resources: records.resources });
    createLogExports(twin);
    await Promise.all([place.jobs.run('exports.run', run), twin.jobs.run('exports.run', run)]);
    assert.equal(records.data().state, 'success');
    assert.deepEqual(await numbersOf(exports, records), upTo(3000));
  });

  test('of an export whose record is gone nothing is kept', async () => {
    const { place, records, directory } = setUp({}, new ManyLogs(50));
    await place.jobs.run('exports.run', run);
    assert.equal((await filesIn(directory)).length, 1);
    records.records.clear();
    await place.jobs.run('exports.run', run);
    assert.deepEqual(await filesIn(directory), []);
  });
});

describe('exports: what is kept', () => {
  test('a file is removed when its time is over; the record stays', async () => {
    const clock = new TestClock();
    const { place, records, exports, directory } = setUp({}, new ManyLogs(50), { clock });
    await place.jobs.run('exports.run', run);
    await place.jobs.run('exports.expire', {});
    assert.equal((await filesIn(directory)).length, 1);
    clock.advance(7 * 86_400_000);
    await place.jobs.run('exports.expire', {});
    assert.deepEqual(await filesIn(directory), []);
    assert.deepEqual([records.data().state, records.data().expiresAt], ['success', undefined]);
    assert.equal(await exports.open(exportRecord({ state: 'success' })), undefined);
  });

  test('a run that nobody is at is begun again, once', async () => {
    const clock = new TestClock();
    const { place, records } = setUp({}, new ManyLogs(50), { clock });
    const record = records.records.get('export-1') ?? exportRecord();
    records.records.set('export-1', { ...record, updatedAt: clock.now() });
    await place.jobs.run('exports.expire', {});
    assert.equal(place.jobs.added.length, 0);
    clock.advance(1_900_000);
    await place.jobs.run('exports.expire', {});
    assert.equal(place.jobs.added.length, 1);
    await place.jobs.drain();
    assert.equal(records.data().state, 'success');
  });

  test('rows of the last moments are waited for', async () => {
    const clock = new TestClock();
    const { place, exports } = setUp({}, new ManyLogs(1), { clock });
    await exports.enqueue(exportRecord({ to: clock.now() - 1000 }));
    await exports.enqueue(exportRecord({ to: clock.now() - 60_000 }));
    assert.deepEqual(
      place.jobs.added.map(({ delayMs }) => delayMs),
      [2000, 0],
    );
  });
});

describe('exports: links', () => {
  test('a token says what it is for until it ends; a changed one nothing', async () => {
    const clock = new TestClock();
    const { exports } = setUp({}, new ManyLogs(0), { clock });
    const record = exportRecord({ state: 'success', expiresAt: clock.now() + 86_400_000 });
    const { url, expiresAt } = await exports.link(record, 'https://weir.example');
    assert.match(url, /^https:\/\/weir\.example\/logs\/exports\/export-1\/file\?token=v1\./);
    assert.equal(expiresAt, clock.now() + 3_600_000);
    const token = new URL(url).searchParams.get('token') ?? '';
    assert.deepEqual(exports.readToken(token), {
      organisationId: 'org-1',
      exportId: 'export-1',
      run: 1,
      expiresAt,
    });
    for (const changed of [`${token.slice(0, -2)}AA`, token.replace('v1', 'v2'), '', 'x', token.slice(0, 40)])
      assert.throws(
        () => exports.readToken(changed),
        (error) => GatewayError.is(error) && error.code === 'key_invalid',
      );
    clock.advance(3_600_000);
    assert.throws(() => exports.readToken(token), /This link has ended/);
  });

  test('it ends with the file at the latest', async () => {
    const clock = new TestClock();
    const { exports } = setUp({}, new ManyLogs(0), { clock });
    const record = exportRecord({ state: 'success', expiresAt: clock.now() + 1000 });
    assert.equal((await exports.link(record, 'https://weir.example')).expiresAt, clock.now() + 1000);
  });
});

describe('exports: kill -9', () => {
  for (const at of ['between parts', 'between a part and its manifest', 'while the file is put together']) {
    test(`${at}: the next process goes on, and every row is there once`, async () => {
      const directory = path.join(folder, `killed-${at.replaceAll(' ', '-')}`);
      const child = spawn(
        process.execPath,
        ['--import', 'tsx', path.resolve('tests/kit/export-child.ts'), directory, at],
        { stdio: ['ignore', 'pipe', 'inherit'] },
      );
      const exited = once(child, 'exit');
      const [said] = (await once(child.stdout, 'data')) as [Buffer];
      assert.equal(said.toString().trim(), 'ready to be killed');
      child.kill('SIGKILL');
      assert.deepEqual(await exited, [null, 'SIGKILL']);
      const blobs = createFileBlobs(directory);
      const before = (await filesIn(directory)).filter((name) => name.startsWith('part-'));
      assert.ok(before.length > 0, 'parts were stored before');
      const records = new ExportRecords(exportRecord());
      const logs = new ManyLogs(9000, 3000);
      const place = exportPlace({ analytics: logs, resources: records.resources, blobs });
      const exports = createLogExports(place);
      await place.jobs.run('exports.run', run);
      assert.deepEqual(await numbersOf(exports, records), upTo(9000));
      assert.ok(
        logs.queries.every(({ after }) => after !== undefined),
        'what was stored is not read again',
      );
      assert.deepEqual(await filesIn(directory), ['logs-export-1.jsonl']);
    });
  }
});

test('the kit makes the same entry each time', () => {
  assert.deepEqual(logEntry(8), logEntry(8));
  assert.notEqual(logEntry(8).request.id, logEntry(9).request.id);
});
