// main.ts on Node: its build, or the source itself through tsx when the build failed.
import { existsSync } from 'node:fs';

// Errors show the lines of the sources.
process.setSourceMapsEnabled(true);
const source = new URL('../main.ts', import.meta.url);
if (existsSync(source)) {
  const { builtMain } = await import('./built-sources.mjs');
  const built = await builtMain();
  if (built === undefined) (await import('tsx/esm/api')).register();
  await import(built ?? source.href);
} else {
  // The package, which `scripts/build-package.mjs` has made.
  await import(new URL('../dist/main.mjs', import.meta.url).href);
}
