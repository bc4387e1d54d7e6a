// `npm run bench`, on Node: the bench compiled as the gateway itself is. Through tsx, parts that run in the bench's own
// process would also pay for what tsx adds to functions, up to half of their figure.
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { builds, bundle, entryPoints } from './built-sources.mjs';

await mkdir(builds, { recursive: true });
const folder = await mkdtemp(path.join(builds, 'bench-'));
try {
  await bundle({
    outdir: folder,
    entryPoints: {
      ...entryPoints,
      bench: 'scripts/bench/main.ts',
      part: 'scripts/bench/part.ts',
      'mcp-upstream': 'scripts/bench/mcp-upstream.ts',
      asker: 'scripts/bench/asker.ts',
      'window-asker': 'scripts/bench/window-asker.ts',
    },
    placeOf: (file) => pathToFileURL(file).href,
  });
  await import(pathToFileURL(path.join(folder, 'bench.mjs')).href);
} finally {
  await rm(folder, { recursive: true, force: true });
}
