// Logs as files, as a user gets them: requests through the gateway, an export of them, its file by the link.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { parquetReadObjects } from 'hyparquet';
import path from 'node:path';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { send } from '../kit/http-kit.ts';
import { parseCsv } from '../kit/parse-csv.ts';
import {
  eventually,
  ownerKey,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';
import { S3Server } from '../kit/s3-server.ts';

const requests = 25;
let weir: WeirProcess;
let data = '';
let s3: S3Server;

const yaml = (exports: object) => ({
  version: 1,
  storage: { resources: { url: 'pglite:' }, journal: { ship_ms: 50 } },
  exports,
  pipelines: [
    { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
    { name: 'gateway', match: { path: '/**' }, plugins: ['auth', 'provider', 'logger'] },
  ],
});

before(async () => {
  if (chdbMissing) return;
  data = path.join(await temporaryFolder(), 'data');
  s3 = await new S3Server().start();
  weir = await startWeir({ yaml: yaml({ denied_fields: ['metadata'] }), data });
});
after(async () => {
  await stopEverything();
  if (!chdbMissing) await s3.close();
});

async function admin(where: string, { method, body }: { method?: string; body?: unknown } = {}) {
  const answer = await send(weir.url, {
    path: `/v1${where}`,
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    ...(body !== undefined && { body }),
    headers: { 'x-service-api-key': ownerKey },
  });
  assert.equal(answer.status, 200, `${where}: ${answer.text}\n${weir.stderr()}`);
  return answer.json();
}

async function exported(format: string): Promise<{ id: string; file: Buffer; answer: Response }> {
  const { data: workspaces } = await admin('/admin/workspaces');
  const { id } = await admin('/logs/exports', {
    body: {
      workspace_id: workspaces[0].id,
      filters: { endpoint: 'chat.completions' },
      requested_data: ['id', 'request', 'response', 'cost', 'is_success', 'ai_model', 'total_units'],
      format,
    },
  });
  await admin(`/logs/exports/${id}/start`, { method: 'POST' });
  return finished(id as string);
}

async function finished(id: string): Promise<{ id: string; file: Buffer; answer: Response }> {
  await eventually(
    async () => {
      const { status, error } = await admin(`/logs/exports/${id}`);
      assert.notEqual(status, 'failed', error as string);
      return status === 'success' ? true : undefined;
    },
    () => `the export ${id}; the gateway says:\n${weir.stderr()}`,
  );
  const { signed_url: link } = await admin(`/logs/exports/${id}/download`);
  const answer = await fetch(link as string);
  assert.equal(answer.status, 200);
  return { id, answer, file: Buffer.from(await answer.arrayBuffer()) };
}

describe('exports over a real gateway', { skip: chdbMissing }, () => {
  const ids: string[] = [];

  test('requests become lines of JSON, a table as text and a table in columns: the same rows', async () => {
    for (let at = 0; at < requests; at++) {
      const answer = await send(weir.url, {
        path: '/v1/chat/completions',
        headers: { 'x-service-api-key': ownerKey, 'x-service-provider': 'mock' },
        body: { model: 'mock-gpt', messages: [{ role: 'user', content: `Number ${at}, "quoted",\r\n=1+1` }] },
      });
      assert.equal(answer.status, 200);
      ids.push(String(answer.headers['x-service-request-id']));
    }
    const [jsonl, csv, parquet] = await Promise.all([
      exported('jsonl'),
      exported('csv'),
      exported('parquet'),
    ]);
    const lines = jsonl.file.toString().trimEnd().split('\n');
    const rows = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    assert.deepEqual(rows.map(({ id }) => id).sort(), [...ids].sort());
    assert.match(JSON.stringify(rows[0]?.['request']), /Number 0, \\"quoted\\",\\r\\n=1\+1/);
    const [names = [], ...cells] = parseCsv(csv.file.toString());
    const table = cells.map((row) => Object.fromEntries(names.map((name, index) => [name, row[index]])));
    const columns = await parquetReadObjects({ file: new Uint8Array(parquet.file).buffer });
    assert.deepEqual([table.length, columns.length], [requests, requests]);
    rows.forEach((row, index) => {
      for (const other of [table[index], columns[index]]) {
        assert.equal(other?.['id'], row['id']);
        assert.deepEqual(JSON.parse(String(other?.['request'])), row['request']);
        assert.deepEqual(JSON.parse(String(other?.['response'])), row['response']);
        assert.ok(Math.abs(Number(other?.['cost']) - Number(row['cost'])) < 1e-12);
        assert.equal(Number(other?.['total_units']), row['total_units']);
        assert.equal(String(other?.['is_success']), 'true');
        assert.equal(other?.['ai_model'], row['ai_model']);
      }
    });
    assert.ok(Number(rows[0]?.['cost']) > 0);
    assert.match(csv.answer.headers.get('content-disposition') ?? '', /attachment; filename="logs-.*\.csv"/);
  });

  test('what the operator denies is denied', async () => {
    assert.deepEqual((await admin('/logs/exports/field-restrictions')).denied_fields, ['metadata']);
  });

  test('kill -9 right behind the start: the next gateway on the data folder makes the file', async () => {
    const { data: workspaces } = await admin('/admin/workspaces');
    const body = { workspace_id: workspaces[0].id, filters: {}, requested_data: ['id'] };
    const { id } = await admin('/logs/exports', { body });
    await admin(`/logs/exports/${id}/start`, { method: 'POST' });
    await weir.stop('SIGKILL');
    weir = await startWeir({ yaml: yaml({}), data });
    const { file } = await finished(id as string);
    const found = file.toString().trimEnd().split('\n');
    const exportedIds = found.map((line) => (JSON.parse(line) as { id: string }).id);
    assert.equal(new Set(exportedIds).size, exportedIds.length);
    assert.ok(ids.every((one) => exportedIds.includes(one)));
  });

  test('to a bucket: the link leads there, and nothing of it is left beside the file', async () => {
    await weir.stop();
    const { accessKeyId, secretAccessKey } = s3.keys;
    weir = await startWeir({
      yaml: yaml({ url: `s3://${s3.bucket}/weir`, region: s3.region, endpoint: s3.origin, path_style: true }),
      data,
      env: { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey },
    });
    const { id, file, answer } = await exported('csv');
    assert.ok(answer.url.startsWith(s3.origin));
    assert.equal(parseCsv(file.toString()).length, requests + 1);
    // The parts go when the export has succeeded.
    await eventually(
      () => s3.objects.size === 1 || undefined,
      () => `one file; there are ${[...s3.objects.keys()].join()}`,
    );
    const [name] = s3.objects.keys();
    assert.match(name ?? '', new RegExp(`^weir/[^/]+/${id}/1/logs-${id}\\.csv$`));
  });
});
