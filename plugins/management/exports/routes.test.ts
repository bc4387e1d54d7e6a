import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { readFeatures } from '../../../core/access/features.ts';
import { createLogExports } from '../../../core/administration/exports/log-exports.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import { exportFields, type ExportField } from '../../../core/ports/request-row.ts';
import { defaultSecurity, type SecuritySettings } from '../../../core/ports/organisation-settings.ts';
import { createFileBlobs } from '../../../storage/blobs/file-blobs.ts';
import {
  expecting,
  openResourcesOfFile,
  startAdministration,
} from '../../../tests/kit/administration-kit.ts';
import { exportDirectory, exportPlace, ManyLogs } from '../../../tests/kit/export-kit.ts';
import { send } from '../../../tests/kit/http-kit.ts';
import { TestClock } from '../../../tests/kit/plugin-kit.ts';

const resources = await openResourcesOfFile();
const base = '/logs/exports';
const filters = {
  time_of_generation_min: '2026-05-17T00:00:00Z',
  time_of_generation_max: '2026-05-18T00:00:00Z',
};
const draft = { filters, requested_data: ['id', 'cost', 'created_at'] };

interface Setting {
  readonly count?: number;
  readonly maxRows?: number;
  readonly denied?: readonly ExportField[];
  readonly visibility?: Partial<SecuritySettings['data_visibility']>;
  readonly environment?: Readonly<Record<string, string>>;
}

