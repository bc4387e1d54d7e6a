// Writes the types of the administration API for the console (plugins/console/app/src/api/schema.gen.d.ts), from the same
// document that the gateway serves as /openapi.json. They are not committed: `npm run check` writes them, and checks the
// console with them (`--check`).
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type ts from 'typescript';
import { wholeDocument } from '../tests/kit/openapi-kit.ts';

const app = new URL('../plugins/console/app/', import.meta.url);
const target = new URL('src/api/schema.gen.d.ts', app);

/** The parts of `openapi-typescript` that are used; it is installed beside the console's sources. */
interface Generator {
  readonly default: (
    document: object,
    options: { readonly alphabetize: boolean },
  ) => Promise<readonly ts.Node[]>;
  readonly astToString: (nodes: readonly ts.Node[]) => string;
}

run(fileURLToPath(new URL('build-console.mjs', import.meta.url)), '--install');
const entry = createRequire(new URL('package.json', app)).resolve('openapi-typescript');
const generator = (await import(pathToFileURL(entry).href)) as Generator;
const { document } = await wholeDocument();
const nodes = await generator.default(document, { alphabetize: true });
writeFileSync(target, generator.astToString(nodes));
console.log(`Wrote ${fileURLToPath(target)}.`);
if (process.argv.includes('--check'))
  run(fileURLToPath(new URL('node_modules/typescript/bin/tsc', app)), '--noEmit', '-p', fileURLToPath(app));

/** Ends this process with the program's status when it fails; its output is shown. */
function run(...args: readonly string[]): void {
  const { status } = spawnSync(process.execPath, args, { stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}
