import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { createPrices } from '../../adapters/pricing/genai-prices.ts';
import { exactText } from '../../core/administration/costs/exact-amount.ts';
import { repriceRequests } from '../../core/administration/costs/reprice-requests.ts';
import type { Visibility } from '../../core/ports/analytics.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { chanceOf } from '../../scripts/seed-demo/chance.ts';
import { chdbMissing, recordingLog } from '../../storage/embedded/chdb-fixture.ts';
import { ndjson, requestRow, storedTime } from '../conformance/analytics-rows.ts';
import { openAnalyticsOfFile } from '../kit/embedded-analytics.ts';

const analytics = await openAnalyticsOfFile();
const dayMs = 86_400_000;
/** Two months, so that there are two batches. */
const window = { from: Date.UTC(2026, 3, 29), to: Date.UTC(2026, 4, 4) };
const priceRise = Date.UTC(2026, 4, 2);

/** US dollars per million tokens. */
const rates = {
  ...{ input: 3.1, cache_read: 0.31, cache_write: 3.75, output: 12.5 },
  ...{ input_audio: 10, output_audio: 20.25, reasoning: 15 },
};
const dearer = { ...rates, input: 4.1 };
const own = [
  { provider: 'openai', model: 'house-model', ...rates },
  { provider: 'openai', model: 'house-model', from: '2026-05-02', ...dearer },
];
const prices = createPrices({ log: recordingLog(), own });
const nothingTold = { stop: new AbortController().signal, progress: () => undefined };

