import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { requestRow } from '../conformance/analytics-rows.ts';
import { makeHome, type Home } from '../kit/gateway-process.ts';
import { runWeir, startWeir, stopEverything } from '../kit/process-kit.ts';

const configuration = `version: 1
prices:
  models: [{ provider: openai, model: my-own-model, input: 2, output: 8 }]
pipelines:
  - { name: gateway, match: { path: /** }, plugins: [auth, provider, logger: { bodies: false }] }
`;

after(stopEverything);

const weir = (home: Home, ...args: string[]) =>
  runWeir([...args, '--data', home.data], { env: { WEIR_CONFIG: home.configFile } });

describe('weir reconcile and weir reprice', { skip: chdbMissing }, () => {
  test('compare what was billed with what a data folder holds, and find what has no price', async (t) => {
    const home = await makeHome(configuration);
    t.after(() => home.remove());
    // Of yesterday: what is older than the retention is not kept.
    const day = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
    const row = (model: string, cost: string, pricing: 'priced' | 'unpriced' = 'priced') =>
      JSON.stringify(
        requestRow({ created_at: `${day} 12:00:00.000`, model, cost, pricing, total_tokens: 30 }),
      );
    const rows = [
      row('gpt-4o-mini-2024-07-18', '0.100000000001'),
      row('gpt-4o-mini', '0.200000000000'),
      row('gpt-5-mini', '0.500000000000'),
      row('my-own-model', '0', 'unpriced'),
    ];
    await (await startWeir({ config: home.configFile, data: home.data })).stop();
    const own = path.join(home.folder, 'requests-mine.ndjson');
    await writeFile(own, `${rows.join('\n')}\n`);
    const replayed = await weir(home, 'journal', 'replay', own);
    assert.equal(replayed.code, 0, replayed.stderr);

    const file = path.join(home.folder, 'costs.csv');
    const header = 'start_time_iso,amount_value,amount_currency,line_item\n';
    await writeFile(
      file,
      `${header}${day}T00:00:00+00:00,0.25,usd,"gpt-4o-mini-2024-07-18, input"\n${day}T00:00:00+00:00,0.08,usd,"gpt-4o-mini-2024-07-18, output"\n${day}T00:00:00+00:00,2,usd,Image models\n`,
    );
    const reconcile = (...args: string[]) =>
      weir(home, 'reconcile', '--provider', 'openai', '--file', file, ...args);
    const running = await startWeir({ config: home.configFile, data: home.data });
    const beside = await reconcile();
    assert.equal(beside.code, 1);
    assert.match(beside.stderr, /is in use by process/);
    // It ships what was put back before it ends.
    await running.stop();

    const found = await reconcile('--json');
    assert.equal(found.code, 0, found.stderr);
    const { days, total, unmatched } = JSON.parse(found.stdout);
    const nothing = { percent: null, requests: 1, billed: null };
    assert.deepEqual(days, [
      {
        ...{ day, model: 'gpt-4o-mini', billed: '0.33', recorded: '0.300000000001' },
        ...{ difference: '0.029999999999', percent: '9.1', requests: 2, unpriced: 0 },
      },
      { day, model: 'gpt-5-mini', ...nothing, recorded: '0.5', difference: '-0.5', unpriced: 0 },
      {
        ...{ day, model: 'Image models', billed: '2', recorded: null, difference: '2', percent: '100.0' },
        ...{ requests: 0, unpriced: 0 },
      },
      { day, model: 'my-own-model', ...nothing, recorded: '0', difference: '0', unpriced: 1 },
    ]);
    assert.deepEqual(
      [total.billed, total.recorded, total.difference],
      ['2.33', '0.800000000001', '1.529999999999'],
    );
    assert.deepEqual(unmatched, [{ name: 'Image models', billed: '2' }]);

    const text = await reconcile();
    assert.match(text.stdout, /gpt-4o-mini +0\.330000 +0\.300000 +0\.030000 +9\.1/);
    assert.match(text.stdout, /gpt-5-mini .*not billed\n/);
    assert.match(text.stdout, /1 requests have no price/);

    const listed = await weir(home, 'reprice', '--list', '--json');
    assert.equal(listed.code, 0, listed.stderr);
    assert.deepEqual(JSON.parse(listed.stdout).models, [
      {
        ...{ service: 'openai', model: 'my-own-model', first: day, last: day },
        ...{ requests: 1, tokens: 30, known: 'my-own-model' },
      },
    ]);
    const reprice = (...args: string[]) => weir(home, 'reprice', '--from', day, '--to', day, ...args);
    const planned = await reprice('--dry-run', '--json');
    assert.equal(planned.code, 0, planned.stderr);
    const priced = await reprice('--json');
    assert.equal(priced.code, 0, priced.stderr);
    assert.deepEqual(JSON.parse(priced.stdout), { ...JSON.parse(planned.stdout), dry_run: false });
    const cost = '0.00018';
    const mine = { service: 'openai', model: 'my-own-model', requests: 1, tokens: 30, cost };
    assert.deepEqual(JSON.parse(priced.stdout).priced, [mine]);
    assert.deepEqual(JSON.parse(priced.stdout).total, { requests: 1, tokens: 30, cost });
    const again = await reprice();
    assert.equal(again.code, 0, again.stderr);
    assert.match(again.stdout, /^No request from .* has got a price\.\n$/);
    const recorded = JSON.parse((await reconcile('--json')).stdout).total;
    assert.deepEqual([recorded.recorded, recorded.unpriced], ['0.800180000001', 0]);

    await writeFile(file, `${header}${day},much,usd,x\n`);
    const wrong = await reconcile();
    assert.equal(wrong.code, 1);
    assert.ok(
      wrong.stderr.startsWith(`${file}:2:12: amount_value is "much"; expected an amount`),
      wrong.stderr,
    );
  });

  test('mistakes on the command line end with 2', async () => {
    for (const [args, says] of [
      [['reconcile', '--provider', 'acme'], /openai, anthropic or bedrock/],
      [['reconcile', '--provider', 'openai'], /--file/],
      [['reconcile', '--provider', 'openai', '--file', 'x', '--from', '2026-02-30'], /no day like/],
      [['reprice', '--json'], /--from and --to, or --list/],
      [['reprice', '--from', '2026-05-01'], /--from and --to, or --list/],
      [['reprice', '--list', '--dry-run'], /one of --list and --dry-run/],
    ] as const) {
      const { code, stderr } = await runWeir([...args]);
      assert.equal(code, 2);
      assert.match(stderr, says);
    }
  });
});
