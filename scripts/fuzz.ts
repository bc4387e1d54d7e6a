// `npm run fuzz -- --minutes 10 [--seed N] [--only NAME] [--path PATH]`: fuzzes every target in turns until the time is
// over. A case that breaks a property is shrunk and printed with the command that replays it, and ends the run with 1.
import { parseArgs } from 'node:util';
import { administrationTargets } from '../tests/fuzz/administration.ts';
import { configurationTargets } from '../tests/fuzz/configuration.ts';
import { dialectTargets } from '../tests/fuzz/dialects.ts';
import { framingTargets } from '../tests/fuzz/framings.ts';
import { frontTargets } from '../tests/fuzz/front.ts';
import { runTargets } from '../tests/fuzz/run-targets.ts';
import { numberOption } from './number-option.ts';

const targets = [
  ...framingTargets,
  ...dialectTargets,
  ...configurationTargets,
  ...frontTargets,
  ...administrationTargets,
];
const { values: given } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    seed: { type: 'string' },
    only: { type: 'string', default: '' },
    path: { type: 'string' },
  },
});
const chosen = targets.filter(({ name }) => name.startsWith(given.only));
const names = targets.map(({ name }) => name).join(', ');
if (chosen.length === 0) fail(`No target begins with "${given.only}". There are: ${names}.`);
if (given.path !== undefined && chosen.length > 1)
  fail('A path belongs to one target: name it whole with --only.');
const minutes = numberOption('minutes', given.minutes, { most: 24 * 60 });
const seed =
  given.seed === undefined ? Date.now() % 2 ** 31 : numberOption('seed', given.seed, { most: 2 ** 31 });

const report = (line: string): void => console.error(line);
const { failed, rows } = await runTargets(chosen, { minutes, seed, path: given.path, report });
console.log(`Seed ${seed}`);
console.table(
  rows.map(({ name, cases, seconds }) => ({ target: name, cases, seconds: Number(seconds.toFixed(1)) })),
);
const idle = failed ? [] : rows.filter(({ cases }) => cases === 0).map(({ name }) => name);
if (idle.length > 0) report(`No case was run of ${idle.join(', ')}.`);
process.exit(failed || idle.length > 0 ? 1 : 0);

function fail(message: string): never {
  console.error(message);
  process.exit(1);
}
