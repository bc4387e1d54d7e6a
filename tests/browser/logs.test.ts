import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { startFront } from '../kit/front.ts';
import { eventually } from '../kit/process-kit.ts';
import { assertAccessible, markup, openWindow, useConsole } from './console-kit.ts';

const picture =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAGUlEQVR4nGNgYPhPIhrVMKph+AYbg3IAADr3/wFIAOZ3AAAAAElFTkSuQmCC';
const weather = { type: 'function', function: { name: 'get_weather', parameters: { type: 'object' } } };
const fallback = {
  strategy: { mode: 'fallback' },
  targets: [
    { provider: 'mock', override_params: { model: 'mock:latency_ms=1500,status=503' } },
    { provider: 'mock', override_params: { model: 'mock-second' } },
  ],
};

function of(user: string): Record<string, string> {
  return { 'x-service-metadata': JSON.stringify({ _user: user }) };
}

describe('the log in the console', () => {
  const gateway = useConsole();
  before(async () => {
    const all = [
      ...Array.from({ length: 8 }, (_, index) =>
        gateway.chat(`question ${index}`, { headers: of(index % 2 ? 'ann' : 'bob') }),
      ),
      gateway.chat('a needle in the haystack', { headers: of('ann'), body: { model: 'mock-needle' } }),
      gateway.chat(markup, { headers: of(markup), body: { model: 'mock-markup' } }),
      gateway.chat('slow', { body: { model: 'mock:latency_ms=900' } }),
      gateway.chat('stream', { body: { model: 'mock-stream', stream: true } }),
      gateway.chat('get weather', {
        body: { model: 'mock-tools', tools: [weather], tool_choice: 'required' },
      }),
      gateway.chat('fall back', {
        headers: { 'x-service-config': JSON.stringify(fallback), 'x-service-explain': 'true' },
      }),
      gateway.chat('', {
        body: {
          model: 'mock-picture',
          messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: picture } }] }],
        },
      }),
    ];
    for (const answer of await Promise.all(all)) await answer.text();
    await gateway.untilLogged(all.length);
  });

  const rows = (page: Page) => page.getByRole('table', { name: 'Requests' }).locator('[data-row]');
  const open = async (page: Page, words: string): Promise<void> => {
    await rows(page).filter({ hasText: words }).click();
    await page.getByText('Where the time went').waitFor();
  };
  const openLogs = async (page: Page, search = ''): Promise<void> => {
    await page.goto(`/console/logs${search}`);
    await rows(page).first().waitFor();
  };

  test('a filter offers values that requests have; the address keeps it, and back undoes it', async (t) => {
    const page = await openWindow(t, gateway);
    await page.getByRole('link', { name: 'Logs' }).click();
    await rows(page).first().waitFor();
    await page.getByRole('button', { name: 'Filter', exact: true }).click();
    await page.getByRole('option', { name: 'User' }).click();
    await page.getByRole('option', { name: /^ann/ }).click();
    await page.keyboard.press('Escape');
    await page.getByText('5 requests, no more in this time').waitFor();
    assert.match(page.url(), /user=ann/);
    await page.reload();
    await page.getByText('5 requests, no more in this time').waitFor();
    await page.getByRole('button', { name: 'Remove the filter User' }).click();
    await page.getByText('15 requests, no more in this time').waitFor();
    await page.goBack();
    await page.getByText('5 requests, no more in this time').waitFor();
  });

  test('the first words of each request are shown to who asks for them, and this browser keeps the choice', async (t) => {
    const page = await openWindow(t, gateway);
    await openLogs(page);
    assert.equal(await page.getByRole('columnheader', { name: 'First words' }).count(), 0);
    await page.getByRole('switch', { name: 'First words' }).click();
    await rows(page).getByText('a needle in the haystack').waitFor();
    await rows(page).getByText(markup).first().waitFor();
    await assertAccessible(page);
    await page.reload();
    await rows(page).getByText('a needle in the haystack').waitFor();
    await page.getByRole('switch', { name: 'First words' }).click();
    await rows(page).getByText('a needle in the haystack').waitFor({ state: 'detached' });
  });

  for (const width of [1280, 390])
    test(`times and numbers are read whole, ${width} px wide`, async (t) => {
      const page = await openWindow(t, gateway);
      await page.setViewportSize({ width, height: 800 });
      await page.goto('/console/logs');
      await page.getByRole('switch', { name: 'First words' }).click();
      await page.getByRole('columnheader', { name: 'First words' }).waitFor();
      const cut = await rows(page)
        .first()
        .evaluate((row) =>
          [...row.children]
            .filter((cell) => cell.matches('.tabular-nums, :has(time)'))
            .filter((cell) => cell.scrollWidth > cell.clientWidth)
            .map((cell) => cell.textContent),
        );
      assert.deepEqual(cut, []);
    });

  test('on a telephone a row has two lines, and the keyboard walks and opens it', async (t) => {
    const page = await openWindow(t, gateway, { place: '/console/logs' });
    await rows(page).nth(1).waitFor();
    await page.setViewportSize({ width: 390, height: 844 });
    const heads = page.getByRole('columnheader');
    await eventually(async () => (await heads.count()) === 7 || undefined);
    await assertAccessible(page);
    const [first, second] = await rows(page).evaluateAll((all) =>
      all.slice(0, 2).map((row) => {
        const tops = [...row.children].map((cell) => cell.getBoundingClientRect().top);
        const { top, bottom } = row.getBoundingClientRect();
        return { top, bottom, lines: new Set(tops.map(Math.round)).size };
      }),
    );
    assert.equal(first?.lines, 2);
    assert.equal(first.bottom, second?.top, 'rows stand below each other');
    await rows(page).first().focus();
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/logs\/[\w-]+$/);
  });

  test('words are found in what was said, from the keyboard', async (t) => {
    const page = await openWindow(t, gateway);
    await openLogs(page);
    await page.keyboard.press('/');
    await page.keyboard.type('NEEDLE in');
    await page.getByText('1 request, no more in this time').waitFor();
    await page.keyboard.press('Escape');
    await rows(page).first().focus();
    await page.keyboard.press('Enter');
    await page.getByText('a needle in the haystack', { exact: true }).waitFor();
  });

  test('why was this request slow', async (t) => {
    const page = await openWindow(t, gateway);
    await page.getByRole('link', { name: 'Logs' }).click();
    await rows(page).first().waitFor();
    await open(page, 'mock:latency_ms=900');
    await page.getByText(/^mock took .* to begin its answer\.$/).waitFor();
    await page.getByText('Waiting for the first byte').waitFor();
  });

  test('the cost of a request is shown with its parts', async (t) => {
    const page = await openWindow(t, gateway);
    await openLogs(page);
    await open(page, 'mock-needle');
    const parts = page.getByRole('table', { name: 'Parts of the cost' });
    const told = await parts.getByRole('row').allInnerTexts();
    assert.deepEqual(
      told.map((row) => row.split(/\s+/).filter((word) => /^[A-Z]|^\$0\.[16]/.test(word))),
      [
        ['Part', 'Tokens', 'Per', 'Cost'],
        ['Input', '$0.150'],
        ['Output', '$0.600'],
      ],
    );
    await assertAccessible(page);
  });

  test('why was it slow, when an attempt had failed before', async (t) => {
    const page = await openWindow(t, gateway);
    await openLogs(page);
    await open(page, 'mock-second');
    await page.getByText(/^Failed attempts took .*: 1 before the one that was served\.$/).waitFor();
    await page.getByRole('tab', { name: /Attempts/ }).click();
    const attempts = page
      .getByRole('list', { name: 'Attempts in the order of their ends' })
      .getByRole('listitem');
    assert.equal(await attempts.count(), 2);
    assert.match(await attempts.first().innerText(), /503[\s\S]*not used/);
    await page.getByRole('heading', { name: 'Decisions' }).waitFor();
    await assertAccessible(page);
  });

  test('streams, tool calls and images are shown as a conversation', async (t) => {
    const page = await openWindow(t, gateway);
    await openLogs(page);
    await open(page, 'mock-stream');
    await page.getByText('You said: "stream".').waitFor();
    await openLogs(page);
    await open(page, 'mock-tools');
    await page.getByText('Calls get_weather').waitFor();
    await openLogs(page);
    await open(page, 'mock-picture');
    const shown = page.getByRole('img', { name: 'Image of the message' });
    await shown.waitFor();
    assert.equal(await page.evaluate(`document.querySelector('article img').naturalWidth`), 16);
  });

  test('a conversation in the wire of messages, and one of generateContent, are shown with calls, results and images', async (t) => {
    const send = async (path: string, body: object): Promise<string> => {
      const headers = { 'x-service-api-key': gateway.ownerKey, 'content-type': 'application/json' };
      const url = `${gateway.url}${path}`;
      const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
      assert.equal(answer.status, 200, await answer.text());
      const id = answer.headers.get('x-service-request-id') ?? '';
      await eventually(async () => {
        const { request } = await gateway.api('GET', `/logs/${id}`);
        return request.body !== null || undefined;
      });
      return id;
    };
    const [, data = ''] = picture.split(',');
    const messages = await send('/v1/messages', {
      ...{ model: 'mock-gpt', max_tokens: 100, system: 'Be terse.', stream: true },
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is on it?' },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data } },
          ],
        },
        {
          role: 'assistant',
          content: [{ type: 'tool_use', id: 't1', name: 'look_closer', input: { at: 1 } }],
        },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content: 'A red square' }] },
      ],
      tools: [{ name: 'look_closer', input_schema: { type: 'object' } }],
    });
    const gemini = await send('/v1beta/models/mock-gpt:generateContent', {
      systemInstruction: { parts: [{ text: 'Be terse.' }] },
      contents: [
        {
          role: 'user',
          parts: [{ text: 'What is on it?' }, { inlineData: { mimeType: 'image/png', data } }],
        },
        { role: 'model', parts: [{ functionCall: { name: 'look_closer', args: { at: 1 } } }] },
        {
          role: 'user',
          parts: [{ functionResponse: { name: 'look_closer', response: { result: 'A red square' } } }],
        },
      ],
    });
    const page = await openWindow(t, gateway);
    for (const id of [messages, gemini]) {
      await page.goto(`/console/logs/${id}`);
      const turns = page.getByRole('article');
      await turns.filter({ hasText: 'system' }).getByText('Be terse.').waitFor();
      await turns.getByRole('img', { name: 'Image of the message' }).waitFor();
      await turns.getByText('Calls look_closer').waitFor();
      await turns.filter({ hasText: 'tool' }).getByText('A red square', { exact: true }).waitFor();
      await turns.filter({ hasText: 'Answer' }).first().waitFor();
      assert.equal(await turns.count(), 5, page.url());
    }
  });

  test('markup and scripts in what was said, and in names, stay text', async (t) => {
    const page = await openWindow(t, gateway);
    await openLogs(page);
    await rows(page).filter({ hasText: '<img src=x' }).waitFor();
    await open(page, 'mock-markup');
    await page.getByRole('article').first().getByText(markup).waitFor();
    for (const tab of ['Attempts', 'Guardrails', 'Trace', 'Raw']) {
      await page.getByRole('tab', { name: new RegExp(tab) }).click();
      await page.getByRole('tabpanel', { name: new RegExp(tab) }).waitFor();
    }
    assert.equal(await page.locator('img[src="x"]').count(), 0);
    assert.equal(await page.title(), 'Request · Weir');
  });

  test('new requests appear by themselves while the switch is on', async (t) => {
    const page = await openWindow(t, gateway);
    await page.goto('/console/logs?ai_model=mock-live&live=true');
    await page.getByText('Following: new requests appear at the top').waitFor();
    // The stream tells what comes after it has begun.
    await eventually(async () => {
      await (await gateway.chat('are you there', { body: { model: 'mock-live' } })).text();
      return rows(page)
        .first()
        .waitFor({ timeout: 3000 })
        .then(
          () => true,
          () => undefined,
        );
    });
  });

  test('a page that is out of sight follows nothing, and goes on where it was when it is seen again', async (t) => {
    const page = await openWindow(t, gateway, { expected: /ERR_/ });
    const streams: string[] = [];
    page.on('request', (request) => {
      if (/logs\/stream/.test(request.url())) streams.push(request.headers()['last-event-id'] ?? '');
    });
    const send = async (words: string): Promise<void> => {
      await (await gateway.chat(words, { body: { model: 'mock-hidden' } })).text();
    };
    const show = (hidden: boolean): Promise<void> =>
      page.evaluate(`Object.defineProperty(document, 'hidden', { configurable: true, value: ${hidden} });
        document.dispatchEvent(new Event('visibilitychange'));`);
    await send('before');
    await page.goto('/console/logs?ai_model=mock-hidden&live=true');
    await page.getByText('Following: new requests appear at the top').waitFor();
    await page.getByRole('switch', { name: 'First words' }).click();
    await rows(page).getByText('before').waitFor();
    await send('in sight');
    await rows(page).getByText('in sight').waitFor();
    const cut = page.waitForEvent('requestfailed', (request) => /logs\/stream/.test(request.url()));
    await show(true);
    await cut;
    const { length } = streams;
    await send('out of sight');
    // Longer than a stream that was cut off is tried again after.
    await page.waitForTimeout(4000);
    assert.equal(streams.length, length);
    await show(false);
    await rows(page).getByText('out of sight').waitFor();
    assert.equal(streams.length, length + 1);
    assert.match(streams.at(-1) ?? '', /^\d+-\d+$/);
  });

  test('a log that is too fast to be shown is counted, and read anew when it is slower', async (t) => {
    const page = await openWindow(t, gateway);
    const window = { from: '2026-01-01T00:00:00.000Z', to: '2026-01-01T00:00:01.000Z' };
    const skipped = (id: number, count: number): string =>
      `event: skipped\nid: ${id}\ndata: ${JSON.stringify({ count, ...window })}\n\n`;
    let isFast = true;
    await page.route(/\/logs\/stream\?/, (route) =>
      isFast
        ? route.fulfill({
            contentType: 'text/event-stream',
            body: `id: 1\n\n${skipped(2, 5)}${skipped(3, 300)}${skipped(4, 400)}`,
          })
        : route.continue(),
    );
    await page.goto('/console/logs?ai_model=mock-fast&live=true');
    await page.getByText(/come faster than they can be shown\. [1-9][\d,]+ are left out/).waitFor();
    isFast = false;
    await eventually(async () => {
      await (await gateway.chat('slower', { body: { model: 'mock-fast' } })).text();
      return (await page.getByText('Following: new requests appear at the top').isVisible()) || undefined;
    });
    await rows(page).first().waitFor();
  });

  test('what comes while the tail is cut off, and more than it is told at once, is there afterwards, each once', async (t) => {
    const front = await startFront(Number(new URL(gateway.url).port));
    t.after(() => front.close());
    const ids: string[] = [];
    const send = async (words: string): Promise<void> => {
      const answer = await gateway.chat(words, { body: { model: 'mock-tail' } });
      ids.push(answer.headers.get('x-service-request-id') ?? '');
      await answer.text();
    };
    const logged = async (count: number): Promise<void> => {
      const path = '/logs?ai_model=mock-tail&page_size=1&include_total=true';
      await eventually(async () => (await gateway.api('GET', path)).total === count || undefined);
    };
    await send('before it begins');
    await logged(1);
    // The browser says that requests fail while the line is cut.
    const page = await openWindow(t, { ...gateway, url: front.url }, { expected: /ERR_/ });
    await openLogs(page, '?ai_model=mock-tail');
    // What comes between the reading of the list and the start of the tail is no less there.
    await send('before the switch');
    await logged(2);
    await page.getByRole('switch', { name: /^Live/ }).click();
    await page.getByRole('switch', { name: 'First words' }).click();
    await rows(page).getByText('before the switch').waitFor();
    await page.getByText('Following: new requests appear at the top').waitFor();
    await send('while it follows');
    await rows(page).getByText('while it follows').waitFor();
    front.away(true);
    await page.getByText(/^The (connection|gateway)/).waitFor();
    // More than the stream tells at once.
    const many = Array.from({ length: 210 }, (_, index) => `away ${index}`);
    for (let from = 0; from < many.length; from += 30)
      await Promise.all(many.slice(from, from + 30).map(send));
    await logged(213);
    front.away(false);
    const table = page.getByRole('table', { name: 'Requests' });
    await eventually(async () => (await table.getAttribute('aria-rowcount')) === '214' || undefined);
    const seen = new Map<string, string>();
    for (const top of Array.from({ length: 12 }, (_, index) => index * 700)) {
      await table.evaluate((element, to) => element.parentElement?.scrollTo(0, to), top);
      await page.waitForTimeout(100);
      const shown = await rows(page).evaluateAll((all) =>
        all.map((row) => [row.getAttribute('data-row') ?? '', row.getAttribute('aria-rowindex') ?? '']),
      );
      for (const [id = '', place = ''] of shown) {
        assert.equal(seen.get(id) ?? place, place, 'a row that stands in two places');
        seen.set(id, place);
      }
    }
    assert.deepEqual([...seen.keys()].sort(), ids.sort());
    await table.evaluate((element) => element.parentElement?.scrollTo(0, 0));
    await rows(page)
      .getByText(/^away \d+$/)
      .first()
      .waitFor();
    // A place that the gateway does not know any more: the list is read anew.
    await page.route(/logs\/stream/, (route) =>
      route.continue({ headers: { ...route.request().headers(), 'last-event-id': '1-1' } }),
    );
    front.away(true);
    await send('long after');
    await logged(214);
    front.away(false);
    await rows(page).getByText('long after').waitFor();
    assert.equal(await table.getAttribute('aria-rowcount'), '51');
  });

  test('a view gets a name in this browser', async (t) => {
    const page = await openWindow(t, gateway);
    await openLogs(page, '?ai_model=mock-stream');
    await page.getByRole('button', { name: 'Views' }).click();
    await page.getByLabel('Name of the view').fill('Only streams');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('link', { name: 'Only streams' }).waitFor();
    await page.goto('/console/logs');
    await page.getByRole('button', { name: 'Views' }).click();
    await page.getByRole('link', { name: 'Only streams' }).click();
    await page.waitForURL(/ai_model=mock-stream/);
    await page.getByText('1 request, no more in this time').waitFor();
    await page.getByRole('button', { name: 'Views' }).click();
    await page.getByRole('button', { name: 'Delete the view Only streams' }).click();
    await page.getByRole('link', { name: 'Only streams' }).waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.reload();
    await page.getByRole('button', { name: 'Views' }).click();
    await page.getByRole('link', { name: 'Only streams' }).waitFor();
  });

  test('feedback is given and shown; the command for curl is copied without a secret', async (t) => {
    const page = await openWindow(t, gateway);
    await openLogs(page, '?ai_model=mock-needle');
    await open(page, 'mock-needle');
    await page.getByRole('button', { name: 'Good answer' }).click();
    await page.getByText('The feedback is saved', { exact: true }).waitFor();
    await page.getByText('+5 × 1').waitFor();
    await page.getByRole('button', { name: 'Copy as curl' }).click();
    await page.getByText('The command is copied. Put your key into WEIR_KEY.', { exact: true }).waitFor();
    const copied = await page.evaluate<string>('navigator.clipboard.readText()');
    assert.match(copied, /^curl -X POST/);
    assert.match(copied, /"x-service-api-key: \$WEIR_KEY"/);
    assert.ok(!copied.includes(gateway.ownerKey));
  });

  test('feedback with value, weight, comment and metadata is given, and found on the page of feedback', async (t) => {
    for (const model of ['mock-rated', 'mock-rated-well'])
      await (await gateway.chat('rate me', { body: { model } })).text();
    await eventually(async () => {
      const { data } = await gateway.api('GET', '/logs?ai_model=mock-rated,mock-rated-well');
      return data.length === 2 || undefined;
    });
    const page = await openWindow(t, gateway);
    await openLogs(page, '?ai_model=mock-rated');
    await open(page, 'mock-rated');
    await page.getByRole('button', { name: 'Give feedback' }).click();
    const dialog = page.getByRole('dialog', { name: 'Give feedback' });
    await dialog.getByLabel('Value').fill('-8');
    await dialog.getByLabel('Weight').fill('0.25');
    await dialog.getByLabel('Comment').fill('Not what was asked');
    await dialog.getByLabel('Metadata as JSON').fill('[1]');
    await dialog.getByText('This is no JSON object.').waitFor();
    await assertAccessible(page);
    await dialog.getByLabel('Metadata as JSON').fill('{"team":"search"}');
    const [request] = await Promise.all([
      page.waitForRequest((one) => one.url().endsWith('/v1/feedback')),
      dialog.getByRole('button', { name: 'Save' }).click(),
    ]);
    const { trace_id, ...opinion } = request.postDataJSON() as Record<string, unknown>;
    assert.equal(typeof trace_id, 'string');
    const metadata = { team: 'search', comment: 'Not what was asked' };
    assert.deepEqual(opinion, { value: -8, weight: 0.25, metadata });
    await page.getByText('The feedback is saved', { exact: true }).waitFor();
    await page.getByText('-8 × 1').waitFor();
    await openLogs(page, '?ai_model=mock-rated-well');
    await open(page, 'mock-rated-well');
    await page.getByRole('button', { name: 'Good answer' }).click();
    await page.getByText('+5 × 1').waitFor();
    // The filter of the page of feedback leaves one of both, and leads to its request.
    await page.goto('/console/feedback?ai_model=mock-rated,mock-rated-well');
    const models = page.getByRole('table', { name: 'By model' });
    await models.getByRole('row', { name: /mock-rated-well.*\+5/ }).waitFor();
    const given = page.getByRole('table', { name: 'What was given, newest first' });
    await given.getByRole('row', { name: /-8 0\.25 Not what was asked · {"team":"search"}/ }).waitFor();
    assert.equal(await given.locator('tbody tr').count(), 2);
    await assertAccessible(page);
    await page.getByRole('link', { name: 'Requests with bad feedback' }).click();
    await page.getByText('1 request, no more in this time').waitFor();
    await rows(page).getByText('mock-rated', { exact: true }).waitFor();
  });

  test('a key that may not export is not shown how', async (t) => {
    const { key } = await gateway.makeKey('reader', ['logs.list', 'logs.view']);
    const page = await openWindow(t, gateway, { key });
    await page.goto('/console/logs');
    await page.getByRole('button', { name: 'Views' }).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Export' }).count(), 0);
  });

  for (const look of ['light', 'dark'] as const)
    test(`the pages are accessible, ${look}`, async (t) => {
      const page = await openWindow(t, gateway, { look });
      await openLogs(page, '?ai_model=mock-stream,mock-tools');
      await assertAccessible(page);
      await page.getByRole('button', { name: 'Filter', exact: true }).click();
      await page.getByRole('option', { name: 'Status' }).waitFor();
      await assertAccessible(page);
      await page.keyboard.press('Escape');
      await open(page, 'mock-tools');
      await assertAccessible(page);
      await page.goto('/console/traces');
      await page.getByRole('table', { name: 'Traces' }).locator('tbody tr').first().click();
      await page.getByRole('table', { name: 'Requests of the trace' }).waitFor();
      await assertAccessible(page);
    });
});
