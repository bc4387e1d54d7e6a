import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { AuditEntry, AuditRecord } from '../../core/ports/resources.ts';
import { anEntry } from '../../tests/conformance/resources-records.ts';
import { auditStore } from './audit-store.ts';
import { chainStart } from './stored-records.ts';

const text = fc.string({ unit: 'grapheme', maxLength: 20 });
const entries = fc.array(
  fc
    .record({ actorId: text, actorName: text, resourceId: text, uri: text, details: text, at: fc.nat() })
    .map((given) => anEntry('organisation', given)),
  { minLength: 1, maxLength: 8 },
);

function chained(list: readonly AuditEntry[], previous = chainStart): AuditRecord[] {
  let { number, hash } = previous;
  return list.map((entry) => {
    number += 1;
    hash = auditStore.hash(hash, number, entry);
    return { ...entry, number, hash };
  });
}

/** Fails, and says the first number that is wrong. */
function assertFound(records: readonly AuditRecord[], number: number): void {
  const verdict = auditStore.verifyChain(records, chainStart);
  assert.ok(!verdict.ok);
  assert.equal(verdict.number, number);
  assert.match(verdict.reason, new RegExp(`record ${number}`));
}

describe('audit chain', () => {
  test('what was appended is found right, as a whole and page by page', () => {
    fc.assert(
      fc.property(entries, fc.nat(), (list, where) => {
        const records = chained(list);
        const cut = where % records.length;
        assert.deepEqual(auditStore.verifyChain(records, chainStart), { ok: true });
        assert.deepEqual(auditStore.verifyChain(records.slice(cut), records[cut - 1] ?? chainStart), {
          ok: true,
        });
      }),
    );
    assert.deepEqual(auditStore.verifyChain([], chainStart), { ok: true });
  });

  test('a changed record is found, whichever field was changed', () => {
    fc.assert(
      fc.property(entries, fc.nat(), (list, where) => {
        const records = chained(list);
        const index = where % records.length;
        const original = records[index]!;
        for (const field of Object.keys(original) as (keyof AuditRecord)[]) {
          if (field === 'number') continue;
          const value = original[field];
          const changed = { ...original, [field]: typeof value === 'number' ? value + 1 : `${value}x` };
          assertFound(records.with(index, changed), index + 1);
        }
      }),
    );
  });

  test('text that moved from one field to the next is found', () => {
    fc.assert(
      fc.property(entries, fc.string({ minLength: 1, unit: 'grapheme' }), (list, moved) => {
        const [first, ...rest] = list as [AuditEntry, ...AuditEntry[]];
        const records = chained([{ ...first, actorId: first.actorId + moved }, ...rest]);
        const changed = { ...records[0]!, actorId: first.actorId, actorName: moved + first.actorName };
        assertFound(records.with(0, changed), 1);
      }),
    );
  });

  test('a record that was removed before the end is found', () => {
    fc.assert(
      fc.property(entries, fc.nat(), (list, where) => {
        fc.pre(list.length > 1);
        const records = chained(list);
        const index = where % (records.length - 1);
        assertFound(records.toSpliced(index, 1), index + 1);
        // Numbering the others anew does not hide it.
        const renumbered = records.toSpliced(index, 1).map((record, at) => ({ ...record, number: at + 1 }));
        assertFound(renumbered, index + 1);
      }),
    );
  });

  test('records that changed places are found', () => {
    fc.assert(
      fc.property(entries, fc.nat(), fc.nat(), (list, one, two) => {
        const records = chained(list);
        const [low, high] = [one % records.length, two % records.length].sort((a, b) => a - b) as [
          number,
          number,
        ];
        fc.pre(low !== high);
        const swapped = records.with(low, records[high]!).with(high, records[low]!);
        assertFound(swapped, low + 1);
        const renumbered = swapped.map((record, at) => ({ ...record, number: at + 1 }));
        assertFound(renumbered, low + 1);
      }),
    );
  });

  test('a record that was added is found, even with a hash that fits', () => {
    fc.assert(
      fc.property(entries, fc.nat(), (list, where) => {
        const records = chained(list);
        const index = where % records.length;
        const before = records[index - 1] ?? chainStart;
        const [added] = chained([anEntry('organisation')], before) as [AuditRecord];
        const longer = [...records.slice(0, index), added, ...records.slice(index)];
        assertFound(longer, index + 2);
        // Numbering the rest anew moves the gap nowhere.
        const renumbered = longer.map((record, at) => ({ ...record, number: at + 1 }));
        assertFound(renumbered, index + 2);
      }),
    );
  });

  test('the encoding is the one of the chains that are stored', () => {
    const entry = anEntry('organisation', { id: 'first', actorName: 'Zoë' });
    assert.equal(
      auditStore.hash(chainStart.hash, 1, entry),
      'ed4570e408bc4804f5fe6cad24de465a56025bb09a5531afa6e152eebdbd9d59',
    );
  });
});
