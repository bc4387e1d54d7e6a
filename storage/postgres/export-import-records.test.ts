// `weir export` and `weir import` of records, on both engines of the store.
import { after, before, describe } from 'node:test';
import { sql } from 'drizzle-orm';
import { testTransferOfRecords, type TransferStore } from '../../tests/conformance/transfer-records.ts';
import { startEngine } from '../../tests/kit/postgres-kit.ts';
import { postgresMissing } from '../../tests/kit/postgres-server.ts';
import { recordingLog, temporaryFolder, testClock } from '../embedded/chdb-fixture.ts';
import { openDatabase } from './open-database.ts';
import { createResources } from './resources.ts';

for (const kind of ['embedded', 'server'] as const) {
  describe(`records on the ${kind} engine`, { skip: kind === 'server' && postgresMissing }, () => {
    const closings: (() => Promise<void>)[] = [];
    let store: TransferStore;

    before(async () => {
      const engine = await startEngine(kind);
      closings.push(() => engine.close());
      const log = recordingLog();
      const database = await openDatabase({ place: engine.place, log, clock: testClock });
      closings.push(() => database.close());
      const temporary = await temporaryFolder();
      closings.push(() => temporary.remove());
      store = {
        resources: createResources({ database, clock: testClock, log }),
        folder: temporary.path,
        empty: () =>
          database.query(async (statements) => {
            await statements.execute(sql`DO $$ BEGIN EXECUTE (
              SELECT 'TRUNCATE ' || string_agg(quote_ident(tablename), ', ') || ' CASCADE' FROM pg_tables
              WHERE schemaname = 'public' AND tablename NOT IN ('audit_logs', 'weir_migrations')); END $$`);
          }),
      };
    });
    after(async () => {
      for (const close of closings.reverse()) await close();
    });

    testTransferOfRecords(() => store);
  });
}
