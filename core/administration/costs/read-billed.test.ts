import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { Biller } from './billed-costs.ts';
import { exactText } from './exact-amount.ts';
import { FileMistake } from './file-mistake.ts';
import { readBilled } from './read-billed.ts';

async function read(biller: Biller, content: string | Uint8Array) {
  const folder = await mkdtemp(path.join(tmpdir(), 'billed-'));
  try {
    const file = path.join(folder, 'costs');
    await writeFile(file, content);
    const { costs, isCut } = await readBilled(biller, file);
    return { costs: costs.map(({ day, name, amount }) => [day, name, exactText(amount)]), isCut };
  } finally {
    await rm(folder, { recursive: true });
  }
}

const openaiCsv = `start_time,end_time,start_time_iso,end_time_iso,amount_value,amount_currency,line_item,project_id
1778976000,1779062400,2026-05-17T00:00:00+00:00,2026-05-18T00:00:00+00:00,0.1,usd,"gpt-4o-mini-2024-07-18, input",proj_1
1778976000,1779062400,2026-05-17T00:00:00+00:00,2026-05-18T00:00:00+00:00,0.2,usd,"gpt-4o-mini-2024-07-18, output",proj_1
1779062400,1779148800,2026-05-18T00:00:00+00:00,2026-05-19T00:00:00+00:00,5E-7,usd,Image models,proj_1
`;
const openaiJson = `{
  "object": "page",
  "data": [
    { "object": "bucket", "start_time": 1778976000, "end_time": 1779062400, "results": [
      { "object": "organization.costs.result", "amount": { "value": 0.06000000000000000001, "currency": "usd" },
        "line_item": "gpt-5-mini-2025-08-07, cached input", "project_id": null },
      { "object": "organization.costs.result", "amount": { "value": "1.5", "currency": "usd" }, "line_item": null }
    ] }
  ],
  "has_more": true,
  "next_page": "p2"
}`;
const anthropicCsv = `usage_date_utc,model,workspace,api_key,usage_type,context_window,token_type,cost_usd,list_price_usd,cost_type
2026-05-17,Claude Haiku 4.5,Default,key,message,≤ 200k,input_no_cache,0.05,0.05,token
2026-05-17,Claude Haiku 4.5,Default,key,message,≤ 200k,output,0.07,0.07,token
2026-05-17,,Default,key,,,,0.01,0.01,web_search
`;
const anthropicJson = `{"data":[{"starting_at":"2026-05-17T00:00:00Z","ending_at":"2026-05-18T00:00:00Z","results":[
 {"currency":"USD","amount":"123.45","model":"claude-sonnet-4-20250514","cost_type":"tokens","description":"Claude Sonnet 4 Usage - Input Tokens"},
 {"currency":"USD","amount":"1","model":null,"cost_type":"web_search","description":"Web Search"}]}],"has_more":false,"next_page":null}`;
const report = `identity_line_item_id,line_item_line_item_type,line_item_usage_start_date,line_item_product_code,line_item_usage_type,line_item_unblended_cost,line_item_currency_code,product_product_name
1,Usage,2026-05-17T00:00:00.000Z,AmazonBedrock,USE1-NovaLite-input-tokens,0.0000600000,USD,Amazon Bedrock
2,Usage,2026-05-17 23:00:00,AmazonBedrock,USE1-NovaLite-output-tokens,0.0002400000,USD,Amazon Bedrock
3,Usage,2026-05-17T00:00:00Z,AmazonEC2,BoxUsage:t3.micro,9,USD,Amazon EC2
4,Usage,2026-05-17T00:00:00Z,5q9m2abc,USE1-MP:USE1_InputTokenCount-Units,1.25,USD,Claude 3.5 Sonnet (Amazon Bedrock Edition)
5,Tax,2026-05-01T00:00:00Z,AmazonBedrock,,0.5,USD,Amazon Bedrock
6,Credit,2026-05-17T00:00:00Z,AmazonBedrock,USE1-NovaLite-input-tokens,-0.1,USD,Amazon Bedrock
`;

const novaLite = [
  ['2026-05-17', 'NovaLite', '0.0003'],
  ['2026-05-17', 'Claude 3.5 Sonnet', '1.25'],
  ['2026-05-01', 'Tax', '0.5'],
  ['2026-05-17', 'Credit', '-0.1'],
];

