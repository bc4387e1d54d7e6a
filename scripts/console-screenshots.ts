// `node --import tsx scripts/console-screenshots.ts`: pictures of the console's main pages for docs/console.md, as
// `tests/browser/screenshots.test.ts` makes them.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const { status } = spawnSync(
  process.execPath,
  ['--import', 'tsx', '--test', 'tests/browser/screenshots.test.ts'],
  {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    env: { ...process.env, WEIR_PICTURES: fileURLToPath(new URL('../docs/console', import.meta.url)) },
    stdio: 'inherit',
  },
);
process.exitCode = status ?? 1;
