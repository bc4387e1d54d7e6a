import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { UsageLedger } from '../../core/ports/budgets.ts';

/** What every ledger of usage does. */
export function usageLedgerConformance(ledger: () => UsageLedger): void {
  const delta = (key: string, epoch: number, added: number, since = epoch) => {
    return { key, organisationId: 'o', epoch, added, since };
  };
  const used = async (key: string): Promise<unknown> => {
    const { rows } = await ledger().exchange([], '');
    const row = rows.find((one) => one.key === key);
    return row && [row.epoch, row.used];
  };

  test('adds within a period, begins anew with a later one, and ignores what comes too late', async () => {
    await ledger().exchange([delta('a', 100, 5), delta('b', 0, 2)], '');
    await ledger().exchange([delta('a', 100, 7)], '');
    assert.deepEqual(await used('a'), [100, 12]);
    await ledger().exchange([delta('a', 200, 3)], '');
    await ledger().exchange([delta('a', 100, 50)], '');
    assert.deepEqual(await used('a'), [200, 3]);
    assert.deepEqual(await used('b'), [0, 2]);
  });

  test('tells a mark, and nothing is missed behind it', async () => {
    const { mark } = await ledger().exchange([], '');
    await ledger().exchange([delta('c', 0, 1)], '');
    const { rows } = await ledger().exchange([], mark);
    assert.ok(rows.some(({ key }) => key === 'c'));
  });

  test('of many that add at once nothing is lost', async () => {
    const keys = Array.from({ length: 20 }, (_, index) => `many-${index}`);
    const all = Array.from({ length: 10 }, (_, index) =>
      ledger().exchange(
        (index % 2 === 0 ? keys : [...keys].reverse()).map((key) => delta(key, 0, 1)),
        '',
      ),
    );
    await Promise.all(all);
    for (const key of keys) assert.deepEqual(await used(key), [0, 10]);
  });

  test('a crossing is claimed once, also when the one that claimed it asks again', async () => {
    const claim = { key: 'claimed', organisationId: 'o', kind: 'exhausted' as const, mark: '0:20' };
    const claimants = Array.from({ length: 5 }, (_, index) => `by${index}`);
    const claims = await Promise.all(claimants.map((by) => ledger().claim({ ...claim, by })));
    assert.equal(claims.filter((isFirst) => isFirst).length, 1);
    const first = claimants[claims.indexOf(true)] ?? '';
    assert.equal(await ledger().claim({ ...claim, by: first }), true);
    assert.equal(await ledger().claim({ ...claim, by: 'other' }), false);
    assert.equal(await ledger().claim({ ...claim, mark: '0:30', by: 'other' }), true);
    assert.equal(await ledger().claim({ ...claim, kind: 'threshold', mark: '0:30:10', by: 'other' }), true);
    const { rows } = await ledger().exchange([delta('claimed', 0, 7)], '');
    const { used, claimed } = rows.find(({ key }) => key === 'claimed') ?? {};
    assert.deepEqual([used, claimed], [7, { threshold: '0:30:10', exhausted: '0:30' }]);
  });

  test('keeps since when a period is counted: the earliest that was said, and of a later period its own', async () => {
    const since = async (): Promise<unknown> => {
      const { rows } = await ledger().exchange([], '');
      return rows.find(({ key }) => key === 'since')?.since;
    };
    await ledger().exchange([delta('since', 100, 1, 150)], '');
    await ledger().exchange([delta('since', 100, 1, 140)], '');
    await ledger().exchange([delta('since', 100, 1, 160)], '');
    assert.equal(await since(), 140);
    await ledger().exchange([delta('since', 200, 1, 270)], '');
    await ledger().exchange([delta('since', 100, 1, 110)], '');
    assert.equal(await since(), 270);
  });

  test('is corrected once of what was read, and not of another period', async () => {
    await ledger().exchange([delta('one', 100, 5), delta('two', 100, 5)], '');
    const missing = (key: string, epoch: number, corrections: number) => {
      return { key, epoch, corrections, added: 3 };
    };
    const corrected = await ledger().correct([missing('one', 100, 0), missing('two', 90, 0)]);
    assert.deepEqual([...corrected], ['one']);
    const again = await ledger().correct([missing('one', 100, 0), missing('no such', 100, 0)]);
    assert.deepEqual([...again], []);
    assert.deepEqual(
      [await used('one'), await used('two')],
      [
        [100, 8],
        [100, 5],
      ],
    );
    await ledger().exchange([delta('one', 100, 1)], '');
    assert.deepEqual([...(await ledger().correct([missing('one', 100, 1)]))], ['one']);
    assert.deepEqual(await used('one'), [100, 12]);
  });

  test('holds thousands at once', async () => {
    const deltas = Array.from({ length: 5000 }, (_, index) => delta(`thousands-${index}`, 0, index));
    const { rows } = await ledger().exchange(deltas, '');
    assert.equal(rows.filter(({ key }) => key.startsWith('thousands-')).length, 5000);
  });
}
