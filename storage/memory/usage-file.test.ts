import assert from 'node:assert/strict';
import { appendFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { UsageLedger } from '../../core/ports/budgets.ts';
import { usageLedgerConformance } from '../../tests/conformance/usage-ledger.ts';
import { recordingLog, temporaryFolder } from '../embedded/chdb-fixture.ts';
import { openUsageFile } from './usage-file.ts';

describe('usage in a file', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let ledger: UsageLedger & { close(): Promise<void> };
  before(async () => {
    folder = await temporaryFolder();
    ledger = await openUsageFile({ directory: folder.path, log: recordingLog() });
  });
  after(async () => {
    await ledger.close();
    await folder.remove();
  });
  usageLedgerConformance(() => ledger);

  test('is there after a kill; a line that was cut is left out', async () => {
    const directory = path.join(folder.path, 'killed');
    const log = recordingLog();
    const first = await openUsageFile({ directory, log });
    const row = { key: 'k', organisationId: 'o', epoch: 3, since: 4 };
    await first.exchange([{ ...row, added: 5 }], '');
    await first.exchange([{ ...row, added: 6 }], '');
    await first.claim({ key: 'k', organisationId: 'o', kind: 'exhausted', mark: '3:10', by: 'me' });
    await appendFile(path.join(directory, 'usage.jsonl'), '{"key":"k","organi');
    const again = await openUsageFile({ directory, log });
    const { rows } = await again.exchange([], '');
    const claimed = { threshold: '', exhausted: '3:10' };
    assert.deepEqual(rows, [{ ...row, used: 11, corrections: 0, claimed }]);
    assert.deepEqual(log.lines, []);
    await first.close();
    await again.close();
  });
});
