import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Transport } from '../../../core/ports/transport.ts';
import { FileStore, JobStore } from '../stores.ts';
import { systemClock } from '../../../core/ports/clock.ts';
import { exchange, newTransport, textOf } from '../mock.test-support.ts';
import { createMockTransport } from '../transport.ts';

async function call(method: string, path: string, body: object | null = null, transport?: Transport) {
  const received = await exchange({ method, path, body }, transport ?? newTransport());
  return { status: received.status, body: JSON.parse(textOf(received)) };
}

function form(parts: readonly [head: string, content: string][]): Buffer {
  const text = parts.map(
    ([head, content]) => `--B\r\nContent-Disposition: form-data; ${head}\r\n\r\n${content}\r\n`,
  );
  return Buffer.from(`${text.join('')}--B--\r\n`);
}

const multipart = ['content-type', 'multipart/form-data; boundary=B'];

describe('fine-tuning jobs', () => {
  const fields = [
    'id',
    'object',
    'created_at',
    'finished_at',
    'estimated_finish',
    'error',
    'fine_tuned_model',
    'hyperparameters',
    'model',
    'organization_id',
    'result_files',
    'status',
    'trained_tokens',
    'training_file',
    'validation_file',
    'integrations',
    'seed',
  ];

  it('are listed 20 at a time, newest first', async () => {
    const { body } = await call('GET', '/fine_tuning/jobs');
    assert.deepEqual(Object.keys(body), ['object', 'data', 'has_more']);
    assert.equal(body.object, 'list');
    assert.equal(body.data.length, 20);
    assert.equal(body.has_more, true);
    const created = body.data.map((job: { created_at: number }) => job.created_at);
    assert.deepEqual(
      created,
      [...created].sort((a, b) => b - a),
    );
  });

  it('are all reached by following `after`, each once, in all six states', async () => {
    const seen: { id: string; status: string }[] = [];
    for (let more = true, pages = 0; more && pages < 20; pages++) {
      const after = seen.length === 0 ? '' : `&after=${seen.at(-1)!.id}`;
      const { body } = await call('GET', `/fine_tuning/jobs?limit=7${after}`);
      seen.push(...body.data);
      more = body.has_more;
    }
    assert.equal(seen.length, 48);
    assert.equal(new Set(seen.map((job) => job.id)).size, 48);
    assert.deepEqual([...new Set(seen.map((job) => job.status))].sort(), [
      'cancelled',
      'failed',
      'queued',
      'running',
      'succeeded',
      'validating_files',
    ]);
  });

  it('have exactly the fields of the specification, filled as their state demands', async () => {
    const { body } = await call('GET', '/fine_tuning/jobs?limit=48');
    const files = new FileStore();
    for (const job of body.data) {
      assert.deepEqual(Object.keys(job), fields);
      const ended = ['succeeded', 'failed', 'cancelled'].includes(job.status);
      assert.equal(job.finished_at !== null, ended);
      assert.equal(job.estimated_finish !== null, job.status === 'running');
      assert.equal(job.fine_tuned_model !== null, job.status === 'succeeded');
      assert.equal(job.trained_tokens !== null, job.status === 'succeeded');
      assert.equal(job.result_files.length > 0, job.status === 'succeeded');
      assert.equal(job.error !== null, job.status === 'failed');
      for (const id of [job.training_file, job.validation_file, ...job.result_files]) {
        assert.ok(id === null || files.get(id) !== undefined, id);
      }
    }
  });

  const wrong = ['limit=0', 'limit=101', 'limit=x', 'limit=-1', 'limit='];
  for (const query of wrong) {
    it(`refuse ${query}`, async () => {
      const { status, body } = await call('GET', `/fine_tuning/jobs?${query}`);
      assert.equal(status, 400);
      assert.equal(body.error.param, 'limit');
    });
  }

  it('an unknown `after` or id is a 404', async () => {
    assert.equal((await call('GET', '/fine_tuning/jobs?after=none')).status, 404);
    assert.equal((await call('GET', '/fine_tuning/jobs/none')).status, 404);
    assert.equal((await call('POST', '/fine_tuning/jobs/none/cancel')).status, 404);
  });

  it('are created, listed first, found and cancelled once', async () => {
    const transport = newTransport();
    const created = await call(
      'POST',
      '/fine_tuning/jobs',
      {
        model: 'gpt-4o-mini-2024-07-18',
        training_file: 'file-mock-training-1',
        hyperparameters: { n_epochs: 3 },
        integrations: [{ type: 'tracker', tracker: { project: 'p', tags: ['a'] } }],
      },
      transport,
    );
    assert.equal(created.status, 200);
    assert.deepEqual(Object.keys(created.body), fields);
    assert.equal(created.body.status, 'validating_files');
    assert.deepEqual(created.body.integrations[0].tracker, {
      project: 'p',
      name: null,
      entity: null,
      tags: ['a'],
    });
    const path = `/fine_tuning/jobs/${created.body.id}`;
    assert.deepEqual((await call('GET', path, null, transport)).body, created.body);
    const list = await call('GET', '/fine_tuning/jobs?limit=1', null, transport);
    assert.equal(list.body.data[0].id, created.body.id);
    const cancelled = await call('POST', `${path}/cancel`, null, transport);
    assert.equal(cancelled.body.status, 'cancelled');
    assert.ok(cancelled.body.finished_at >= created.body.created_at);
    assert.equal((await call('POST', `${path}/cancel`, null, transport)).status, 400);
  });

  const base = { model: 'm', training_file: 'file-mock-training-1' };
  const invalid: readonly [object, string][] = [
    [{ training_file: 'file-mock-training-1' }, 'model'],
    [{ model: 'm' }, 'training_file'],
    [{ model: 'm', training_file: 'none' }, 'training_file'],
    [{ ...base, validation_file: 'none' }, 'validation_file'],
    [{ ...base, hyperparameters: { n_epochs: 51 } }, 'hyperparameters.n_epochs'],
    [{ ...base, hyperparameters: { n_epochs: 'many' } }, 'hyperparameters.n_epochs'],
    [{ ...base, integrations: [{ type: 'wandb' }] }, 'integrations[0].type'],
    [{ ...base, integrations: Array.from({ length: 6 }, () => ({})) }, 'integrations'],
  ];
  for (const [body, param] of invalid) {
    it(`creation names ${param}`, async () => {
      const answer = await call('POST', '/fine_tuning/jobs', body);
      assert.equal(answer.status, 400);
      assert.equal(answer.body.error.param, param);
    });
  }

  it('are bounded: the oldest created one makes room, those from the start stay', () => {
    const store = new JobStore();
    const job = { ...store.page(undefined, 1)!.jobs[0]! };
    for (let i = 0; i < 1001; i++) store.add({ ...job, id: `job-${i}` });
    assert.equal(store.page(undefined, 5000)!.jobs.length, 1048);
    assert.equal(store.get('job-0'), undefined);
    assert.ok(store.get('job-1'));
    assert.ok(store.get('ftjob-mock-001'));
  });
});

