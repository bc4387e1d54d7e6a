import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { openBlobs } from '../../main/open-jobs.ts';
import { createLogExports } from '../../core/administration/exports/log-exports.ts';
import { systemClock as clock } from '../../core/ports/clock.ts';
import { exportPlace, exportRecord, ExportRecords, ManyLogs } from '../../tests/kit/export-kit.ts';
import { S3Server } from '../../tests/kit/s3-server.ts';

let s3: S3Server;
before(async () => {
  s3 = await new S3Server().start();
});
after(() => s3.close());

const settings = () => ({
  url: `s3://${s3.bucket}`,
  region: s3.region,
  endpoint: s3.origin,
  path_style: true,
  expires_days: 7,
  max_rows: 1_000_000,
  link_minutes: 60,
  denied_fields: [],
});
const environment = () => ({
  AWS_ACCESS_KEY_ID: s3.keys.accessKeyId,
  AWS_SECRET_ACCESS_KEY: s3.keys.secretAccessKey,
});

test('an export to a bucket that fails now and then: one whole file, no parts, no open uploads', async () => {
  const blobs = await openBlobs({
    settings: settings(),
    data: '/nowhere',
    environment: environment(),
    clock,
  });
  let asked = 0;
  s3.fault = () => {
    asked += 1;
    return asked % 5 === 0 ? { status: 503, code: 'SlowDown' } : undefined;
  };
  const records = new ExportRecords(exportRecord());
  const logs = new ManyLogs(6000, 3000);
  const place = exportPlace({ analytics: logs, resources: records.resources, blobs, clock });
  const exports = createLogExports(place);
  await exports.enqueue(exportRecord());
  await place.jobs.drain();
  assert.deepEqual([records.data().state, records.data().rows], ['success', 6000]);
  assert.deepEqual([[...s3.objects.keys()], s3.uploads.size], [['org-1/export-1/1/logs-export-1.jsonl'], 0]);
  s3.fault = () => undefined;
  const { url } = await exports.link(exportRecord({ state: 'success' }), 'https://weir.example');
  assert.ok(url.startsWith(s3.origin));
  const answer = await fetch(url);
  assert.equal(answer.headers.get('content-disposition'), 'attachment; filename="logs-export-1.jsonl"');
  const lines = (await answer.text()).trimEnd().split('\n');
  const found = lines.map((line) => (JSON.parse(line) as { request: { index: number } }).request.index);
  assert.deepEqual(
    found,
    Array.from({ length: 6000 }, (_, index) => index),
  );
  await blobs.close();
});

test('a bucket without keys: one sentence that names both places', async () => {
  const opening = openBlobs({ settings: settings(), data: '/nowhere', environment: {}, clock });
  await assert.rejects(
    opening,
    /exports\.access_key_id and exports\.secret_access_key, or AWS_ACCESS_KEY_ID/,
  );
  const half = { ...settings(), access_key_id: 'one of two' };
  await assert.rejects(
    openBlobs({ settings: half, data: '/nowhere', environment: environment(), clock }),
    /its keys are missing/,
  );
});
