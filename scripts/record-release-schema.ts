// Records which parts of the resources store this version reads and writes, for later releases that run beside it. Run
// it for each release: `node --import tsx scripts/record-release-schema.ts`.
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { getTableColumns, is } from 'drizzle-orm';
import { getTableConfig, PgTable } from 'drizzle-orm/pg-core';
import prettier from 'prettier';
import { readMigrations } from '../storage/postgres/migrate.ts';
import * as schema from '../storage/postgres/schema.ts';

const file = fileURLToPath(new URL('../storage/postgres/last-release.json', import.meta.url));
const tables: PgTable[] = [];
for (const value of Object.values(schema)) if (is(value, PgTable)) tables.push(value);
const record = {
  migrations: (await readMigrations()).length,
  tables: Object.fromEntries(
    tables.map((table) => [
      getTableConfig(table).name,
      Object.fromEntries(
        Object.values(getTableColumns(table)).map((column) => [column.name, column.getSQLType()]),
      ),
    ]),
  ),
};
const options = await prettier.resolveConfig(file);
await writeFile(file, await prettier.format(JSON.stringify(record), { ...options, filepath: file }));
process.stdout.write(`Recorded ${Object.keys(record.tables).length} tables in ${file}\n`);