function unpricedRows(count: number, organisation_id: string, seed: number): RequestRow[] {
  const random = chanceOf(seed);
  const below = (bound: number): number => Math.floor(random() * bound);
  return Array.from({ length: count }, (_, index) => {
    const [text, cached, written, audio] = [below(9000), below(500), below(50), below(70)];
    const [said, thought, spoken] = [below(900), below(300), below(40)];
    const prompt_tokens = 1 + text + cached + written + audio;
    const completion_tokens = said + thought + spoken;
    return requestRow({
      ...{
        organisation_id,
        workspace_id: `w${below(3)}`,
        model: index % 5 === 0 ? 'no-such' : 'house-model',
      },
      created_at: storedTime(window.from + below(window.to - window.from)),
      ...{ prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
      ...{ cached_tokens: cached, cache_write_tokens: written, input_audio_tokens: audio },
      ...{ reasoning_tokens: thought, output_audio_tokens: spoken },
      ...{ cost: '0.000000000000', lost_cost: '0.000001000000', pricing: 'unpriced', price_version: 'old' },
      ...{ retries: below(3), api_key_id: `k${below(4)}`, metadata: { team: 'red' } },
    });
  });
}

/** In 10⁻¹² dollars. */
function meantCost(row: RequestRow): bigint {
  if (row.pricing !== 'unpriced' || row.model !== 'house-model') return BigInt(row.cost.replace('.', ''));
  const at = Date.parse(`${row.created_at.replace(' ', 'T')}Z`);
  const { input, cache_read, cache_write, input_audio, output, output_audio, reasoning } =
    at >= priceRise ? dearer : rates;
  const { cached_tokens, cache_write_tokens, input_audio_tokens, reasoning_tokens, output_audio_tokens } =
    row;
  const text = row.prompt_tokens - cached_tokens - cache_write_tokens - input_audio_tokens;
  const said = row.completion_tokens - reasoning_tokens - output_audio_tokens;
  const of = (tokens: number, rate: number): bigint => BigInt(tokens) * BigInt(Math.round(rate * 1e6));
  return [
    ...[of(text, input), of(cached_tokens, cache_read), of(cache_write_tokens, cache_write)],
    ...[of(input_audio_tokens, input_audio), of(said, output)],
    ...[of(reasoning_tokens, reasoning), of(output_audio_tokens, output_audio)],
  ].reduce((sum, amount) => sum + amount, 0n);
}

const sumOf = (rows: readonly RequestRow[]): bigint => rows.reduce((sum, row) => sum + meantCost(row), 0n);
const picos = (cost: unknown): bigint => {
  const [whole = '', fraction = ''] = String(cost).split('.');
  return BigInt(whole + fraction.padEnd(12, '0'));
};
const insert = (rows: readonly RequestRow[]) =>
  analytics.insert('requests', ndjson(rows), `requests-${randomUUID()}`);
const parts = async (): Promise<Parameters<typeof repriceRequests>[1]> => ({
  repricing: await analytics.repricing(),
  prices,
  pricedBy: ({ service }) => Promise.resolve(service),
  ...nothingTold,
});

/** What analytics say the rows cost, from roll-ups of each kind and from rows. */
async function sumsTold(organisationId: string): Promise<bigint[]> {
  const visibility: Visibility = { organisationId };
  const common = { window, visibility, measures: ['cost'] as const };
  const series = async (more: object, unit: 'minute' | 'hour' | 'day') => {
    const short = unit === 'minute' ? { window: { ...window, to: window.from + 2 * dayMs } } : {};
    const query = {
      ...common,
      ...short,
      buckets: { unit, size: unit === 'minute' ? 30 : 1, timeZone: 'UTC' } as const,
    };
    const { totals, points } = await analytics.series({ ...query, ...more });
    const added = points.reduce((sum, { values }) => sum + picos(values.cost), 0n);
    assert.equal(picos(totals[0]?.values.cost), added);
    return added;
  };
  const groups = async (by: Parameters<typeof analytics.groups>[0]['by']) => {
    const { rows } = await analytics.groups({
      ...{ by, columns: ['cost'], window, visibility, limit: 100, offset: 0 },
    });
    return rows.reduce((sum, { columns }) => sum + picos(columns.cost), 0n);
  };
  return [
    ...[
      await series({}, 'day'),
      await series({}, 'hour'),
      await series({ filter: { metadata: { team: 'red' } } }, 'day'),
    ],
    ...[
      await groups('model'),
      await groups('api_key'),
      await groups('workspace'),
      await groups({ metadata: 'team' }),
    ],
  ];
}

describe('requests without a price', { skip: chdbMissing }, () => {
  const wish = { window, provider: undefined, model: undefined, dryRun: false };

  test('get the one of their time, and every sum of rows and roll-ups says so', async () => {
    const organisation = randomUUID();
    const rows = [
      ...unpricedRows(120, organisation, 1),
      ...unpricedRows(20, organisation, 2).map((row) => ({
        ...row,
        ...{ cost: '0.500000000001', pricing: 'priced' as const },
      })),
      ...unpricedRows(10, organisation, 3).map((row) => ({ ...row, pricing: 'none' as const })),
    ];
    await insert(rows);
    const unknown = rows.filter(({ model, pricing }) => pricing === 'unpriced' && model === 'no-such');
    const tokens = unknown.reduce((sum, row) => sum + row.total_tokens, 0);
    const before = await sumsTold(organisation);
    const planned = await repriceRequests({ ...wish, dryRun: true }, await parts());
    assert.deepEqual(await sumsTold(organisation), before);

    const report = await repriceRequests(wish, await parts());
    assert.deepEqual(report, planned);
    const [house, ...none] = report.priced;
    assert.deepEqual(none, []);
    const known = rows.filter(({ model, pricing }) => pricing === 'unpriced' && model === 'house-model');
    assert.equal(house?.requests, known.length);
    assert.equal(picos(exactText(house?.cost ?? 0n)), sumOf(known));
    const reason = 'no price of this model is known';
    assert.deepEqual(report.unpriced, [
      { service: 'openai', model: 'no-such', requests: unknown.length, tokens, cost: 0n, reason },
    ]);
    assert.deepEqual([report.completed, report.isCut], [false, false]);

    for (const told of await sumsTold(organisation)) assert.equal(told, sumOf(rows));
    const stored = await analytics.logs({
      ...{ window, visibility: { organisationId: organisation }, order: 'oldest', limit: 1000 },
    });
    const byId = new Map(stored.map(({ request }) => [request.id, request]));
    for (const row of rows) {
      const now = byId.get(row.id) as RequestRow;
      assert.equal(picos(now.cost), meantCost(row));
      const changed = known.includes(row) ? { pricing: 'priced', price_version: 'file' } : {};
      assert.deepEqual({ ...now, cost: '' }, { ...row, ...changed, cost: '' });
    }
    const costs = await analytics.costsByDay({ window });
    assert.equal(
      costs.reduce((sum, { unpriced }) => sum + unpriced, 0),
      unknown.length,
    );

    const again = await repriceRequests(wish, await parts());
    assert.deepEqual(again.priced, []);
    for (const told of await sumsTold(organisation)) assert.equal(told, sumOf(rows));
  });

  test('of one provider and model, until the operator wants an end', async () => {
    const organisation = randomUUID();
    const rows = unpricedRows(60, organisation, 5);
    await insert(rows);
    for (const other of [{ provider: 'anthropic' }, { model: 'other-model' }, { model: 'no-such' }]) {
      const { priced } = await repriceRequests({ ...wish, ...other }, await parts());
      assert.deepEqual(priced, []);
    }
    const stop = new AbortController();
    const mine = { ...wish, provider: 'openai', model: 'house-model' };
    const cut = await repriceRequests(mine, {
      ...(await parts()),
      stop: stop.signal,
      progress: () => stop.abort(),
    });
    assert.equal(cut.isCut, true);
    const ofApril = rows.filter(({ model, created_at }) => model === 'house-model' && created_at < '2026-05');
    assert.equal(cut.priced[0]?.requests, ofApril.length);
    const rest = await repriceRequests(mine, await parts());
    assert.equal(rest.isCut, false);
    for (const told of await sumsTold(organisation)) assert.equal(told, sumOf(rows));
  });
});
