import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { formatAmount } from './genai-prices.ts';
import { exactPrice } from './model-prices.ts';

describe('exact prices', () => {
  const cases: [number, bigint][] = [
    [0, 0n],
    [2.5, 2_500_000_000_000n],
    [0.0028, 2_800_000_000n],
    [0.18000000000000002, 180_000_000_000n],
    [1e-7, 100_000n],
    [600, 600_000_000_000_000n],
  ];
  for (const [dollars, exact] of cases) {
    it(`hold ${dollars}`, () => assert.equal(exactPrice(dollars), exact));
  }

  it('refuse what is no price', () => {
    for (const wrong of [-1, Number.NaN, Infinity])
      assert.throws(() => exactPrice(wrong), /price that is none/);
  });

  it('are written with 12 digits after the point, rounded half up', () => {
    const amounts: [bigint, string][] = [
      [0n, '0.000000000000'],
      [499_999n, '0.000000000000'],
      [500_000n, '0.000000000001'],
      [1_000_000_000_000_000_000n, '1.000000000000'],
      [12_345_678_901_234_567_890n, '12.345678901235'],
    ];
    for (const [amount, text] of amounts) assert.equal(formatAmount(amount), text);
  });

  it('are written so that they read back', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 10n ** 30n }), (pico) => {
        const text = formatAmount(pico * 1_000_000n);
        assert.match(text, /^(0|[1-9]\d*)\.\d{12}$/);
        assert.equal(BigInt(text.replace('.', '')), pico);
      }),
    );
  });
});
