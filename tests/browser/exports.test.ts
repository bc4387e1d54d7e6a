import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import {
  assertAccessible,
  consoleConfig,
  loggedEntries,
  markup,
  openWindow,
  seedDemo,
  useConsole,
} from './console-kit.ts';

const dayMs = 86_400_000;

/** The process of the analytics engine, below that of the gateway. */
function engineOf(pid: number): number {
  const below = (parent: number): readonly number[] => {
    const children = readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8').split(' ');
    return children.filter((one) => one !== '').flatMap((one) => [Number(one), ...below(Number(one))]);
  };
  const engine = below(pid).find((one) => /chdb/.test(readFileSync(`/proc/${one}/cmdline`, 'utf8')));
  assert.ok(engine, 'there is no engine');
  return engine;
}

describe('exports in the console', () => {
  const gateway = useConsole(async () => {
    // Three weeks of requests, one of which an export of the last week holds.
    await seedDemo(gateway.data, consoleConfig, ['--rows', '2400', '--days', '21']);
    return consoleConfig;
  });
  before(async () => {
    const asked = ['mock-one', 'mock-one', 'mock-two'].map((model) =>
      gateway.chat('hello', { body: { model } }),
    );
    for (const answer of await Promise.all(asked)) await answer.text();
    await gateway.untilLogged(3, '&ai_model=mock-one,mock-two');
  });

  test('export last week', async (t) => {
    const page = await openWindow(t, gateway);
    assert.equal(await page.title(), 'Home · Weir');
    await page.getByRole('navigation').getByRole('link', { name: 'Exports' }).click();
    await page.getByText('No export yet').waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'New export' }).click();
    const form = page.getByRole('dialog', { name: 'New export' });
    assert.equal(await form.getByLabel('Time', { exact: true }).first().inputValue(), '7d');
    await assertAccessible(page);
    await form.getByLabel('Note').fill(markup);
    const clicked = Date.now();
    await form.getByRole('button', { name: 'Export', exact: true }).click();
    const row = page.getByRole('table', { name: 'Exports' }).locator('tbody tr');
    await row.getByText('Ready').waitFor();
    const ready = Date.now();
    await row.getByText(markup).waitFor();
    await assertAccessible(page);
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      row.getByRole('button', { name: 'Download' }).click(),
    ]);
    const [head = '', ...lines] = readFileSync(await download.path(), 'utf8')
      .trim()
      .split('\r\n');
    assert.match(head, /^id,created_at,/);
    const [{ filters }] = (await gateway.api('GET', '/logs/exports')).data;
    const { time_of_generation_min: min, time_of_generation_max: max } = filters;
    const [start, end] = [Date.parse(min), Date.parse(max)];
    assert.ok(end >= clicked && end <= ready, 'the week ends now');
    assert.equal(end - start, 7 * dayMs);
    const filter = `&workspace_id=${gateway.workspace}`;
    const all = await loggedEntries(gateway, { from: end - 30 * dayMs, to: end, filter });
    const times = all.map(({ created_at: at }) => Date.parse(at));
    assert.ok(
      times.some((at) => at < start && at > start - dayMs),
      'there are requests of the day before that week, which the file must not hold',
    );
    const exported = lines.map((line) => line.split(',', 2));
    for (const [id, at = ''] of exported) assert.ok(Date.parse(at) >= start, `${id} of ${at} is too old`);
    const ids = exported.map(([id = '']) => id);
    assert.equal(new Set(ids).size, ids.length, 'each request once');
    const ofTheWeek = all.filter((_, place) => (times[place] ?? 0) >= start).map(({ id }) => id);
    assert.deepEqual(ids.toSorted(), ofTheWeek.toSorted());
    const query = `include_total=true&page_size=1&time_of_generation_min=${min}&time_of_generation_max=${max}`;
    assert.equal(ids.length, (await gateway.api('GET', `/logs?${query}${filter}`)).total);
    const audited = await gateway.api('GET', '/audit-logs?resource_type=log_exports');
    assert.deepEqual(audited.records.map(({ action }: { action: string }) => action).toSorted(), [
      'create',
      'export',
      'export',
    ]);
  });

  test('the filters of the log are those of the export', async (t) => {
    const page = await openWindow(t, gateway, { look: 'dark', place: '/console/logs?ai_model=mock-two' });
    await page.getByText('1 request, no more in this time').waitFor();
    await page.getByRole('button', { name: 'Export', exact: true }).click();
    const form = page.getByRole('dialog', { name: 'New export' });
    await form.getByText('mock-two').waitFor();
    await form.getByLabel('Format').selectOption('Lines of JSON');
    await form.getByLabel('Request body').check();
    await form.getByText('Bodies make the file large').waitFor();
    await assertAccessible(page);
    await form.getByRole('button', { name: 'Export', exact: true }).click();
    const row = page.getByRole('table', { name: 'Exports' }).locator('tbody tr').first();
    await row.getByText('jsonl').waitFor();
    await row.getByText('Ready').waitFor();
    const { data } = await gateway.api('GET', '/logs/exports');
    assert.equal(data.at(-1).rows_written, 1);
    await assertAccessible(page);
  });

  test('a running export is cancelled, and found in the audit trail', async (t) => {
    // Some pages of rows, so that the export is not over before it is looked at.
    const url = 'https://api.openai.com/v1/chat/completions';
    const one = { request: { url, body: { model: 'reported' } }, response: { body: {} } };
    for (let sent = 0; sent < 2000; sent += 100)
      await gateway.api(
        'POST',
        '/logs',
        Array.from({ length: 100 }, () => one),
      );
    await gateway.untilLogged(2000, '&ai_model=reported');
    const { id } = await gateway.api('POST', '/logs/exports', {
      ...{ workspace_id: gateway.workspace, filters: {}, description: 'too large' },
      requested_data: ['id', 'request', 'response'],
    });
    const page = await openWindow(t, gateway, { place: '/console/exports' });
    const row = page.getByRole('row').filter({ hasText: 'too large' });
    await row.getByText('Draft').waitFor();
    const engine = engineOf(gateway.child.pid ?? 0);
    await row.getByRole('button', { name: 'Start' }).click();
    let status = 'draft';
    while (status === 'draft') ({ status } = await gateway.api('GET', `/logs/exports/${id}`));
    assert.equal(status, 'in_progress');
    // From here on, the export waits for an engine that stands still.
    process.kill(engine, 'SIGSTOP');
    try {
      await row.getByText('Running').waitFor();
      await row.getByRole('button', { name: 'Cancel' }).click();
      const confirm = page.getByRole('alertdialog', { name: 'Cancel the export?' });
      await assertAccessible(page);
      await confirm.getByRole('button', { name: 'Cancel', exact: true }).last().click();
      await row.getByText('Cancelled').waitFor();
    } finally {
      process.kill(engine, 'SIGCONT');
    }
    await row.getByRole('button', { name: 'Start again' }).click();
    await row.getByText('Ready').waitFor();
    await row.getByRole('link', { name: 'Who changed it' }).click();
    await page
      .getByRole('table', { name: 'Audit trail' })
      .getByRole('row', { name: /update log exports/ })
      .waitFor();
  });

  test('a draft of another client is started here', async (t) => {
    const { data } = await gateway.api('GET', '/workspaces');
    const { id } = await gateway.api('POST', '/logs/exports', {
      workspace_id: data[0].id,
      filters: {},
      requested_data: ['id'],
      description: 'of a script',
    });
    const page = await openWindow(t, gateway, { place: '/console/exports' });
    const row = page.getByRole('row').filter({ hasText: 'of a script' });
    await row.getByText('Draft').waitFor();
    await row.getByRole('button', { name: 'Start' }).click();
    await row.getByText('Ready').waitFor();
    await row.getByRole('link', { name: 'Who changed it' }).click();
    await page.getByRole('row', { name: /owner.*export log exports/ }).waitFor();
    assert.equal(await gateway.audited('log_exports', 'export', id), 1);
  });
});
