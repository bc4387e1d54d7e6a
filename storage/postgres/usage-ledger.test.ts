import { after, before, describe } from 'node:test';
import type { UsageLedger } from '../../core/ports/budgets.ts';
import { usageLedgerConformance } from '../../tests/conformance/usage-ledger.ts';
import { type EngineKind, startEngine } from '../../tests/kit/postgres-kit.ts';
import { postgresMissing } from '../../tests/kit/postgres-server.ts';
import { recordingLog, testClock } from '../embedded/chdb-fixture.ts';
import { openDatabase } from './open-database.ts';
import { createUsageLedger } from './usage-ledger.ts';

function ledgerTests(title: string, kind: EngineKind): void {
  describe(title, () => {
    let ledger: UsageLedger;
    const closing: (() => Promise<void>)[] = [];
    before(async () => {
      const engine = await startEngine(kind);
      closing.push(() => engine.close());
      const database = await openDatabase({ place: engine.place, log: recordingLog(), clock: testClock });
      closing.unshift(() => database.close());
      ledger = createUsageLedger(database);
    });
    after(async () => {
      for (const close of closing) await close();
    });
    usageLedgerConformance(() => ledger);
  });
}

ledgerTests('usage in the embedded store', 'embedded');
describe('a real server', { skip: postgresMissing }, () => ledgerTests('usage on a server', 'server'));
