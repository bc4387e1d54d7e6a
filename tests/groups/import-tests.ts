import { env } from 'node:process';
import { before, describe } from 'node:test';
import { groupFiles, sharedFiles, type Group, type Shared } from '../../scripts/test-groups.mjs';

const root = new URL('../../', import.meta.url);

/** Declares the tests of a group in this process, each file as a suite with hooks of its own. */
export async function importTests(group: Group): Promise<void> {
  await importFiles(groupFiles(group));
}

/** The same for the files of a suite with a command of its own that share this process, the nth one, from 1. */
export async function importShared(name: Shared, process: number): Promise<void> {
  await importFiles(sharedFiles(name, process, env['WEIR_TEST_BOUNDED'] === '1'));
}

async function importFiles(files: readonly string[]): Promise<void> {
  let isDeclared: () => void = () => undefined;
  const declared = new Promise<void>((resolve) => (isDeclared = resolve));
  // Compiling the next file would hold up the timers of a test that runs.
  before(() => declared);
  for (const file of files)
    // One after another: what a file waits for while it loads must not be declared in the suite of another one.
    await new Promise<void>((resolve) => {
      void describe(file, async () => {
        try {
          await import(new URL(file, root).href);
        } finally {
          resolve();
        }
      });
    });
  isDeclared();
}
