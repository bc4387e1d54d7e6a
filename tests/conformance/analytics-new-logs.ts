import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Analytics, LogPlace, NewLogs, NewLogsQuery } from '../../core/ports/analytics.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { hasCode, newToken } from './analytics-probe.ts';
import { bodyRow, ndjson, requestRow, storedTime } from './analytics-rows.ts';

const ids = ({ records }: NewLogs): string[] => records.map(({ request }) => request.id);

/** Entries as they come into the store. */
export function tellsNewLogs(analytics: () => Analytics): void {
  function setting() {
    const organisation_id = randomUUID();
    const row = (given: Partial<RequestRow> = {}): RequestRow =>
      requestRow({ organisation_id, created_at: storedTime(Date.now()), ...given });
    return {
      row,
      /** `storedAt`: stamps the rows as if their insert had begun then. */
      async insert(rows: readonly RequestRow[], storedAt?: number): Promise<void> {
        const stamp = storedAt === undefined ? {} : { stored_at: storedTime(storedAt) };
        await analytics().insert('requests', ndjson(rows.map((one) => ({ ...one, ...stamp }))), newToken());
      },
      ask: (since: LogPlace | undefined, given: Partial<NewLogsQuery> = {}): Promise<NewLogs> =>
        analytics().newLogs({
          since,
          visibility: { organisationId: organisation_id },
          limit: 1000,
          ...given,
        }),
    };
  }

  test('the first question brings nothing, the next ones each entry once, whole and in order', async () => {
    const { row, insert, ask } = setting();
    await insert([row()]);
    const first = await ask(undefined);
    assert.deepEqual([first.records, first.left], [[], undefined]);
    assert.deepEqual((await ask(first.since)).records, []);
    const [one, two] = [row({ created_at: storedTime(Date.now() - 60_000) }), row()];
    await insert([one, two]);
    const second = await ask(first.since);
    assert.deepEqual(second.records, [
      { request: one, body: undefined },
      { request: two, body: undefined },
    ]);
    assert.deepEqual((await ask(second.since)).records, []);
    const three = row();
    await insert([three]);
    assert.deepEqual(ids(await ask(second.since)), [three.id]);
  });

  test('an insert that began before another one and ended after it is not missed, nor told twice', async () => {
    const { row, insert, ask } = setting();
    const { since } = await ask(undefined);
    const [early, late] = [row(), row()];
    const began = Date.now();
    await insert([late]);
    const told = await ask(since);
    assert.deepEqual(ids(told), [late.id]);
    await insert([early], began - 5000);
    const next = await ask(told.since);
    assert.deepEqual(ids(next), [early.id]);
    assert.deepEqual(ids(await ask(next.since)), []);
  });

  test('of too many the newest are told, and the others counted', async () => {
    const { row, insert, ask } = setting();
    const { since } = await ask(undefined);
    const rows = Array.from({ length: 30 }, (_, index) =>
      row({ created_at: storedTime(Date.now() + index) }),
    );
    await insert(rows);
    const some = await ask(since, { limit: 10 });
    assert.deepEqual(
      ids(some),
      rows.slice(20).map(({ id }) => id),
    );
    // Entries that were left out are found by their times.
    const { count, window } = some.left ?? assert.fail('nothing is left out');
    assert.equal(count, 20);
    const { organisation_id } = rows[0] ?? row();
    const visibility = { organisationId: organisation_id };
    const found = await analytics().logs({ window, visibility, order: 'oldest', limit: 100 });
    assert.deepEqual(
      found.map(({ request }) => request.id),
      rows.slice(0, 20).map(({ id }) => id),
    );
    const rest = await ask(some.since, { limit: 10 });
    assert.deepEqual([ids(rest), rest.left], [[], undefined]);
  });

  test('of a log that stays too fast each entry is told or counted once', async () => {
    const { row, insert, ask } = setting();
    const begun = Date.now();
    let { since } = await ask(undefined);
    const told: string[] = [];
    let counted = 0;
    const sent: string[] = [];
    for (let batch = 0; batch < 4; batch += 1) {
      const rows = Array.from({ length: 7 }, () => row());
      // The third insert began before the first.
      await insert(rows, batch === 2 ? begun - 3000 : undefined);
      sent.push(...rows.map(({ id }) => id));
      const some = await ask(since, { limit: 5 });
      told.push(...ids(some));
      counted += some.left?.count ?? 0;
      since = some.since;
    }
    assert.deepEqual([told.length, new Set(told).size, counted], [20, 20, 8]);
    assert.ok(told.every((id) => sent.includes(id)));
    const rest = await ask(since, { limit: 5 });
    assert.deepEqual([ids(rest), rest.left], [[], undefined]);
  });

  test('an insert whose rows become visible in parts is told whole, or counted when it was not told whole before', async () => {
    const { row, insert, ask } = setting();
    const [one, other] = [Date.now() - 1000, Date.now() - 500];
    let { since } = await ask(undefined);
    const [small, large] = [[row(), row()], Array.from({ length: 9 }, () => row())];
    await insert(large, one);
    await insert(small, other);
    const first = await ask(since, { limit: 4 });
    assert.deepEqual([first.records.length, first.left?.count], [4, 7]);
    const [late, uncounted] = [row(), row({ created_at: storedTime(Date.now() - 60_000) })];
    await insert([late], other);
    await insert([uncounted], one);
    ({ since } = first);
    const told: string[] = [];
    let counted: NewLogs['left'];
    // Such inserts are looked at every five seconds.
    for (const end = Date.now() + 15_000; Date.now() < end && told.length === 0; await delay(200)) {
      const next = await ask(since, { limit: 4 });
      told.push(...ids(next));
      counted ??= next.left;
      ({ since } = next);
    }
    assert.deepEqual([told, counted?.count], [[late.id], 1]);
    assert.ok((counted?.window.from ?? Infinity) <= Date.parse(`${uncounted.created_at.replace(' ', 'T')}Z`));
    const rest = await ask(since);
    assert.deepEqual([ids(rest), rest.left], [[], undefined]);
  });

  test('an entry that is stored twice is told once', async () => {
    const { row, insert, ask } = setting();
    const { since } = await ask(undefined);
    const [one, other] = [row(), row()];
    await insert([one], Date.now() - 2000);
    await insert([one, other], Date.now() - 1000);
    const told = await ask(since);
    assert.deepEqual(ids(told).toSorted(), [one.id, other.id].toSorted());
    await insert([one]);
    assert.deepEqual(ids(await ask(told.since)), []);
  });

  test('a question that sees less goes on from where the other one was', async () => {
    const { row, insert, ask } = setting();
    const { since } = await ask(undefined);
    const mine = row({ api_key_id: 'mine' });
    await insert([mine, row({ api_key_id: 'other' })]);
    const all = await ask(since);
    assert.equal(all.records.length, 2);
    const visibility = { organisationId: mine.organisation_id, apiKeyId: 'mine' };
    const [next, hidden] = [row({ api_key_id: 'mine' }), row({ api_key_id: 'other' })];
    await insert([next, hidden]);
    const narrow = await ask(all.since, { visibility });
    assert.deepEqual(ids(narrow), [next.id]);
    assert.deepEqual(ids(await ask(narrow.since, { visibility })), []);
  });

  test('only what may be seen, and what the filter lets through', async () => {
    const { row, insert, ask } = setting();
    const visibility = { organisationId: row().organisation_id, workspaceId: 'a', apiKeyId: 'k' };
    const given = { visibility, filter: { statusCodes: [500] } };
    const { since } = await ask(undefined, given);
    const wanted = row({ workspace_id: 'a', api_key_id: 'k', status: 500 });
    await insert([
      wanted,
      row({ workspace_id: 'b', api_key_id: 'k', status: 500 }),
      row({ workspace_id: 'a', api_key_id: 'l', status: 500 }),
      row({ workspace_id: 'a', api_key_id: 'k', status: 200 }),
      row({ ...wanted, id: randomUUID(), organisation_id: randomUUID() }),
    ]);
    const told = await ask(since, given);
    assert.deepEqual([ids(told), told.left], [[wanted.id], undefined]);
  });

  test('a text is found when the body comes after its request', async () => {
    const { row, insert, ask } = setting();
    const given = { filter: { text: 'Needle' } };
    const { since } = await ask(undefined, given);
    const [with_it, without] = [row(), row()];
    await insert([with_it, without]);
    const before = await ask(since, given);
    assert.deepEqual(ids(before), []);
    const bodies = [bodyRow(with_it, { request: 'a needle' }), bodyRow(without)];
    await analytics().insert('bodies', ndjson(bodies), newToken());
    const told = await ask(before.since, given);
    assert.deepEqual(ids(told), [with_it.id]);
    assert.deepEqual(ids(await ask(told.since, given)), []);
  });

  test('with previews an entry waits a moment for its body, and one without a body comes all the same', async () => {
    const { row, insert, ask } = setting();
    const given = { preview: 160 };
    const { since } = await ask(undefined, given);
    const [with_it, without, earlier] = [row(), row(), row()];
    await insert([with_it, without]);
    await insert([earlier], Date.now() - 5000);
    const before = await ask(since, given);
    assert.deepEqual(
      before.records.map(({ request, preview }) => [request.id, preview]),
      [[earlier.id, '']],
    );
    const body = bodyRow(with_it, {
      request: JSON.stringify({ messages: [{ role: 'user', content: 'Hello there' }] }),
    });
    await analytics().insert('bodies', ndjson([body]), newToken());
    const told = await ask(before.since, given);
    assert.deepEqual(
      told.records.map(({ request, preview }) => [request.id, preview]),
      [[with_it.id, 'Hello there']],
    );
    await delay(2000);
    assert.deepEqual(ids(await ask(told.since, given)), [without.id]);
  });

  test('where no other question follows, no entry waits for its body', async () => {
    const { row, insert, ask } = setting();
    const given = { preview: 160 };
    const { since } = await ask(undefined, given);
    const one = row();
    // By the clock of another server: it is new for a minute.
    await insert([one], Date.now() + 60_000);
    assert.deepEqual(ids(await ask(since, given)), []);
    const last = await ask(since, { ...given, isLast: true });
    assert.deepEqual(
      last.records.map(({ request, preview }) => [request.id, preview]),
      [[one.id, '']],
    );
  });

  test('going on later repeats the last seconds at the most, and misses nothing', async () => {
    const { row, insert, ask } = setting();
    const { since } = await ask(undefined);
    const [one, two] = [row(), row()];
    await insert([one]);
    const { resume } = await ask(since);
    assert.ok(resume.length < 20, resume);
    await insert([two]);
    const again = ids(await ask(resume));
    assert.ok(again.includes(two.id));
    assert.ok(again.every((id) => id === one.id || id === two.id));
  });

  test('a place that is none is refused', async () => {
    const { ask } = setting();
    for (const since of ['', 'x', '1.5', '-1', "1' OR 1=1", '1~*', '12345678901234567890'])
      await assert.rejects(ask(since), hasCode('invalid_request'), since);
  });
}