/** A gateway whose exports run when the test says so, and one organisation. */
async function setUp(t: TestContext, setting: Setting = {}) {
  const { count = 20, maxRows = 1000, denied = [], visibility = {}, environment = {} } = setting;
  const folder = await mkdtemp(path.join(tmpdir(), 'weir-export-routes-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const logs = new ManyLogs(count);
  const clock = new TestClock();
  const known = new Map<string, KeyRecord>();
  const security = {
    ...defaultSecurity,
    data_visibility: { ...defaultSecurity.data_visibility, ...visibility },
  };
  const directory = exportDirectory({
    keyById: (id) => known.get(id),
    settingsIn: () => security,
    memberRole: (_, userId) => (userId === '' ? undefined : 'member'),
    user: (_, id) => (id === '' ? undefined : { id, role: 'member' }),
  });
  const features = readFeatures(environment);
  const place = exportPlace({
    analytics: logs,
    resources,
    blobs: createFileBlobs(folder),
    clock,
    directory,
    features,
    settings: { expires_days: 7, max_rows: maxRows, link_minutes: 60, denied_fields: denied },
  });
  const started = await startAdministration(t, resources, {
    exports: createLogExports(place),
    // A store is more than its own members.
    analytics: { logs: (query) => logs.logs(query), countLogs: (query) => logs.countLogs(query) },
    directory,
    features,
    clock,
  });
  const tenant = await started.tenant('exports');
  const key = (overrides: Partial<KeyRecord> = {}): KeyRecord => {
    const made = tenant.key(overrides);
    known.set(made.id, made);
    return made;
  };
  const service = key();
  known.set(tenant.owner.id, tenant.owner);
  return {
    ...started,
    ...tenant,
    ...expecting(started.call, service),
    key,
    known,
    service,
    logs,
    clock,
    jobs: place.jobs,
  };
}

describe('exports: routes', () => {
  test('drafted, changed, started, read, and downloaded by a link without a key', async (t) => {
    const { ok, refused, service, workspaceId, organisationId, jobs, gateway, logs, call } = await setUp(t);
    const body = {
      ...draft,
      description: 'For the audit',
      filters: { ...filters, status_code: '200', cost_max: 50 },
    };
    const made = await ok({ path: base, body });
    assert.deepEqual([made.total, made.object], [20, 'export']);
    assert.deepEqual(logs.counted[0], {
      window: { from: Date.UTC(2026, 4, 17), to: Date.UTC(2026, 4, 18) },
      visibility: { organisationId, workspaceId, asker: service.id },
      filter: { statusCodes: [200], cost: { max: 0.5 } },
    });
    const one = `${base}/${made.id}`;
    const read = await ok({ path: one });
    assert.deepEqual(
      [read.id, read.organisation_id, read.workspace_id, read.status, read.description, read.created_by],
      [made.id, organisationId, workspaceId, 'draft', 'For the audit', service.id],
    );
    assert.deepEqual(
      [read.filters, read.requested_data, read.format],
      [body.filters, ['id', 'created_at', 'cost'], 'jsonl'],
    );
    await refused(
      { path: `${one}/download` },
      409,
      /is \\"draft\\"\. Its file is there when it has succeeded/,
    );
    await refused({ method: 'POST', path: `${one}/cancel` }, 409, /Only one that is running/);
    const changed = await ok({
      method: 'PUT',
      path: one,
      body: { filters, requested_data: ['id', 'metadata'], format: 'csv', exportId: made.id },
    });
    assert.equal(changed.id, made.id);
    assert.match(
      (await ok({ method: 'POST', path: `${one}/start` })).message,
      /20 requests has been started/,
    );
    await refused(
      { method: 'PUT', path: one, body: { filters } },
      409,
      /is \\"in_progress\\"\. Only a draft/,
    );
    await refused({ method: 'POST', path: `${one}/start` }, 409, /Wait for it, or cancel it/);
    assert.equal(await jobs.drain(), 1);
    const done = await ok({ path: one });
    assert.deepEqual(
      [done.status, done.rows_written, done.error, done.total_records],
      ['success', 20, '', 20],
    );
    const listed = await ok({ path: `${base}?workspace_id=${workspaceId}` });
    assert.deepEqual([listed.total, listed.data[0].id, listed.data[0].filters], [1, made.id, filters]);
    const { signed_url: link } = await ok({ path: `${one}/download` });
    const url = new URL(link as string);
    assert.equal(url.origin, gateway.url);
    const file = await send(gateway.url, { method: 'GET', path: `${url.pathname}${url.search}` });
    assert.equal(file.status, 200);
    assert.deepEqual(
      ['content-type', 'content-length', 'content-disposition', 'cache-control'].map(
        (name) => file.headers[name],
      ),
      [
        'text/csv; charset=utf-8',
        String(done.bytes_written),
        `attachment; filename="logs-${made.id}.csv"`,
        'private, no-store',
      ],
    );
    assert.equal(file.text.split('\r\n').length, 22);
    assert.match(file.text, /^id,metadata\r\n00000000-/);
    const trail = (await call(service, { path: one })).status;
    assert.equal(trail, 200);
    const audit = await resources.read((reader) =>
      reader.audit.list(organisationId, { from: 0, to: 4e12 }, { offset: 0, limit: 50 }),
    );
    assert.deepEqual(
      audit.data.map(({ action, resourceType, resourceId }) => [action, resourceType, resourceId]).reverse(),
      ['create', 'update', 'export', 'export'].map((action) => [action, 'log_exports', made.id]),
    );
  });

  test('a link that was changed, is for another file, or has ended opens nothing', async (t) => {
    const { ok, gateway, jobs, clock } = await setUp(t);
    const links: URL[] = [];
    for (let at = 0; at < 2; at++) {
      const { id } = await ok({ path: base, body: draft });
      await ok({ method: 'POST', path: `${base}/${id}/start` });
      await jobs.drain();
      links.push(new URL((await ok({ path: `${base}/${id}/download` })).signed_url as string));
    }
    const [one, other] = links as [URL, URL];
    const get = async (where: string): Promise<number> =>
      (await send(gateway.url, { method: 'GET', path: where })).status;
    assert.equal(await get(`${one.pathname}${one.search}`), 200);
    assert.equal(await get(`/v1${one.pathname}${one.search}`), 200);
    assert.equal(await get(`${one.pathname}${other.search}`), 404);
    assert.equal(await get(one.pathname), 400);
    assert.equal(await get(`${one.pathname}?token=v1.a.b.c`), 401);
    assert.equal(await get(`${one.pathname}${one.search.slice(0, -3)}AAA`), 401);
    clock.advance(3_600_000);
    assert.equal(await get(`${one.pathname}${one.search}`), 401);
  });

  test('after its time the file is gone, and the export can be started again', async (t) => {
    const { ok, refused, jobs, clock } = await setUp(t);
    const { id } = await ok({ path: base, body: draft });
    await ok({ method: 'POST', path: `${base}/${id}/start` });
    await jobs.drain();
    await refused({ method: 'POST', path: `${base}/${id}/start` }, 409, /Download its file/);
    clock.advance(8 * 86_400_000);
    await refused({ path: `${base}/${id}/download` }, 404, /removed when its time was over/);
    await jobs.run('exports.expire', {});
    await ok({ method: 'POST', path: `${base}/${id}/start` });
    await jobs.drain();
    assert.equal((await ok({ path: `${base}/${id}` })).status, 'success');
    await ok({ path: `${base}/${id}/download` });
  });

  test('cancelled: stopped, without a file, and startable again', async (t) => {
    const { ok, refused, jobs } = await setUp(t);
    const { id } = await ok({ path: base, body: draft });
    await ok({ method: 'POST', path: `${base}/${id}/start` });
    assert.equal((await ok({ method: 'POST', path: `${base}/${id}/cancel` })).object, 'export');
    await jobs.drain();
    assert.equal((await ok({ path: `${base}/${id}` })).status, 'stopped');
    await refused({ path: `${base}/${id}/download` }, 409, /is \\"stopped\\"/);
    await ok({ method: 'POST', path: `${base}/${id}/start` });
    await jobs.drain();
    assert.equal((await ok({ path: `${base}/${id}` })).status, 'success');
  });

  const mistakes: readonly [string, object, RegExp][] = [
    ['nothing asked for', { filters, requested_data: [] }, /requested_data/],
    ['a field that there is not', { filters, requested_data: ['secret'] }, /requested_data\/0/],
    ['no filters', { requested_data: ['id'] }, /filters/],
    ['a filter that there is not', { ...draft, filters: { ...filters, colour: 'red' } }, /colour/],
    [
      'times the wrong way round',
      {
        ...draft,
        filters: {
          time_of_generation_min: filters.time_of_generation_max,
          time_of_generation_max: filters.time_of_generation_min,
        },
      },
      /time_of_generation_min/,
    ],
    [
      'a page without its size',
      { ...draft, filters: { ...filters, current_page: 1 } },
      /filters\/current_page needs \\"page_size\\"/,
    ],
    ['a page that is too long', { ...draft, filters: { ...filters, page_size: 50_001 } }, /page_size/],
    ['another workspace', { ...draft, workspace_id: 'ws-elsewhere' }, /workspace_id/],
    [
      'another workspace in the filters',
      { ...draft, filters: { ...filters, workspace_slug: 'ws-elsewhere' } },
      /workspace/,
    ],
    ['a format that there is not', { ...draft, format: 'xlsx' }, /format/],
  ];
  for (const [name, body, message] of mistakes) {
    test(`${name}: 400 that says where`, async (t) => {
      const { refused } = await setUp(t);
      await refused({ path: base, body }, 400, message);
    });
  }

  test('more rows than one file takes: said with both numbers, and pages of them are fine', async (t) => {
    const { ok, refused, jobs } = await setUp(t, { count: 1001, maxRows: 1000 });
    await refused(
      { path: base, body: draft },
      400,
      /match 1001 requests, and one file takes 1000 \(exports\.max_rows\)/,
    );
    const paged = { ...draft, filters: { ...filters, page_size: 600, current_page: 1 } };
    const { id, total } = await ok({ path: base, body: paged });
    assert.equal(total, 401);
    await ok({ method: 'POST', path: `${base}/${id}/start` });
    await jobs.drain();
    assert.equal((await ok({ path: `${base}/${id}` })).rows_written, 401);
  });

  test('what is denied cannot be asked for, and is listed', async (t) => {
    const { ok, refused } = await setUp(t, { denied: ['response', 'request'] });
    const body = { filters, requested_data: ['id', 'request', 'response'] };
    await refused(
      { path: base, body },
      403,
      /These fields cannot be exported here \(exports\.denied_fields\): \\"request\\", \\"response\\"/,
    );
    const { id } = await ok({ path: base, body: draft });
    await refused({ method: 'PUT', path: `${base}/${id}`, body }, 403, /\\"request\\"/);
    assert.deepEqual(await ok({ path: `${base}/field-restrictions` }), {
      object: 'field-restrictions',
      denied_fields: ['request', 'response'],
      allowed_fields: exportFields.filter((field) => field !== 'request' && field !== 'response'),
    });
  });

  test('five of a workspace run at the same time', async (t) => {
    const { ok, refused } = await setUp(t);
    const ids: string[] = [];
    for (let at = 0; at < 6; at++) ids.push((await ok({ path: base, body: draft })).id as string);
    for (const id of ids.slice(0, 5)) await ok({ method: 'POST', path: `${base}/${id}/start` });
    const last = { method: 'POST', path: `${base}/${ids[5] ?? ''}/start` };
    await refused(last, 409, /5 exports of the workspace are running/);
    await ok({ method: 'POST', path: `${base}/${ids[0] ?? ''}/cancel` });
    await ok(last);
  });

  test('a change on what somebody else has changed meanwhile is refused', async (t) => {
    const { ok, refused } = await setUp(t);
    const { id } = await ok({ path: base, body: draft });
    await ok({ method: 'PUT', path: `${base}/${id}`, body: { filters } });
    const stale = { 'if-match': '"1"' };
    await refused(
      { method: 'PUT', path: `${base}/${id}`, body: { filters }, headers: stale },
      412,
      /version 2/,
    );
    await refused({ method: 'POST', path: `${base}/${id}/start`, headers: stale }, 412, /version 2/);
  });
});

describe('exports: who may', () => {
  test('keys without the scope, nobody, and other organisations: refused', async (t) => {
    const { ok, refused, key, call, tenant } = await setUp(t);
    const { id } = await ok({ path: base, body: draft });
    const plain = key({ scopes: ['logs.view', 'logs.list'] });
    const stranger = (await tenant('stranger')).owner;
    for (const [method, where, body] of [
      ['POST', base, draft],
      ['GET', `${base}/${id}`, undefined],
      ['PUT', `${base}/${id}`, { filters }],
      ['POST', `${base}/${id}/start`, undefined],
      ['POST', `${base}/${id}/cancel`, undefined],
      ['GET', `${base}/${id}/download`, undefined],
    ] as const) {
      const asked = { method, path: where, body };
      await refused(asked, 403, /lacks the scope \\?"logs\.export/, plain);
      assert.equal((await call(undefined, asked)).status, 401);
      if (where !== base) await refused(asked, 404, /No export/, stranger);
    }
    assert.equal((await ok({ path: base }, stranger)).total, 0);
  });

  test("keys of the organisation say whose; another workspace's keys see nothing of it", async (t) => {
    const { ok, refused, owner, key, workspaceId, call } = await setUp(t);
    await refused({ path: base, body: draft }, 400, /workspace_id is missing/, owner);
    const { id } = await ok({ path: base, body: { ...draft, workspace_id: workspaceId } }, owner);
    assert.equal((await ok({ path: `${base}/${id}` })).id, id);
    const made = await ok({ path: '/admin/workspaces', body: { name: 'the other' } }, owner);
    const other = key({ workspaceId: made.id as string });
    assert.equal((await call(other, { path: `${base}/${id}` })).status, 404);
    assert.equal((await ok({ path: base }, other)).total, 0);
    await refused({ path: `${base}?workspace_id=${workspaceId}` }, 404, /No workspace/, other);
    assert.equal((await ok({ path: base }, owner)).total, 1);
  });

  test('who sees their own requests alone exports these, and sees no other export', async (t) => {
    const { ok, call, key, logs, jobs, organisationId, workspaceId } = await setUp(t, {
      visibility: { membersViewAllData: false },
    });
    const ann = key({ kind: 'workspace-user', userId: 'ann', scopes: ['logs.export'] });
    const bob = key({ kind: 'workspace-user', userId: 'bob', scopes: ['logs.export'] });
    const all = (await ok({ path: base, body: draft })).id as string;
    const hers = (await ok({ path: base, body: draft }, ann)).id as string;
    assert.deepEqual(logs.counted.at(-1)?.visibility, {
      organisationId,
      workspaceId,
      userId: 'ann',
      asker: ann.id,
    });
    for (const [caller, id, status] of [
      [ann, hers, 200],
      [ann, all, 404],
      [bob, hers, 404],
      [bob, all, 404],
    ] as const)
      assert.equal((await call(caller, { path: `${base}/${id}` })).status, status);
    const listed = await ok({ path: base }, ann);
    assert.deepEqual([listed.total, listed.data.map((one: { id: string }) => one.id)], [1, [hers]]);
    assert.equal((await ok({ path: base }, bob)).total, 0);
    assert.equal((await ok({ path: base })).total, 2);
    await ok({ method: 'POST', path: `${base}/${hers}/start` }, ann);
    await jobs.drain();
    assert.ok(logs.queries.every(({ visibility }) => visibility.userId === 'ann'));
    assert.equal((await call(bob, { path: `${base}/${hers}/download` })).status, 404);
    assert.equal((await call(ann, { path: `${base}/${hers}/download` })).status, 200);
  });

  test('a draft of somebody who may not any more is not started by others', async (t) => {
    const { ok, refused, known, key, jobs, owner } = await setUp(t);
    const gone = key({ name: 'short-lived' });
    const { id } = await ok({ path: base, body: draft }, gone);
    known.delete(gone.id);
    await refused({ method: 'POST', path: `${base}/${id}/start` }, 403, /short-lived.* is gone/, owner);
    assert.equal(await jobs.drain(), 0);
  });

  test('switched off by the operator: refused, links included', async (t) => {
    const { refused } = await setUp(t, { environment: { DATA_EXPORTS_ENABLED: 'OFF' } });
    await refused({ path: base, body: draft }, 403, /DATA_EXPORTS_ENABLED is OFF/);
    await refused({ path: `${base}/x/file?token=x` }, 403, /DATA_EXPORTS_ENABLED is OFF/);
  });

  test('where nothing is administered there are none', async (t) => {
    const { call } = await startAdministration(t);
    const { owner } = await setUp(t);
    const answer = await call(owner, { path: base, body: draft });
    assert.deepEqual([answer.status, answer.json().data?.errorCode], [400, 'AB01']);
    assert.match(answer.text, /storage\.resources\.url is \\"none:\\"/);
  });
});
