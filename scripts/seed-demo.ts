// `npm run seed:demo -- --rows 10000000 --bodies 0.01`: fills the analytics store with a realistic month.
import path from 'node:path';
import { parseArgs } from 'node:util';
import { createLog } from '../adapters/telemetry/line-log.ts';
import { loadConfig } from '../core/config/load-config.ts';
import { formatProblem } from '../core/config/problem.ts';
import { UndoStack } from '../core/lifecycle/undo-stack.ts';
import { systemClock as clock } from '../core/ports/clock.ts';
import { configFile } from '../main/config-file.ts';
import { DataFolderInUse } from '../storage/embedded/data-lock.ts';
import { fill } from './seed-demo/fill.ts';
import { openDemoStore } from './seed-demo/open-store.ts';
import { showProgress } from './seed-demo/progress.ts';
import { besideGateway, readSeedArguments, seedUsage } from './seed-demo/seed-arguments.ts';

const { env } = process;
const minuteMs = 60_000;

async function run(): Promise<number> {
  const { values } = parseArgs({
    options: {
      rows: { type: 'string' },
      bodies: { type: 'string' },
      days: { type: 'string' },
      seed: { type: 'string' },
      end: { type: 'string' },
      config: { type: 'string' },
      data: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help === true) return say(seedUsage, 0);
  const wanted = readSeedArguments(values);
  const file = configFile(values.config ?? env['WEIR_CONFIG']);
  const loaded = await loadConfig(file, { env });
  if (!loaded.ok) return say(loaded.problems.map(formatProblem).join('\n'), 1);
  const write = (line: string): void => void process.stderr.write(line);
  const log = createLog({ level: 'warn', format: 'text', write, clock });
  const opened = new UndoStack({
    clock,
    timeoutMs: 30_000,
    onError: (error) => log.error('A part could not be closed', { error }),
  });
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
  try {
    const data = path.resolve(values.data ?? (env['WEIR_DATA'] || 'data'));
    const { config } = loaded;
    const store = await openDemoStore({ config, file, data, environment: env, log, clock, opened });
    const { client, home, newOwnerKey, memoryBytes } = store;
    if (newOwnerKey !== undefined)
      say(`Owner key of the new data folder, shown only this once: ${newOwnerKey}`, 0);
    const end = wanted.end ?? Math.floor(clock.now() / minuteMs) * minuteMs;
    const progress = showProgress(process.stdout, () => clock.monotonic());
    const done = await fill(client, { ...wanted, end, home, memoryBytes }, progress, stop.signal);
    const until = new Date(done.end).toISOString();
    if (done.stored < done.rows) return say('\nStopped. The same command goes on from here.', 130);
    return say(
      done.own === 0
        ? `All of these rows are there already; they end at ${until}.`
        : `Done: the rows of ${wanted.days} days until ${until}, in organisation ${home.organisationId}.`,
      0,
    );
  } finally {
    await opened.dispose();
  }
}

function say(text: string, code: number): number {
  (code === 0 ? console.log : console.error)(text);
  return code;
}

try {
  process.exitCode = await run();
} catch (error) {
  const why = error instanceof Error ? error.message : String(error);
  process.exitCode = say(error instanceof DataFolderInUse ? `${why}. ${besideGateway}` : why, 1);
}
