// Writes the types of the administration API for the console (plugins/console/app/src/api/schema.gen.d.ts), from the same
// document that the gateway serves as /openapi.json. Not committed: `npm run check` writes them and checks the console.
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { wholeDocument } from '../tests/kit/openapi-kit.ts';

const app = new URL('../plugins/console/app/', import.meta.url);
const target = new URL('src/api/schema.gen.d.ts', app);

/** The parts of `openapi-typescript` that are used; it is installed beside the console's sources. */
interface Generator {
  readonly default: (document: object, options: { readonly alphabetize: boolean }) => Promise<unknown>;
  readonly astToString: (nodes: never) => string;
}

const entry = createRequire(new URL('package.json', app)).resolve('openapi-typescript');
const generator = (await import(pathToFileURL(entry).href)) as Generator;
const { document } = await wholeDocument();
const nodes = (await generator.default(document, { alphabetize: true })) as never;
writeFileSync(target, generator.astToString(nodes));
console.log(`Wrote ${fileURLToPath(target)}.`);
