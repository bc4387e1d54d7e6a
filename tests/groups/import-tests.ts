import { before, describe } from 'node:test';
import { groupFiles, type Group } from '../../scripts/test-groups.mjs';

const root = new URL('../../', import.meta.url);

/** Declares the tests of these files in this process, each file as a suite with hooks of its own. */
export async function importTests(group: Group): Promise<void> {
  let isDeclared: () => void = () => undefined;
  const declared = new Promise<void>((resolve) => (isDeclared = resolve));
  // Compiling the next file would hold up the timers of a test that runs.
  before(() => declared);
  for (const file of groupFiles(group))
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
