// Libraries of hundreds of small files, bundled into a few: under tsx each file costs most of a millisecond, in every
// process that starts. tsconfig.run.json tells tsx their location (`runEnvironment`); types come from the libraries,
// and without the bundles everything works too, only slower.
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const folder = path.join(root, 'node_modules', '.weir');
const configuration = path.join(root, 'tsconfig.run.json');
const made = Object.entries(JSON.parse(readFileSync(configuration, 'utf8')).compilerOptions.paths).filter(
  ([, [file]]) => file.startsWith('./node_modules/.weir/'),
);

/** Environment variables with which tsx uses the bundles. */
export const runEnvironment = { TSX_TSCONFIG_PATH: configuration };

/** Rebuilds the bundles. */
export async function bundleModules() {
  const names = made.map(([name]) => name);
  // Loaded here: this file is read before anything is installed.
  const { build } = await import('esbuild');
  const entryPoints = Object.fromEntries(names.map((name) => [nameOf(name), name]));
  await build({
    entryPoints,
    outdir: folder,
    absWorkingDir: root,
    logLevel: 'error',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    outExtension: { '.js': '.mjs' },
    external: ['pg', 'pg-native'],
  });
}

/** True when every bundle is there. */
export function isBundled() {
  return made.every(([, [file]]) => existsSync(path.join(root, file)));
}

function nameOf(specifier) {
  return specifier.replaceAll('/', '-');
}
