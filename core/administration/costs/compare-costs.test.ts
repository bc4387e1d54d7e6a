import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { RecordedCost } from '../../ports/analytics.ts';
import { modelOfUsageType } from './billed-costs.ts';
import { compareCosts } from '../cli/reconcile-command.ts';
import { exactText, fixedText, percentText, readAmount } from './exact-amount.ts';

const day = '2026-05-17';

function recorded(model: string, cost: string, more: Partial<RecordedCost> = {}): RecordedCost {
  return { day, service: 'openai', model, cost, requests: 1, unpriced: 0, unpricedTokens: 0, ...more };
}

function billed(name: string, amount: string) {
  return { day, name, amount: readAmount(amount) ?? 0n };
}

function shown({ lines }: ReturnType<typeof compareCosts>) {
  return lines.map((line) => [
    line.model,
    line.billed === undefined ? '-' : exactText(line.billed),
    line.recorded === undefined ? '-' : exactText(line.recorded),
  ]);
}

const noNames = () => undefined;

describe('billed and recorded costs', () => {
  test('add up without rounding', () => {
    const tenths = Array.from({ length: 10 }, () => billed('m', '0.1'));
    const found = compareCosts('openai', tenths, [recorded('m', '0.999999999999')], noNames);
    assert.deepEqual(shown(found), [['m', '1', '0.999999999999']]);
  });

  test('snapshots are one model where the price data says so, and another where it does not', () => {
    const nameModel = (model: string) => (model.startsWith('gpt-4o-mini') ? 'gpt-4o-mini' : undefined);
    const found = compareCosts(
      'openai',
      [billed('gpt-4o-mini-2024-07-18', '0.5'), billed('Image models', '2'), billed('gpt-9-2026', '1')],
      [recorded('gpt-4o-mini', '0.2'), recorded('gpt-4o-mini-2024-07-18', '0.3'), recorded('gpt-9', '1')],
      nameModel,
    );
    assert.deepEqual(shown(found), [
      ['gpt-4o-mini', '0.5', '0.5'],
      ['gpt-9', '-', '1'],
      ['gpt-9-2026', '1', '-'],
      ['Image models', '2', '-'],
    ]);
    assert.deepEqual(
      found.unmatched.map(({ name }) => name),
      ['Image models', 'gpt-9-2026'],
    );
  });

  const pairs = [
    ['anthropic', 'Claude Haiku 4.5', 'claude-haiku-4-5-20251001'],
    ['anthropic', 'Claude Sonnet 4', 'claude-sonnet-4-20250514'],
    ['anthropic', 'Claude Sonnet 3.7', 'claude-3-7-sonnet-20250219'],
    ['bedrock', 'NovaLite', 'amazon.nova-lite-v1:0'],
    ['bedrock', 'Claude 3.5 Sonnet', 'us.anthropic.claude-3-5-sonnet-20241022-v2:0'],
    ['bedrock', 'Claude4.5Haiku', 'global.anthropic.claude-haiku-4-5-20251001-v1:0'],
    ['bedrock', 'Llama3-1-70B', 'meta.llama3-1-70b-instruct-v1:0'],
  ] as const;
  for (const [biller, name, model] of pairs)
    test(`${biller} bills ${model} as ${name}`, () => {
      const found = compareCosts(biller, [billed(name, '1')], [recorded(model, '1')], noNames);
      assert.deepEqual([shown(found), found.unmatched], [[[model, '1', '1']], []]);
    });

  test('models with other words are others', () => {
    const found = compareCosts(
      'anthropic',
      [billed('Claude Opus 4', '1')],
      [recorded('claude-opus-4-1', '1')],
      noNames,
    );
    assert.deepEqual(shown(found).length, 2);
  });

  test('usage types name their model', () => {
    const names = [
      ['USE1-NovaLite-input-tokens', 'NovaLite'],
      ['EUC1-NovaPro-cache-read-input-token-count', 'NovaPro'],
      ['USW2-Claude4.6Sonnet-mantle-input-tokens-standard', 'Claude4.6Sonnet'],
      ['EU-TitanEmbeddingsG1-Text-input-tokens', 'TitanEmbeddingsG1-Text'],
      ['USE1-Llama3-1-70B-output-tokens-batch', 'Llama3-1-70B'],
      ['input-tokens', 'input-tokens'],
    ];
    for (const [usageType = '', model] of names) assert.equal(modelOfUsageType(usageType), model);
  });
});

describe('an exact amount', () => {
  test('is read and written digit for digit', () => {
    const texts = [
      ['1', '1'],
      ['0', '0'],
      ['-0.50', '-0.5'],
      ['.5', '0.5'],
      ['1.25E-7', '0.000000125'],
      ['12e2', '1200'],
      ['0.000000000000000000000000000001', '0.000000000000000000000000000001'],
    ];
    for (const [text = '', same] of texts) assert.equal(exactText(readAmount(text) ?? -1n), same);
    for (const text of ['', '.', 'x', '1,5', '$1', '1e', 'NaN', 'Infinity', '1e-31', '1'.repeat(65)])
      assert.equal(readAmount(text), undefined, text);
    assert.equal(exactText(readAmount('123.45', 2) ?? 0n), '1.2345');
  });

  test('is rounded for people, half away from zero', () => {
    assert.equal(fixedText(readAmount('0.0000005') ?? 0n, 6), '0.000001');
    assert.equal(fixedText(readAmount('-1.25') ?? 0n, 1), '-1.3');
    assert.equal(fixedText(readAmount('-0.00000001') ?? 0n, 6), '0.000000');
    assert.equal(percentText(1n, 3n), '33.3');
    assert.equal(percentText(1n, 0n), undefined);
  });
});
