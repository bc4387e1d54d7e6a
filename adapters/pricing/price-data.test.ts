import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { test, type TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { noUsage } from '../../core/dialects/usage.ts';
import { type Line, recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import { temporaryFolder } from '../../storage/embedded/chdb-fixture.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { createPrices } from './genai-prices.ts';
import { openPriceData } from './price-data.ts';

const hour = 3_600_000;
const minute = 60_000;
const url = 'https://prices.example/data.json';

/** Data in which the model `m` of every provider costs so many dollars per million input tokens. */
const dataWith = (dollars: number): string =>
  JSON.stringify(
    ['openai', 'anthropic', 'google', 'mistral', 'aws'].map((id) => ({
      id,
      name: id,
      api_pattern: '.*',
      models: [{ id: 'm', match: { equals: 'm' }, prices: { input_mtok: dollars, output_mtok: 0 } }],
    })),
  );

type Answer = { readonly status: number; readonly body?: string; readonly etag?: string } | Error;

async function start(t: TestContext, { file }: { file?: string } = {}) {
  const folder = await temporaryFolder();
  t.after(() => folder.remove());
  const clock = new ManualClock();
  const lines: Line[] = [];
  const log = recordingLog(lines);
  const prices = createPrices({ log });
  const asked: (readonly string[])[] = [];
  const site: { answer: Answer } = { answer: new Error('nobody there') };
  const copy = file ?? path.join(folder.path, 'prices.json');
  const data = openPriceData({ file: copy, clock, log, changed: (edition) => prices.dataChanged(edition) });
  t.after(() => data.close());
  const fetch = {
    fetch({ headers = [] }: { readonly headers?: readonly string[] }) {
      asked.push(headers);
      const { answer } = site;
      const given =
        answer instanceof Error
          ? Promise.reject(answer)
          : Promise.resolve({
              status: answer.status,
              headers: answer.etag === undefined ? [] : ['ETag', answer.etag],
              body: Buffer.from(answer.body ?? ''),
            });
      return { answer: given, abort: () => undefined };
    },
  };
  /** What a million input tokens of the model cost; undefined while it has no price. */
  const price = (): number | undefined => {
    const usage = { ...noUsage, promptTokens: 1_000_000, totalTokens: 1_000_000 };
    const { status, cost } = prices.price(usage, 'openai', 'm', clock.now());
    return status === 'priced' ? Number(cost) : undefined;
  };
  /** Lets files be read and written, until `holds`. */
  const until = async (holds: () => boolean): Promise<void> => {
    const end = performance.now() + 10_000;
    while (!holds()) {
      assert.ok(performance.now() < end, 'it did not come');
      await turn();
    }
  };
  const warnings = () => lines.filter(({ level }) => level === 'warn').map(({ message }) => message);
  return { data, fetch, site, clock, price, asked, until, warnings, copy, prices };
}

test('data is kept in memory for an hour, then read again, and not again when it is the same', async (t) => {
  const { data, fetch, site, clock, price, asked, until, prices } = await start(t);
  site.answer = { status: 200, body: dataWith(5), etag: '"one"' };
  data.use({ url, fetch });
  await until(() => price() === 5);
  const edition = prices.price(undefined, 'openai', 'm', 0).version;
  assert.match(edition, /^[\w-]{12}$/);
  await until(() => clock.nextIn === hour);
  clock.advance(hour - 1);
  await turn();
  assert.equal(asked.length, 1);
  site.answer = { status: 304 };
  clock.advance(1);
  await until(() => asked.length === 2 && clock.nextIn === hour);
  assert.deepEqual(asked[1], ['accept', 'application/json', 'if-none-match', '"one"']);
  site.answer = { status: 200, body: dataWith(6) };
  await until(() => (clock.advance(minute), price() === 6));
  assert.notEqual(prices.price(undefined, 'openai', 'm', 0).version, edition);
});

test('while the address cannot be read, the copy is used, and the address tried after 1, 2, 4 … minutes', async (t) => {
  const first = await start(t);
  first.site.answer = { status: 200, body: dataWith(7) };
  first.data.use({ url, fetch: first.fetch });
  await first.until(() => first.price() === 7);
  let kept = '';
  while (kept === '') kept = await readFile(first.copy, 'utf8').catch(() => '');
  assert.equal(kept, dataWith(7));

  const { data, fetch, site, clock, price, asked, until, warnings } = await start(t, { file: first.copy });
  data.use({ url, fetch });
  await until(() => price() === 7 && warnings().length === 1);
  assert.match(warnings()[0] ?? '', /cannot be read; what was read last is used/);
  for (const wait of [1, 2, 4]) {
    const before = asked.length;
    await turn();
    clock.advance(wait * minute - 1);
    await turn();
    assert.equal(asked.length, before, `not before ${wait} minutes`);
    clock.advance(1);
    await until(() => asked.length === before + 1 && warnings().length === before + 1);
  }
  site.answer = { status: 200, body: dataWith(8) };
  clock.advance(8 * minute);
  await until(() => price() === 8);
});

test('without a copy, and with a damaged one, the data of the installed version is used', async (t) => {
  for (const content of [undefined, '{"half": ', '[]', JSON.stringify([{ id: 'openai' }])]) {
    const { data, fetch, until, warnings, copy, prices } = await start(t);
    if (content !== undefined) await writeFile(copy, content);
    data.use({ url, fetch });
    await until(() => warnings().some((message) => message.includes('of the installed version is used')));
    assert.match(prices.price(undefined, 'openai', 'gpt-4o', 0).version, /^\d+\.\d+/);
    assert.equal(
      warnings().filter((message) => message.includes('damaged')).length,
      content === undefined ? 0 : 1,
    );
  }
});

test('what is no price data changes nothing', async (t) => {
  const { data, fetch, site, clock, price, asked, until, warnings } = await start(t);
  site.answer = { status: 200, body: dataWith(9) };
  data.use({ url, fetch });
  await until(() => price() === 9);
  const wrong: Answer[] = [
    { status: 200, body: '<html>' },
    { status: 200, body: '[]' },
    { status: 404, body: dataWith(1) },
    new Error('cut'),
  ];
  for (const answer of wrong) {
    site.answer = answer;
    const before = asked.length;
    await until(() => (clock.advance(hour), asked.length > before));
    await until(() => warnings().length === before);
    assert.equal(price(), 9);
  }
});
