// Writes docs/dialects.md from the behaviour of the dialects; with --check it only compares, and fails when they
// differ.
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { dialects, providerDialects } from '../adapters/dialects/index.ts';
import { dialectTable, tableCommand } from './dialect-table/dialect-table.ts';

const target = fileURLToPath(new URL('../docs/dialects.md', import.meta.url));

const text = await dialectTable(dialects, providerDialects);
if (!process.argv.includes('--check')) await writeFile(target, text);
else if ((await readFile(target, 'utf8').catch(() => '')) !== text) {
  console.error(`docs/dialects.md is not what the dialects do. Run: ${tableCommand}`);
  process.exitCode = 1;
}
