import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { Analytics, Visibility } from '../../core/ports/analytics.ts';
import { day, hasCode, newToken } from './analytics-probe.ts';
import { bodyRow, dayStart, hostileTexts, ndjson, requestRow, storedTime } from './analytics-rows.ts';

const asciiJson = (text: string): string =>
  JSON.stringify(text).replace(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

/** Entries are found by a part of what was sent or answered. */
export function searchesTexts(analytics: () => Analytics): void {
  /** Stores an entry for each body, an hour apart, and tells how to search them. */
  async function stored(bodies: readonly { request?: string; response?: string }[]) {
    const organisation_id = randomUUID();
    const rows = bodies.map((_, index) =>
      requestRow({
        organisation_id,
        created_at: storedTime(dayStart + index * 3_600_000),
        user_id: `u${index % 2}`,
      }),
    );
    await analytics().insert('requests', ndjson(rows), newToken());
    await analytics().insert(
      'bodies',
      ndjson(rows.map((row, index) => bodyRow(row, bodies[index]))),
      newToken(),
    );
    const places = rows.map(({ id }) => id);
    return {
      /** Indexes of the bodies that hold the text, as every way of asking says them. */
      async search(text: string, visible: Partial<Visibility> = {}): Promise<number[]> {
        const visibility = { organisationId: organisation_id, ...visible };
        const query = { window: day, visibility, filter: { text } };
        const oldest = await analytics().logs({ ...query, order: 'oldest', limit: 100 });
        const found = oldest.map(({ request }) => places.indexOf(request.id));
        assert.equal(await analytics().countLogs(query), found.length);
        return found;
      },
    };
  }

  test('a text is found in the request and in the answer, without regard to case, and however short', async () => {
    const { search } = await stored([
      { request: '{"text":"The quick brown Fox"}' },
      { response: '{"text":"a fOX ran"}' },
      { request: 'nothing of it', response: '' },
    ]);
    assert.deepEqual(await search('fox'), [0, 1]);
    assert.deepEqual(await search('FO'), [0, 1]);
    assert.deepEqual(await search('X'), [0, 1]);
    assert.deepEqual(await search('quick BROWN fox'), [0]);
    assert.deepEqual(await search('brown  fox'), []);
    assert.deepEqual(await search('a fox ran away'), []);
  });

  test('nothing in a text is a pattern', async () => {
    const { search } = await stored([
      { request: '100% of_it' },
      { request: '100 of it, and 1000 ofxit' },
      { request: String.raw`a back\slash` },
      { request: '(a|b)*.+?[c]{2}^$' },
    ]);
    assert.deepEqual(await search('100%'), [0]);
    assert.deepEqual(await search('of_it'), [0]);
    assert.deepEqual(await search('%'), [0]);
    assert.deepEqual(await search('_'), [0]);
    assert.deepEqual(await search('\\'), [2]);
    assert.deepEqual(await search(String.raw`back\slash`), [2]);
    assert.deepEqual(await search('(a|b)*.+?[c]{2}^$'), [3]);
    assert.deepEqual(await search('.'), [3]);
  });

  const scripts = [
    'Grüne Wälder in ÖSTERREICH',
    'Привет, МИР',
    '東京都の天気',
    'Καλημέρα ΚΌΣΜΕ',
    'नमस्ते दुनिया',
    '🙂🙃 done',
    'مرحبا',
  ];
  test('other scripts, also in lower case, in upper case and where JSON escapes them', async () => {
    const { search } = await stored([
      ...scripts.map((text) => ({ request: JSON.stringify({ text }) })),
      ...scripts.map((text) => ({ response: `{"text":${asciiJson(text)}}` })),
    ]);
    for (const [index, text] of scripts.entries()) {
      const both = [index, index + scripts.length];
      assert.deepEqual(await search(text), both, text);
      assert.deepEqual(await search([...text].slice(1, 4).join('')), both, text);
      assert.ok((await search(text.toLowerCase())).includes(index), text);
      assert.ok((await search(text.toUpperCase())).includes(index), text);
    }
  });

  test('a sigma at the end of the text is any sigma', async () => {
    const { search } = await stored([
      { request: 'ΟΔΟΣ' },
      { request: 'οδοστρωτήρας' },
      { request: 'ΟΔΟΣΤΡΩΤΗΡΑΣ' },
    ]);
    for (const text of ['ΟΔΟΣ', 'οδος', 'οδοσ']) assert.deepEqual(await search(text), [0, 1, 2], text);
  });

  test('quotation marks and line breaks meet what JSON made of them', async () => {
    const { search } = await stored([
      { request: JSON.stringify({ text: 'she said "no"\nand left' }) },
      { request: 'she said "no"\nand left' },
    ]);
    for (const text of ['said "no"', '"no"\nand', '\n', 'AND LEFT'])
      assert.deepEqual(await search(text), [0, 1]);
  });

  test('hostile texts find themselves alone', async () => {
    const texts = hostileTexts.map((text) => text.slice(0, 256));
    const { search } = await stored(texts.map((text) => ({ request: JSON.stringify({ text }) })));
    for (const text of texts) {
      const holding = texts.flatMap((other, index) => (other.includes(text) ? [index] : []));
      assert.deepEqual(await search(text), holding, text);
    }
  });

  test('only of what may be seen, and of the window', async () => {
    const { search } = await stored([
      { request: 'secret plan' },
      { request: 'secret plan' },
      { request: 'secret plan' },
    ]);
    assert.deepEqual(await search('secret', { userId: 'u0' }), [0, 2]);
    assert.deepEqual(await search('secret', { workspaceId: 'workspace', userId: 'u1' }), [1]);
    assert.deepEqual(await search('secret', { workspaceId: 'other' }), []);
    assert.deepEqual(await search('secret', { organisationId: randomUUID() }), []);
  });

  test('a text that is too long is refused', async () => {
    const query = {
      window: day,
      visibility: { organisationId: randomUUID() },
      order: 'newest',
      limit: 1,
    } as const;
    await assert.rejects(
      analytics().logs({ ...query, filter: { text: 'x'.repeat(257) } }),
      hasCode('invalid_request'),
    );
  });
}
