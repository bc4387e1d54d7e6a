import { readdirSync } from 'node:fs';

const root = new URL('../../', import.meta.url);

/** Declares every test below these folders in this process. */
export async function importTests(folders: readonly string[]): Promise<void> {
  for (const folder of folders) {
    const here = new URL(`${folder}/`, root);
    for (const file of readdirSync(here, { recursive: true, encoding: 'utf8' }).sort()) {
      if (file.endsWith('.test.ts')) await import(new URL(file.replaceAll('\\', '/'), here).href);
    }
  }
}
