// The gateway's own sources, and the libraries that it begins with, made into a few files of JavaScript. tsx takes a
// millisecond and more for each of the thousand files, in every process that starts: more than the gateway itself. They
// are made again at the next start when a source has changed. Where they cannot be made (a folder that may not be
// written to, a source with a mistake in it) tsx runs the sources, as it does for tests and tools.
import { createHash, randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const here = fileURLToPath(import.meta.url);
const root = path.dirname(path.dirname(here));
const folder = path.join(root, 'node_modules', '.weir');
/** Names the folder of the newest files, and what they were made of. */
const index = path.join(folder, 'sources.json');
const lockFile = path.join(root, 'package-lock.json');
/** Gateways that run may still load a part of what they were started from. */
const keptBuilds = 4;

/** What runs: the gateway, and what it starts as a process or a thread. */
export const entryPoints = {
  main: 'main.ts',
  'pglite-child': 'storage/embedded/pglite-child.ts',
  'chdb-child': 'storage/embedded/chdb-child.ts',
  'translate-large': 'adapters/dialects/translate-large.ts',
};
/** Libraries that are loaded at every start. The others read files of their own, are native, or are rarely needed. */
const bundled =
  /^(@hono\/node-server|ajv|ajv-formats|drizzle-orm|hono|jose|lossless-json|mustache|prom-client|typebox|yaml)(\/|$)/;

/** The URL of what was made of `main.ts`; undefined where nothing could be made. */
export async function builtMain() {
  const built = builtFolder() ?? (await build());
  return built && pathToFileURL(path.join(built, 'main.mjs')).href;
}

/** The folder with what was made of the sources as they are now; undefined when there is none. */
function builtFolder() {
  try {
    const { name, inputs, hash } = JSON.parse(readFileSync(index, 'utf8'));
    const built = path.join(folder, name);
    return existsSync(path.join(built, 'main.mjs')) && hashOf(inputs) === hash ? built : undefined;
  } catch {
    // Not made yet, or damaged: it is made anew.
    return undefined;
  }
}

/** Of the files' text and not of their times, which images and copies change; it takes 20 ms. */
function hashOf(files) {
  const hash = createHash('sha256');
  for (const file of files) {
    const full = path.join(root, file);
    hash.update(`\0${file}\0`).update(existsSync(full) ? readFileSync(full) : '');
  }
  return hash.digest('hex');
}

async function build() {
  const name = `sources-${randomUUID()}`;
  const built = path.join(folder, name);
  try {
    await mkdir(folder, { recursive: true });
    const made = await bundle({ outdir: built, entryPoints, placeOf: (file) => pathToFileURL(file).href });
    const own = made.filter((file) => !file.startsWith('node_modules/'));
    const inputs = [...[lockFile, here].map((file) => path.relative(root, file)), ...own];
    // All or nothing: others may be starting at the same time.
    const temporary = `${index}.${name}`;
    await writeFile(temporary, JSON.stringify({ name, inputs, hash: hashOf(inputs) }));
    await rename(temporary, index);
    await prune();
    return built;
  } catch {
    await rm(built, { recursive: true, force: true }).catch(() => undefined);
    return undefined;
  }
}

/**
 * Makes the files; the sources and the files of libraries that they were made of, from the root. `placeOf` says where a
 * source takes itself to be: a URL, from the root or relative to the files that are made.
 */
export async function bundle({ outdir, entryPoints, placeOf }) {
  // Loaded here: this file is read before anything is installed.
  const esbuild = await import('esbuild');
  const { metafile } = await esbuild.build({
    entryPoints,
    outdir,
    absWorkingDir: root,
    logLevel: 'silent',
    metafile: true,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    outExtension: { '.js': '.mjs' },
    sourcemap: true,
    sourcesContent: false,
    define: { 'import.meta.url': 'weirSourceUrl' },
    banner: {
      js: "import { createRequire as weirRequire } from 'node:module'; const weirBuiltUrl = import.meta.url; const require = weirRequire(weirBuiltUrl);",
    },
    plugins: [{ name: 'weir-sources', setup: (builder) => resolveSources(builder, placeOf) }],
  });
  // Its process would stay with 300 MB for as long as the gateway runs.
  await esbuild.stop();
  return Object.keys(metafile.inputs);
}

function resolveSources(builder, placeOf) {
  builder.onResolve({ filter: /^[^./]/ }, ({ path: name, importer, kind }) => {
    const isInside = kind === 'entry-point' || bundled.test(name) || isPartOfBundled(importer);
    return isInside ? undefined : { path: name, external: true };
  });
  builder.onLoad({ filter: /\.ts$/ }, async ({ path: file }) => ({
    contents: withPlace(placeOf(file), await readFile(file, 'utf8')),
    loader: 'ts',
  }));
}

/** The imports of a bundled library go with it, unless they are Node's. */
function isPartOfBundled(importer) {
  const [, name] = importer.split(`${path.sep}node_modules${path.sep}`);
  return name !== undefined && bundled.test(name.replaceAll(path.sep, '/'));
}

/** A source finds its neighbours where it stands; children of the gateway have been made as well, beside all others. */
function withPlace(place, source) {
  if (!source.includes('import.meta.url')) return source;
  const text = source.replace(
    /new URL\('\.\/([a-z-]+)\.ts', import\.meta\.url\)/g,
    "new URL(import.meta.resolve('./$1.mjs'))",
  );
  // On the first line, so that the numbers of the lines stay right.
  return `const weirSourceUrl = new URL(${JSON.stringify(place)}, weirBuiltUrl).href;${text}`;
}

async function prune() {
  const names = (await readdir(folder)).filter((name) => name.startsWith('sources-'));
  const builds = await Promise.all(
    names.map(async (name) => ({ name, madeAt: (await stat(path.join(folder, name))).mtimeMs })),
  );
  const old = builds.sort((a, b) => b.madeAt - a.madeAt).slice(keptBuilds);
  await Promise.all(old.map(({ name }) => rm(path.join(folder, name), { recursive: true, force: true })));
}
