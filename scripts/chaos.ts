// `npm run test:chaos [-- --rounds N | --minutes N] [--seed N]`: the files of tests/chaos, and then the fleet that loses
// its stores, alone on the machine: once with the seed 1, or with new seeds for so many rounds, or until the time is over.
// Exits with 1 when a test has failed; a failed round does not end the others.
import { spawn } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { numberOption } from './number-option.ts';
import { runnerArguments, suites, testFiles } from './test-groups.mjs';

const fleet = 'tests/chaos/fleet-loses-stores.test.ts';
const largestSeed = 2 ** 31;
const { values: given } = parseArgs({
  options: { rounds: { type: 'string' }, minutes: { type: 'string' }, seed: { type: 'string' } },
});
const minutes =
  given.minutes === undefined ? undefined : numberOption('minutes', given.minutes, { most: 7 * 24 * 60 });
const rounds =
  given.rounds === undefined
    ? undefined
    : numberOption('rounds', given.rounds, { most: 10_000, isWhole: true });
const isRepeated = minutes !== undefined || rounds !== undefined;
const firstSeed =
  given.seed === undefined
    ? isRepeated
      ? Date.now() % largestSeed
      : 1
    : numberOption('seed', given.seed, { most: largestSeed, isWhole: true });

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const others = testFiles(root).filter(
  (file) => suites.chaos.test(file.replaceAll('\\', '/')) && !fleet.endsWith(path.basename(file)),
);
let hasPassed = await pass(others);
const failed: number[] = [];
const end = performance.now() + (minutes ?? 0) * 60_000;
for (let round = 0; isDue(round); round++) {
  const seed = (firstSeed + round) % largestSeed;
  console.log(`${fleet}: round ${round + 1}, seed ${seed}`);
  if (!(await pass([fleet], { WEIR_CHAOS_SEED: String(seed) }))) failed.push(seed);
}
for (const seed of failed)
  console.error(
    `FAILED with the seed ${seed}; again: WEIR_CHAOS_SEED=${seed} npm run test:chaos -- ${fleet}`,
  );
hasPassed &&= failed.length === 0;
process.exit(hasPassed ? 0 : 1);

/** At least one round. */
function isDue(round: number): boolean {
  if (rounds !== undefined && round >= rounds) return false;
  if (minutes !== undefined && round > 0 && performance.now() >= end) return false;
  return isRepeated || round === 0;
}

/** Runs these test files, three at a time; true when all have passed. A signal ends the run, and this process. */
function pass(files: readonly string[], more: NodeJS.ProcessEnv = {}): Promise<boolean> {
  const child = spawn(process.execPath, [...runnerArguments, ...files], {
    cwd: root,
    env: { ...process.env, ...more },
    stdio: 'inherit',
  });
  const forward = (signal: NodeJS.Signals): void => {
    child.once('exit', () => process.exit(128));
    child.kill(signal);
  };
  process.on('SIGINT', forward).on('SIGTERM', forward);
  return new Promise((resolve) =>
    child.once('exit', (code) => {
      process.off('SIGINT', forward).off('SIGTERM', forward);
      resolve(code === 0);
    }),
  );
}
