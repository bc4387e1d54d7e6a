// Exports of logs as users of the `portkey-ai` client make them: with only the base URL changed.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { Portkey } from 'portkey-ai';
import { createLogExports } from '../../core/administration/exports/log-exports.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { createFileBlobs } from '../../storage/blobs/file-blobs.ts';
import { openResourcesOfFile, startAdministration } from '../kit/administration-kit.ts';
import { exportDirectory, exportPlace, ManyLogs } from '../kit/export-kit.ts';
import { failureOf } from './sdk-setting.ts';

const resources = await openResourcesOfFile();

test('log exports: create, retrieve, list, update, start, download, cancel', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'weir-sdk-exports-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const logs = new ManyLogs(12);
  const known = new Map<string, KeyRecord>();
  const place = exportPlace({
    analytics: logs,
    resources,
    blobs: createFileBlobs(folder),
    directory: exportDirectory({ keyById: (id) => known.get(id) }),
  });
  const { gateway, tenant, call } = await startAdministration(t, resources, {
    exports: createLogExports(place),
    clock: place.clock,
    analytics: { logs: (query) => logs.logs(query), countLogs: (query) => logs.countLogs(query) },
  });
  const { key, workspaceId } = await tenant('sdk');
  const service = key({});
  known.set(service.id, service);
  // The key is known to the gateway from its first call on.
  await call(service, { path: '/logs/exports' });
  const portkey = new Portkey({ apiKey: `wk_${service.id}`, baseURL: `${gateway.url}/v1` });
  const { exports } = portkey.logs;
  const filters = {
    time_of_generation_min: '2026-05-17T00:00:00Z',
    time_of_generation_max: '2026-05-18T00:00:00Z',
  };
  const made = await exports.create({
    filters,
    workspaceId,
    description: 'From the client',
    requestedData: ['id', 'ai_model'],
  });
  assert.deepEqual([made.total, made.object], [12, 'export']);
  const exportId = made.id ?? '';
  const read = await exports.retrieve({ exportId });
  assert.deepEqual(
    [read.status, read.requested_data, read.description],
    ['draft', ['id', 'ai_model'], 'From the client'],
  );
  assert.equal((await exports.list({ workspaceId })).total, 1);
  assert.equal(
    (await exports.update({ exportId, workspaceId, filters, requestedData: ['id'] })).id,
    exportId,
  );
  assert.equal((await exports.start({ exportId })).object, 'export');
  await place.jobs.drain();
  assert.equal((await exports.retrieve({ exportId })).status, 'success');
  const { signed_url: link = '' } = await exports.download({ exportId });
  const lines = (await (await fetch(link)).text()).split('\n');
  assert.equal(lines.length, 13);
  assert.deepEqual(Object.keys(JSON.parse(lines[0] ?? '') as object), ['id']);
  assert.match((await failureOf(exports.cancel({ exportId }))).message, /Only one that is running/);
});
