// Loaded with --import into a gateway: each SIGUSR2 writes the source files whose functions ran since the previous one.
// `scripts/walk.ts` starts the gateway with it.
import { writeFileSync } from 'node:fs';
import { Session } from 'node:inspector';

const target = process.env['WEIR_WALK_FILE'];
const root = new URL('..', import.meta.url).href;
const session = new Session();
session.connect();
session.post('Profiler.enable');
session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

process.on('SIGUSR2', () => {
  session.post('Profiler.takePreciseCoverage', (error, taken) => {
    if (error) throw error;
    const files = taken.result
      .filter(({ url, functions }) => url.startsWith(root) && ran(functions))
      .map(({ url }) => url.slice(root.length).split('?')[0])
      .filter((file) => /^(main|core|plugins|adapters|storage)\b.*\.ts$/.test(file));
    writeFileSync(target, JSON.stringify([...new Set(files)].sort()));
  });
});

function ran(functions) {
  return functions.some(
    ({ functionName, ranges }) => functionName !== '' && ranges.some(({ count }) => count > 0),
  );
}
