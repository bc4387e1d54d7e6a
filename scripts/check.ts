// `npm run check`: every check, each with its name and result. Fails if any of them fails. Programs run at the same time:
// each of them uses one core.
import { execFile } from 'node:child_process';
import { checkCircles, checkCycles, checkLayers, checkUpward } from './check-layers.ts';
import { checkDeploy } from './check-deploy.ts';
import { checkErrorDocs } from './check-errors.ts';
import { checkExports } from './check-exports.ts';
import { checkFileRules, checkNamedPaths } from './check-files.ts';
import { printFigures } from './figures.ts';
import { readSources } from './read-sources.ts';

type Problems = readonly string[];
type Gate = readonly [name: string, run: () => Problems | Promise<Problems>];

const sources = readSources();
const gates: readonly Gate[] = [
  // It takes as long as all others together, so it begins first.
  ['lint', () => command('node_modules/eslint/bin/eslint.js', '--max-warnings', '0', '.')],
  ['types', () => command('node_modules/typescript/bin/tsc', '--noEmit', '-p', '.')],
  ['console', () => command('--import', 'tsx', 'scripts/console-types.ts', '--check')],
  ['format', () => command('node_modules/prettier/bin/prettier.cjs', '--check', '--log-level', 'warn', '.')],
  ['layers', () => checkLayers(sources)],
  ['cycles', () => checkCycles(sources)],
  ['floors of core', () => checkUpward(sources)],
  ['circles in core', () => checkCircles(sources)],
  ['files', () => checkFileRules(sources)],
  ['exports', () => checkExports(sources)],
  ['paths in documents', () => checkNamedPaths()],
  ['errors documented', () => checkErrorDocs()],
  ['deployment files', () => checkDeploy(sources)],
  ['notice', () => command('--import', 'tsx', 'scripts/generate-notice.ts', '--check')],
  ['config reference', () => command('--import', 'tsx', 'scripts/generate-config-reference.ts', '--check')],
];

if (process.argv.includes('--figures')) {
  await printFigures(sources);
  process.exit(0);
}

const started = gates.map(([name, run]) => ({ name, result: run() }));
let failed = 0;
for (const { name, result } of started) {
  const problems = await result;
  console.log(`${problems.length === 0 ? 'ok  ' : 'FAIL'} ${name}`);
  for (const problem of problems) console.log(`     ${problem}`);
  if (problems.length > 0) failed++;
}
console.log(
  failed === 0 ? `All ${gates.length} checks passed.` : `${failed} of ${gates.length} checks failed.`,
);
process.exitCode = failed === 0 ? 0 : 1;

/** Runs a program with Node; its output is the problems when it fails. */
function command(...args: string[]): Promise<Problems> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      args,
      { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 },
      (error, stdout, stderr) => {
        if (error === null) return resolve([]);
        const output = `${stdout}${stderr}`.trim();
        resolve(output === '' ? [`${args[0] ?? ''} failed: ${error.message}`] : output.split('\n'));
      },
    );
  });
}
