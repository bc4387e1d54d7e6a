// Windows that follow the log and may see the same share one question of the store, on the real engine.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import type { NewLogsQuery, Visibility } from '../../../core/ports/analytics.ts';
import type { RequestRow } from '../../../core/ports/request-row.ts';
import { chdbMissing } from '../../../storage/embedded/chdb-fixture.ts';
import { bodyRow, ndjson, requestRow, storedTime } from '../../../tests/conformance/analytics-rows.ts';
import { ManualClock, settle } from '../../../tests/conformance/manual-clock.ts';
import { openAnalyticsOfFile } from '../../../tests/kit/embedded-analytics.ts';
import { LogFeeds } from './stream.ts';

const analytics = await openAnalyticsOfFile();

/** Windows on an organisation of their own, with a count of what the store is asked. */
function setting() {
  const clock = new ManualClock();
  const organisationId = randomUUID();
  const asked: NewLogsQuery[] = [];
  let running = 0;
  const feeds = new LogFeeds({
    clock,
    analytics: {
      async newLogs(query) {
        asked.push(query);
        running += 1;
        try {
          return await analytics.newLogs(query);
        } finally {
          running -= 1;
        }
      },
    },
  });
  return {
    clock,
    asked,
    /** Stores rows of these properties; their ids. */
    async insert(...given: Partial<RequestRow>[]): Promise<string[]> {
      const created_at = storedTime(Date.now());
      const rows = given.map((one) => requestRow({ organisation_id: organisationId, created_at, ...one }));
      await analytics.insert('requests', ndjson(rows), randomUUID());
      await analytics.insert('bodies', ndjson(rows.map((row) => bodyRow(row))), randomUUID());
      return rows.map(({ id }) => id);
    },
    async open(
      place?: string,
      {
        seen = () => ({}),
        filter = {},
        preview,
      }: Partial<NewLogsQuery> & { seen?: () => Partial<Visibility> } = {},
    ) {
      const source = await feeds.open({
        question: { filter, ...(preview !== undefined && { preview }) },
        visibility: () => ({ organisationId, ...seen() }),
        last: place === undefined ? undefined : { id: `1-${place}`, place },
        onEnd: () => undefined,
      });
      const window = {
        text: '',
        close: () => source.cancel(),
        /** Ids of the entries that it was told, in their order. */
        ids: () => [...window.text.matchAll(/^data: \{"id":"([^"]+)"/gm)].map(([, id]) => id),
        /** Where it would go on. */
        place: () => /.*^id: \d+-(\S+)$/ms.exec(window.text)?.[1] ?? assert.fail(window.text),
      };
      source.pipe({
        data: (bytes) => (window.text += bytes.toString()) !== '',
        end: () => undefined,
        fail: (error) => assert.fail(error),
      });
      await settle();
      return window;
    },
    /** Lets a second pass, and the questions of it be answered. */
    async second(): Promise<void> {
      await clock.pass(1000);
      while (running > 0) await settle();
      await settle();
    },
  };
}

describe('windows that follow the log', { skip: chdbMissing }, () => {
  test('two that ask the same are one question a second, and are told the same bytes', async () => {
    const { asked, insert, open, second } = setting();
    const windows = [await open(), await open()];
    assert.equal(asked.length, 1);
    const ids = await insert({}, {}, {});
    for (let time = 0; time < 3; time += 1) await second();
    assert.equal(asked.length, 4);
    const [one, other] = windows;
    assert.deepEqual([one?.ids().toSorted(), one?.text], [ids.toSorted(), other?.text]);
  });

  test('those that may see or want something else never share', async () => {
    const { asked, insert, open, second } = setting();
    const others = [
      { seen: () => ({ workspaceId: 'a' }) },
      { seen: () => ({ workspaceId: 'b' }) },
      { seen: () => ({ workspaceId: 'a', apiKeyId: 'k' }) },
      { seen: () => ({ workspaceId: 'a', userId: 'u' }) },
      { filter: { statusCodes: [500] } },
      { preview: 160 },
    ];
    const windows = [];
    for (const other of others) windows.push(await open(undefined, other));
    // The calling key does not restrict the rows.
    windows.push(await open(undefined, { seen: () => ({ workspaceId: 'a', asker: 'somebody else' }) }));
    assert.equal(asked.length, others.length);
    const [a, b, ofKey, ofUser, failed] = await insert(
      { workspace_id: 'a' },
      { workspace_id: 'b' },
      { workspace_id: 'a', api_key_id: 'k' },
      { workspace_id: 'a', user_id: 'u' },
      { workspace_id: 'c', status: 500 },
    );
    await second();
    assert.equal(asked.length, 2 * others.length);
    const told = windows.map((window) => window.ids().toSorted());
    const all = [a, b, ofKey, ofUser, failed];
    const expected = [[a, ofKey, ofUser], [b], [ofKey], [ofUser], [failed], all, [a, ofKey, ofUser]];
    assert.deepEqual(
      told,
      expected.map((ids) => ids.toSorted()),
    );
    assert.deepEqual(
      windows.map(({ text }) => text.includes('"preview"')),
      [false, false, false, false, false, true, false],
    );
  });

  test('one that comes later, with a place or without, has no gap, and is told nothing twice', async () => {
    const { asked, insert, open, second } = setting();
    const first = await open();
    const place = first.place();
    const [early] = await insert({});
    await second();
    const [between] = await insert({});
    const before = asked.length;
    const [late, fresh] = [await open(place), await open()];
    // The one without a place is told nothing of what was before: there is nothing to ask.
    assert.equal(asked.length, before + 1);
    assert.deepEqual([late.ids(), fresh.ids()], [[early, between], []]);
    const [next] = await insert({});
    await second();
    assert.equal(asked.length, before + 2);
    assert.deepEqual(first.ids().slice(0, 1), [early]);
    assert.deepEqual(first.ids().toSorted(), [early, between, next].toSorted());
    assert.deepEqual(late.ids(), [early, between, next]);
    assert.deepEqual(fresh.ids().toSorted(), [between, next].toSorted());
    assert.doesNotMatch(late.text + fresh.text, /^event: (gap|skipped)$/m);
  });

  test('the store is not asked any more when the last one has left, and anew when one comes', async () => {
    const { clock, asked, insert, open, second } = setting();
    const [one, other] = [await open(), await open()];
    one.close();
    await second();
    assert.equal(asked.length, 2);
    other.close();
    await second();
    assert.deepEqual([asked.length, clock.waiting], [2, 0]);
    await insert({});
    const place = other.place();
    const again = await open(place);
    assert.deepEqual([asked.length, asked.at(-1)?.since, again.ids().length], [3, place, 1]);
    await second();
    assert.equal(asked.length, 4);
    again.close();
  });

  test('one whose view narrows leaves the others, and misses nothing of its own', async () => {
    const { asked, insert, open, second } = setting();
    let seen: Partial<Visibility> = {};
    const [whole, narrowed] = [await open(), await open(undefined, { seen: () => seen })];
    await insert({ api_key_id: 'mine' }, { api_key_id: 'other' });
    await second();
    assert.deepEqual([narrowed.ids().length, asked.length], [2, 2]);
    seen = { apiKeyId: 'mine' };
    const [mine] = await insert({ api_key_id: 'mine' }, { api_key_id: 'other' });
    await second();
    const [later] = await insert({ api_key_id: 'mine' }, { api_key_id: 'other' });
    await second();
    assert.deepEqual([narrowed.ids().slice(2), whole.ids().length], [[mine, later], 6]);
    assert.doesNotMatch(narrowed.text, /^event: gap$/m);
  });
});
