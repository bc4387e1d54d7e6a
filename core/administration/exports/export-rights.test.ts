import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Visibility } from '../../ports/analytics.ts';
import type { StoredRecord } from '../../ports/records.ts';
import { covers, exportVisibility } from './export-rights.ts';

/** Whose a row is. */
interface Row {
  readonly organisationId: string;
  readonly workspaceId: string;
  readonly userId: string;
  readonly apiKeyId: string;
}

const names = ['a', 'b'];
/** One of each kind. */
const rows: readonly Row[] = names.flatMap((organisationId) =>
  names.flatMap((workspaceId) =>
    names.flatMap((userId) => names.map((apiKeyId) => ({ organisationId, workspaceId, userId, apiKeyId }))),
  ),
);
const two = fc.constantFrom(...names);
const visibility: fc.Arbitrary<Visibility> = fc.record(
  { organisationId: two, workspaceId: two, userId: two, apiKeyId: two },
  { requiredKeys: ['organisationId'] },
);

/** As `Visibility` says it. */
function sees(visibility: Visibility, row: Row): boolean {
  return Object.entries(visibility).every(([name, value]) => row[name as keyof Row] === value);
}

/** An export, as its route makes it, of what this lets see. */
function exportOf({ organisationId, workspaceId, userId, apiKeyId }: Visibility) {
  const data = { visibleUserId: userId, visibleKeyId: apiKeyId };
  return { organisationId, workspaceId, data } as Pick<
    StoredRecord<'log_export'>,
    'organisationId' | 'workspaceId' | 'data'
  >;
}

/** The kinds of rows that this lets see. */
const seenBy = (visibility: Visibility): readonly Row[] => rows.filter((row) => sees(visibility, row));

describe('whose rows an export is about', () => {
  test('exactly those that its maker saw in its workspace', () => {
    fc.assert(
      fc.property(visibility, two, (reach, workspaceId) => {
        const seen = { ...reach, workspaceId };
        assert.deepEqual(seenBy(exportVisibility(exportOf(seen))), seenBy(seen));
      }),
    );
  });

  test('it is shown to whoever sees all of them without it, as far as the two can be compared', () => {
    const bounds = ['workspaceId', 'userId', 'apiKeyId'] as const;
    fc.assert(
      fc.property(visibility, visibility, (viewer, made) => {
        const within = seenBy(made);
        const isAll = within.every((row) => sees(viewer, row));
        if (covers(viewer, made)) assert.ok(isAll);
        // Which keys are whose is not known here: what is not said of an export is not taken for granted.
        else if (bounds.every((name) => viewer[name] === undefined || made[name] !== undefined))
          assert.ok(!isAll);
      }),
      { numRuns: 2000 },
    );
  });

  test('without a workspace it is about nobody', () => {
    fc.assert(
      fc.property(visibility, ({ organisationId }) => {
        assert.deepEqual(seenBy(exportVisibility(exportOf({ organisationId }))), []);
      }),
    );
  });
});