describe('files', () => {
  it('are listed in the shape of the specification, filtered by purpose', async () => {
    const all = await call('GET', '/files');
    assert.deepEqual(Object.keys(all.body), ['data', 'object', 'first_id', 'last_id', 'has_more']);
    assert.deepEqual([all.body.object, all.body.has_more], ['list', false]);
    for (const file of all.body.data) {
      assert.equal(file.object, 'file');
      assert.equal(typeof file.status_details, 'string');
      assert.ok(Number.isInteger(file.bytes) && Number.isInteger(file.created_at));
    }
    const some = await call('GET', '/files?purpose=fine-tune');
    assert.ok(some.body.data.length > 0 && some.body.data.length < all.body.data.length);
    assert.ok(some.body.data.every((file: { purpose: string }) => file.purpose === 'fine-tune'));
    assert.deepEqual((await call('GET', '/files?purpose=none')).body.data, []);
  });

  for (const order of ['', '&order=desc', '&order=asc']) {
    it(`are all reached by following \`after\`, each once${order && `, ${order.slice(1)}`}`, async () => {
      const { body: whole } = await call('GET', `/files?limit=10000${order}`);
      const seen: string[] = [];
      for (let more = true, pages = 0; more && pages < 20; pages++) {
        const after = seen.length === 0 ? '' : `&after=${seen.at(-1)}`;
        const { body } = await call('GET', `/files?limit=4${order}${after}`);
        const ids = body.data.map(({ id }: { id: string }) => id);
        assert.deepEqual([body.first_id, body.last_id], [ids[0], ids.at(-1)]);
        seen.push(...ids);
        more = body.has_more;
      }
      assert.deepEqual(
        seen,
        whole.data.map(({ id }: { id: string }) => id),
      );
      assert.equal(new Set(seen).size, 15);
      assert.equal(seen[0] === 'file-mock-training-1', order === '&order=asc');
    });
  }

  it('a page of one purpose goes on after a file of that purpose, and none comes after the last', async () => {
    const first = await call('GET', '/files?purpose=fine-tune&limit=2');
    const rest = await call('GET', `/files?purpose=fine-tune&after=${first.body.last_id}`);
    assert.deepEqual([first.body.data.length, first.body.has_more], [2, true]);
    assert.deepEqual([rest.body.data.length, rest.body.has_more], [3, false]);
    const none = await call('GET', `/files?purpose=fine-tune&after=${rest.body.last_id}`);
    assert.deepEqual(none.body, { data: [], object: 'list', first_id: null, last_id: null, has_more: false });
  });

  for (const query of ['limit=0', 'limit=10001', 'limit=x', 'order=up']) {
    it(`refuse ${query}`, async () => {
      const { status, body } = await call('GET', `/files?${query}`);
      assert.deepEqual([status, body.error.param], [400, query.split('=')[0]]);
    });
  }

  it('an unknown `after` is a 404', async () => {
    assert.equal((await call('GET', '/files?after=none')).status, 404);
  });

  it('are uploaded, found, read back byte by byte, and deleted', async () => {
    const transport = newTransport();
    const content = '{"a":1}\r\n--not-a-boundary\r\n\0';
    const body = form([
      ['name="purpose"', 'fine-tune'],
      ['name="file"; filename="data.jsonl"', content],
    ]);
    const uploaded = await exchange({ method: 'POST', path: '/files', headers: multipart, body }, transport);
    const record = JSON.parse(textOf(uploaded));
    assert.equal(record.filename, 'data.jsonl');
    assert.equal(record.purpose, 'fine-tune');
    assert.equal(record.bytes, content.length);
    const path = `/files/${record.id}`;
    assert.deepEqual((await call('GET', path, null, transport)).body, record);
    assert.equal((await call('GET', '/files', null, transport)).body.data[0].id, record.id);
    const read = await exchange({ path: `${path}/content` }, transport);
    assert.equal(textOf(read), content);
    assert.deepEqual((await call('DELETE', path, null, transport)).body, {
      id: record.id,
      object: 'file',
      deleted: true,
    });
    assert.equal((await call('GET', path, null, transport)).status, 404);
    assert.equal((await call('DELETE', path, null, transport)).status, 404);
    assert.equal((await call('GET', `${path}/content`, null, transport)).status, 404);
  });

  const file = 'name="file"; filename="a"';
  const wrong: readonly [string, readonly string[], Buffer, string | null][] = [
    ['no file', multipart, form([['name="purpose"', 'batch']]), 'file'],
    ['no purpose', multipart, form([[file, 'x']]), 'purpose'],
    ['no multipart', ['content-type', 'application/json'], Buffer.from('{}'), null],
    ['no boundary', ['content-type', 'multipart/form-data'], form([[file, 'x']]), null],
    ['a torn body', multipart, form([[file, 'x']]).subarray(0, -8), null],
    ['an empty body', multipart, Buffer.alloc(0), null],
  ];
  for (const [name, headers, body, param] of wrong) {
    it(`an upload with ${name} is refused`, async () => {
      const received = await exchange({ method: 'POST', path: '/files', headers, body });
      assert.equal(received.status, 400);
      assert.equal(JSON.parse(textOf(received)).error.param, param);
    });
  }

  it('are bounded in number and in bytes: the oldest upload makes room', () => {
    const store = new FileStore();
    const seeds = store.count;
    const add = (id: string, bytes: number) =>
      store.add({ id, filename: id, purpose: 'batch', content: Buffer.alloc(bytes), createdAt: 0 });
    for (let i = 0; i < 201; i++) add(`small-${i}`, 1);
    assert.equal(store.count, seeds + 200);
    assert.equal(store.get('small-0'), undefined);
    add('large-1', 40 * 1024 * 1024);
    add('large-2', 40 * 1024 * 1024);
    assert.equal(store.get('large-1'), undefined);
    assert.ok(store.get('large-2'));
  });

  it('belong to one transport', async () => {
    const one = createMockTransport({ clock: systemClock });
    await call('DELETE', '/files/file-mock-batch-1', null, one);
    assert.equal((await call('GET', '/files/file-mock-batch-1')).status, 200);
  });
});
