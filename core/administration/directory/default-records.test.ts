import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realClock, recordingLog, type Line } from '../../lifecycle/recording-services.test-support.ts';
import { ensureDefaultRecords } from './default-records.ts';
import { StoreInMemory } from './store.test-support.ts';

test('a gateway that brings an organisation of its own into a store that has others says so, once', async () => {
  const store = new StoreInMemory();
  const lines: Line[] = [];
  const open = (organisation: string): Promise<void> =>
    ensureDefaultRecords(store, {
      base: { defaultOrganisationId: organisation, defaultWorkspaceId: `${organisation}-ws` },
      owner: { id: `${organisation}-owner`, email: 'owner@localhost' },
      clock: realClock,
      log: recordingLog(lines),
    });
  await open('first');
  await open('first');
  assert.equal(lines.length, 0);
  await open('second');
  await open('second');
  assert.deepEqual(
    lines.map(({ level, fields }) => [level, fields]),
    [['warn', { organisation_id: 'second', others: 1 }]],
  );
  assert.match(lines[0]?.message ?? '', /identity\.json/);
  assert.deepEqual([...store.organisations.keys()], ['first', 'second']);
});
