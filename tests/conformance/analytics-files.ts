import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { rm, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Analytics, StoredRows } from '../../core/ports/analytics.ts';
import { countOf, day, hasCode, newToken } from './analytics-probe.ts';
import { bodyRow, hostileTexts, ndjson, requestRow } from './analytics-rows.ts';

/** Rows that stand in a file are stored as those that are handed over, and a file in trouble stores nothing. */
export function storesRowsOfFiles(analytics: () => Analytics, folder: () => string): void {
  const unavailable = hasCode('store_unavailable');

  async function file(...parts: readonly Uint8Array[]): Promise<StoredRows> {
    const name = path.join(folder(), `${randomUUID()} ä&=#.rows`);
    const bytes = Buffer.concat(parts);
    await writeFile(name, bytes);
    return { path: name, from: 0, end: bytes.length };
  }

  test('a byte range of a file is stored, and nothing around it', async () => {
    const organisation_id = randomUUID();
    const row = (): Buffer => ndjson([requestRow({ organisation_id })]);
    const before = row();
    const wanted = Buffer.concat([row(), row(), row()]);
    const rows = await file(before, wanted, row());
    const { length } = before;
    await analytics().insert('requests', { ...rows, from: length, end: length + wanted.length }, newToken());
    assert.equal(await countOf(analytics(), organisation_id), 3);
  });

  test('rows of a file come back as they were, also when they are many megabytes', async () => {
    const organisation_id = randomUUID();
    const requests = hostileTexts.map((text) => requestRow({ organisation_id, prompt: text }));
    const bodies = requests.map((request, i) =>
      bodyRow(request, { request: hostileTexts[i] as string, response: randomUUID().repeat(20_000) }),
    );
    await analytics().insert('requests', await file(ndjson(requests)), newToken());
    await analytics().insert('bodies', await file(ndjson(bodies)), newToken());
    for (const [i, request] of requests.entries()) {
      const found = await analytics().requestById(request.id, day, { organisationId: organisation_id });
      assert.deepEqual(found, { request, body: bodies[i] });
    }
  });

  test('a token holds for rows of files and rows of memory alike', async () => {
    const organisation_id = randomUUID();
    const bytes = ndjson([requestRow({ organisation_id }), requestRow({ organisation_id })]);
    const token = newToken();
    const rows = await file(bytes);
    await Promise.all([1, 2, 3].map(() => analytics().insert('requests', rows, token)));
    await analytics().insert('requests', bytes, token);
    assert.equal(await countOf(analytics(), organisation_id), 2);
  });

  test('a range without bytes stores nothing', async () => {
    const rows = await file(ndjson([requestRow()]));
    await analytics().insert('requests', { ...rows, end: 0 }, newToken());
  });

  test('a file that is gone or too short is to be tried again, and stores no part of itself', async () => {
    const organisation_id = randomUUID();
    const one = ndjson([requestRow({ organisation_id })]);
    const rows = await file(one, ndjson([requestRow({ organisation_id })]));
    await truncate(rows.path, one.length);
    const token = newToken();
    await assert.rejects(analytics().insert('requests', rows, token), unavailable);
    assert.equal(await countOf(analytics(), organisation_id), 0);
    await rm(rows.path);
    await assert.rejects(analytics().insert('requests', rows, token), unavailable);
    const whole = { ...rows, end: one.length };
    await writeFile(rows.path, one);
    await analytics().insert('requests', whole, token);
    assert.equal(await countOf(analytics(), organisation_id), 1);
  });

  test('a bad row in a file takes its block with it, and is the rows’ fault', async () => {
    const organisation_id = randomUUID();
    const good = ndjson([requestRow({ organisation_id })]);
    const rows = await file(good, Buffer.from('{"id":"CONFIDENTIAL"}\n'), good);
    await assert.rejects(analytics().insert('requests', rows, newToken()), (error: Error) => {
      assert.equal(GatewayError.is(error), false, String(error));
      assert.doesNotMatch(`${error.message} ${String(error.cause)}`, /CONFIDENTIAL/);
      return true;
    });
    assert.equal(await countOf(analytics(), organisation_id), 0);
  });
}