describe('a file of billed costs', () => {
  test('OpenAI, the export as CSV', async () => {
    const expected = [
      ['2026-05-17', 'gpt-4o-mini-2024-07-18', '0.3'],
      ['2026-05-18', 'Image models', '0.0000005'],
    ];
    assert.deepEqual(await read('openai', openaiCsv), { costs: expected, isCut: false });
    const packed = gzipSync(`\uFEFF${openaiCsv.replaceAll('\n', '\r\n')}`);
    assert.deepEqual(await read('openai', packed), { costs: expected, isCut: false });
  });

  test('OpenAI, an answer of the API: every digit counts, and a page that is not the last one is told', async () => {
    assert.deepEqual(await read('openai', openaiJson), {
      costs: [
        ['2026-05-17', 'gpt-5-mini-2025-08-07', '0.06000000000000000001'],
        ['2026-05-17', '(no line item)', '1.5'],
      ],
      isCut: true,
    });
    const pages = `[${openaiJson}, {"data": [], "has_more": false}]`;
    assert.deepEqual((await read('openai', pages)).isCut, false);
  });

  test('Anthropic, the export as CSV, in dollars', async () => {
    assert.deepEqual((await read('anthropic', anthropicCsv)).costs, [
      ['2026-05-17', 'Claude Haiku 4.5', '0.12'],
      ['2026-05-17', 'web_search', '0.01'],
    ]);
  });

  test('Anthropic, an answer of the API, in cents', async () => {
    assert.deepEqual((await read('anthropic', anthropicJson)).costs, [
      ['2026-05-17', 'claude-sonnet-4-20250514', '1.2345'],
      ['2026-05-17', 'web_search', '0.01'],
    ]);
  });

  test('a report of AWS: other services are left out, taxes and credits are no model', async () => {
    assert.deepEqual((await read('bedrock', report)).costs, novaLite);
    const older = report
      .replaceAll(/line_item_line_item_type|line_item_(?=usage|product|unblended|currency)/g, (name) =>
        name === 'line_item_line_item_type' ? 'lineItem/LineItemType' : 'lineItem/',
      )
      .replace('usage_start_date', 'UsageStartDate')
      .replace('product_code', 'ProductCode')
      .replace('usage_type', 'UsageType')
      .replace('unblended_cost', 'UnblendedCost')
      .replace('currency_code', 'CurrencyCode')
      .replace('product_product_name', 'product/ProductName');
    assert.match(older, /lineItem\/UsageStartDate,lineItem\/ProductCode,lineItem\/UsageType/);
    assert.deepEqual((await read('bedrock', older)).costs, novaLite);
  });

  const mistakes: readonly [
    what: string,
    biller: Biller,
    content: string | Uint8Array,
    place: [number, number],
    says: RegExp,
  ][] = [
    ['no column', 'openai', 'date,amount\n2026-05-17,1\n', [1, 1], /no column amount_value or cost_usd/],
    [
      'a file of another provider',
      'bedrock',
      openaiCsv,
      [1, 1],
      /no column line_item_usage_start_date.*bedrock/,
    ],
    [
      'no amount',
      'openai',
      openaiCsv.replace('0.2,', '1.2.3,'),
      [3, 75],
      /amount_value is "1\.2\.3"; expected an amount/,
    ],
    [
      'no day',
      'anthropic',
      anthropicCsv.replace('2026-05-17,,', '2026-02-30,,'),
      [4, 1],
      /usage_date_utc is "2026-02-30"; expected a day/,
    ],
    [
      'another currency',
      'openai',
      openaiCsv.replace('usd', 'eur'),
      [2, 79],
      /amount_currency is "eur"; expected the currency USD/,
    ],
    ['a cell too few', 'anthropic', `${anthropicCsv}2026-05-17,x\n`, [5, 12], /has 2 cells; expected 10/],
    ['a quote that is not closed', 'openai', `${openaiCsv}1778976000,"x\n`, [5, 12], /never closed/],
    ['an empty file', 'openai', '', [1, 1], /empty/],
    ['no JSON', 'openai', '{\n  "data": [,]\n}', [2, 12], /no JSON/],
    [
      'JSON of something else',
      'openai',
      '{"error": {}}',
      [1, 1],
      /expected a page of GET \/v1\/organization\/costs/,
    ],
    [
      'a wrong member',
      'openai',
      openaiJson.replace('0.06000000000000000001', '"much"'),
      [5, 69],
      /\/data\/0\/results\/0\/amount\/value is "much"; expected a decimal number/,
    ],
    [
      'a wrong time',
      'anthropic',
      anthropicJson.replace('2026-05-17T00:00:00Z', 'now'),
      [1, 25],
      /starting_at is "now"; expected a time/,
    ],
    ['JSON for AWS', 'bedrock', '[]', [1, 1], /expected the CSV of an AWS/],
    ['no text', 'openai', new Uint8Array([0xff, 0xfe, 0x41]), [0, 0], /no UTF-8/],
  ];
  for (const [what, biller, content, [line, column], says] of mistakes) {
    test(`${what}: line, column and what is expected`, async () => {
      await assert.rejects(read(biller, content), (error) => {
        assert.ok(error instanceof FileMistake, String(error));
        assert.match(error.message, says);
        assert.deepEqual([error.line, error.column], [line, column]);
        return true;
      });
    });
  }
});
