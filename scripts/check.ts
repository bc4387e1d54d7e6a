// `npm run check`: every check, each with its name and result. Fails if any of them fails.
import { spawnSync } from 'node:child_process';
import { checkCircles, checkCycles, checkLayers, checkUpward } from './check-layers.ts';
import { checkDeploy } from './check-deploy.ts';
import { checkErrorDocs } from './check-errors.ts';
import { checkExports } from './check-exports.ts';
import { checkFileRules, checkNamedPaths } from './check-files.ts';
import { printFigures } from './figures.ts';
import { readSources } from './read-sources.ts';

type Gate = readonly [name: string, run: () => readonly string[]];

const sources = readSources();
const gates: readonly Gate[] = [
  ['types', () => command('node_modules/typescript/bin/tsc', '--noEmit', '-p', '.')],
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
  ['config reference', () => command('--import', 'tsx', 'scripts/generate-config-reference.ts', '--check')],
  ['lint', () => command('node_modules/eslint/bin/eslint.js', '--max-warnings', '0', '.')],
];

if (process.argv.includes('--figures')) {
  await printFigures(sources);
  process.exit(0);
}

let failed = 0;
for (const [name, run] of gates) {
  const problems = run();
  console.log(`${problems.length === 0 ? 'ok  ' : 'FAIL'} ${name}`);
  for (const problem of problems) console.log(`     ${problem}`);
  if (problems.length > 0) failed++;
}
console.log(
  failed === 0 ? `All ${gates.length} checks passed.` : `${failed} of ${gates.length} checks failed.`,
);
process.exitCode = failed === 0 ? 0 : 1;

function command(...args: string[]): readonly string[] {
  const result = spawnSync(process.execPath, args, { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 });
  if (result.status === 0) return [];
  const output = `${result.stdout}${result.stderr}`.trim();
  return output === ''
    ? [`${args[0] ?? ''} ended with ${String(result.status ?? result.signal)}`]
    : output.split('\n');
}
