import { readdirSync } from 'node:fs';
import { hasOwnCommand } from '../../scripts/test-groups.mjs';

const root = new URL('../../', import.meta.url);

/** Declares every test below these folders in this process, but for those that have a command of their own. */
export async function importTests(folders: readonly string[]): Promise<void> {
  for (const folder of folders) {
    const here = new URL(`${folder}/`, root);
    for (const found of readdirSync(here, { recursive: true, encoding: 'utf8' }).sort()) {
      const file = found.replaceAll('\\', '/');
      if (!file.endsWith('.test.ts') || hasOwnCommand(`${folder}/${file}`)) continue;
      await import(new URL(file, here).href);
    }
  }
}
