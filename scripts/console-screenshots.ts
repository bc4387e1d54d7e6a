// `node --import tsx scripts/console-screenshots.ts`: pictures of the console's main pages for docs/console-pictures.md, as
// `tests/browser/screenshots.test.ts` makes them. Debian's `pngquant` makes them a third as large.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const pictures = path.join(root, 'docs/console');

run('pngquant', ['--version'], 'Install pngquant first: apt-get install pngquant.');
run(process.execPath, ['--import', 'tsx', '--test', 'tests/browser/screenshots.test.ts'], 'The test fails.');
const files = readdirSync(pictures).filter((file) => file.endsWith('.png'));
run('pngquant', [
  '--force',
  '--ext',
  '.png',
  '--strip',
  '--nofs',
  '--',
  ...files.map((file) => path.join(pictures, file)),
]);

/** Ends this program when the other one fails. */
function run(program: string, args: readonly string[], remedy = `${program} fails.`): void {
  const env = { ...process.env, WEIR_PICTURES: pictures };
  if (spawnSync(program, args, { cwd: root, env, stdio: 'inherit' }).status === 0) return;
  console.error(remedy);
  process.exit(1);
}
