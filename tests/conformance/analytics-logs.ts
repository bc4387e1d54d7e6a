import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { Analytics, LogCursor, LogQuery, LogRecord } from '../../core/ports/analytics.ts';
import { day, hasCode, newToken } from './analytics-probe.ts';
import type { BodyRow } from '../../core/ports/request-row.ts';
import { bodyRow, dayStart, ndjson, randomRows, requestRow, storedTime } from './analytics-rows.ts';

const idsOf = (records: readonly LogRecord[]): string[] => records.map(({ request }) => request.id);

/** Where a page ended. */
function cursorOf(records: readonly LogRecord[]): LogCursor | undefined {
  const last = records.at(-1)?.request;
  return last && { createdAt: Date.parse(`${last.created_at.replace(' ', 'T')}Z`), id: last.id };
}

/** Log entries by pages, in both orders, with their bodies and without. */
export function listsLogs(analytics: () => Analytics): void {
  /** Every page until one is not full. */
  async function pages(query: Omit<LogQuery, 'after'>): Promise<LogRecord[]> {
    const all: LogRecord[] = [];
    for (let after: LogCursor | undefined; ; after = cursorOf(all)) {
      const page = await analytics().logs({ ...query, ...(after !== undefined && { after }) });
      all.push(...page);
      if (page.length < query.limit) return all;
    }
  }

  test('pages hold every entry once, in order, also where many have the same time', async () => {
    const organisation_id = randomUUID();
    // Ten times for sixty entries, over nineteen hours.
    const rows = Array.from({ length: 60 }, (_, index) =>
      requestRow({ organisation_id, created_at: storedTime(dayStart + 7_200_000 * (index % 10)) }),
    );
    await analytics().insert('requests', ndjson(rows), newToken());
    const visible = [
      { organisationId: organisation_id },
      { organisationId: organisation_id, workspaceId: 'workspace' },
    ];
    for (const visibility of visible) {
      for (const limit of [1, 7, 60, 100]) {
        const newest = await pages({ window: day, visibility, order: 'newest', limit });
        const oldest = await pages({ window: day, visibility, order: 'oldest', limit });
        assert.deepEqual(new Set(idsOf(newest)), new Set(rows.map(({ id }) => id)));
        assert.equal(newest.length, rows.length);
        assert.deepEqual(idsOf(oldest), idsOf(newest).reverse());
        const times = oldest.map(({ request }) => request.created_at);
        assert.deepEqual(times, [...times].sort());
      }
    }
  });

  test('an entry comes whole, and with its bodies only when they are asked for', async () => {
    const organisation_id = randomUUID();
    const [first, second] = [1, 2].map((ms) =>
      requestRow({ organisation_id, created_at: storedTime(dayStart + ms) }),
    );
    assert.ok(first && second);
    const body = bodyRow(first, { request: '{"a":1}', response: 'é' });
    await analytics().insert('requests', ndjson([first, second]), newToken());
    await analytics().insert('bodies', ndjson([body, bodyRow(requestRow({ organisation_id }))]), newToken());
    const query = {
      window: day,
      visibility: { organisationId: organisation_id },
      order: 'oldest',
      limit: 10,
    } as const;
    assert.deepEqual(await analytics().logs(query), [
      { request: first, body: undefined },
      { request: second, body: undefined },
    ]);
    const listed = { ...body };
    delete listed.provider_call;
    assert.deepEqual(await analytics().logs({ ...query, bodies: true }), [
      { request: first, body: listed },
      { request: second, body: undefined },
    ]);
  });

  test('a preview is the first words of the last message of a user, in every wire', async () => {
    const organisation_id = randomUUID();
    const user = (content: unknown) => ({ role: 'user', content });
    const long = 'word\n\n '.repeat(1000);
    const cases: readonly (readonly [request: unknown, preview: string, body?: Partial<BodyRow>])[] = [
      [
        { messages: [user('first'), { role: 'assistant', content: 'no' }, user('the\n  “last” 😀')] },
        'the “last” 😀',
      ],
      [{ messages: [user([{ type: 'text', text: 'a' }, { type: 'image_url' }, { text: 'b' }])] }, 'a b'],
      // What a tool has answered is no word of the user.
      [
        { messages: [user('ask'), user([{ type: 'tool_result', tool_use_id: 't', content: 'result' }])] },
        'ask',
      ],
      [{ contents: [{ role: 'model', parts: [{ text: 'no' }] }, { parts: [{ text: 'gemini' }] }] }, 'gemini'],
      [{ input: 'alone' }, 'alone'],
      [
        {
          input: [
            user([{ type: 'input_text', text: 'item' }]),
            { type: 'function_call_output', output: 'no' },
          ],
        },
        'item',
      ],
      [{ input: ['one', 'two'] }, 'two'],
      [{ prompt: 'complete' }, 'complete'],
      [{ messages: [user(long)] }, 'word '.repeat(32).trim()],
      [{ messages: [user(7), 7, null] }, ''],
      [{ variables: { a: 'b' } }, ''],
      [{ messages: [user('binary')] }, '', { log_format: 'base64' }],
      [{ messages: [user('cut')] }, '', { request: '{"messages":[{"role":"user","content":"cu' }],
    ];
    const rows = cases.map((_, index) =>
      requestRow({ organisation_id, created_at: storedTime(dayStart + index) }),
    );
    const without = requestRow({ organisation_id, created_at: storedTime(dayStart + cases.length) });
    await analytics().insert('requests', ndjson([...rows, without]), newToken());
    await analytics().insert(
      'bodies',
      ndjson(
        rows.map((row, i) => bodyRow(row, { request: JSON.stringify(cases[i]?.[0]), ...cases[i]?.[2] })),
      ),
      newToken(),
    );
    const visibility = { organisationId: organisation_id };
    const query = { window: day, visibility, order: 'oldest', limit: 50, preview: 160 } as const;
    const found = await analytics().logs(query);
    assert.deepEqual(
      found.map(({ preview = '?' }) => preview.trim()),
      [...cases.map(([, preview]) => preview), ''],
    );
    assert.ok(found.every(({ body }) => body === undefined));
    assert.equal((await analytics().logs({ ...query, preview: 3 }))[0]?.preview, 'the');
    await assert.rejects(analytics().logs({ ...query, preview: 1001 }), hasCode('invalid_request'));
  });

  test('bodies come with more entries than one statement asks for', async () => {
    const organisation_id = randomUUID();
    const rows = randomRows(1200, organisation_id);
    await analytics().insert('requests', ndjson(rows), newToken());
    await analytics().insert(
      'bodies',
      ndjson(rows.map((row) => bodyRow(row, { request: row.id }))),
      newToken(),
    );
    const visibility = { organisationId: organisation_id };
    const found = await analytics().logs({
      window: day,
      visibility,
      order: 'newest',
      limit: 2000,
      bodies: true,
    });
    assert.equal(found.length, rows.length);
    assert.ok(found.every(({ request, body }) => body?.request === request.id));
  });

  test('lists and counts what the visibility, the window and the filter let through', async () => {
    const organisation_id = randomUUID();
    const rows = randomRows(300, organisation_id);
    await analytics().insert('requests', ndjson(rows), newToken());
    const window = { from: dayStart + 10_000_000, to: dayStart + 70_000_000 };
    const inWindow = rows.filter(
      ({ created_at: at }) => at >= storedTime(window.from) && at < storedTime(window.to),
    );
    const cases = [
      [{ organisationId: organisation_id }, {}, inWindow],
      [
        { organisationId: organisation_id, workspaceId: 'beta' },
        {},
        inWindow.filter((row) => row.workspace_id === 'beta'),
      ],
      [
        { organisationId: organisation_id, workspaceId: 'alpha', apiKeyId: 'k2' },
        { isSuccess: true, statusCodes: [200, 201] },
        inWindow.filter(
          (row) =>
            row.workspace_id === 'alpha' && row.api_key_id === 'k2' && row.is_success && row.status < 300,
        ),
      ],
      [{ organisationId: randomUUID() }, {}, []],
    ] as const;
    for (const [visibility, filter, expected] of cases) {
      const found = await pages({ window, visibility, filter, order: 'newest', limit: 20 });
      assert.deepEqual(new Set(idsOf(found)), new Set(expected.map(({ id }) => id)));
      assert.equal(found.length, expected.length);
      assert.equal(await analytics().countLogs({ window, visibility, filter }), expected.length);
    }
  });

  test('a page has bounds', async () => {
    const query = { window: day, visibility: { organisationId: randomUUID() }, order: 'newest' } as const;
    for (const limit of [10_001, -1, 1.5])
      await assert.rejects(analytics().logs({ ...query, limit }), hasCode('invalid_request'));
  });
}
