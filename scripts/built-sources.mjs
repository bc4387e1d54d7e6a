// The gateway's own sources, and the libraries loaded at its start, compiled into a few JavaScript files. tsx takes at
// least a millisecond for each of the thousand files, in every process that starts: more than the gateway itself. They
// are rebuilt at the next start when a source has changed. When the build fails (a read-only folder, a faulty source),
// tsx runs the sources, as it does for tests and tools.
import { createHash, randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const here = fileURLToPath(import.meta.url);
const root = path.dirname(path.dirname(here));
/** Folder of all builds. */
export const builds = path.join(root, 'node_modules', '.weir');
/** Names the folder of the newest files, and the hash of their sources. */
const index = path.join(builds, 'sources.json');
const lockFile = path.join(root, 'package-lock.json');
/** Running gateways may still load parts of their build. */
const keptBuilds = 4;

/** Entry points: the gateway, and the files that it starts as a process or a thread. */
export const entryPoints = {
  main: 'main.ts',
  'pglite-child': 'storage/embedded/pglite-child.ts',
  'chdb-child': 'storage/embedded/chdb-child.ts',
  'plugin-thread': 'core/lifecycle/isolation/plugin-thread.ts',
  'translate-large': 'adapters/dialects/translate-large.ts',
  'read-document': 'adapters/mcp/openapi/read-document.ts',
  'classify-texts': 'plugins/local-classifier/classify-texts.ts',
};
/** Libraries that are loaded at every start. The others read files of their own, are native, or are rarely needed. */
const bundled =
  /^(@clickhouse\/client|@hono\/node-server|@pydantic\/genai-prices|ajv|ajv-formats|drizzle-orm|franc-min|hono|jose|lossless-json|minisearch|mustache|pg|prom-client|re2js|typebox|undici|yaml)(\/|$)/;

/** The URL of the compiled `main.ts`; undefined when the build failed. */
export async function builtMain() {
  const built = builtFolder() ?? (await build());
  return built && pathToFileURL(path.join(built, 'main.mjs')).href;
}

/** The folder with the build of the present sources; undefined when there is none. */
function builtFolder() {
  try {
    const { name, inputs, hash } = JSON.parse(readFileSync(index, 'utf8'));
    const built = path.join(builds, name);
    return existsSync(path.join(built, 'main.mjs')) && hashOf(inputs) === hash ? built : undefined;
  } catch {
    // Missing or damaged: it is rebuilt.
    return undefined;
  }
}

/**
 * Hash of the files' text, not of their times, which images and copies change; it takes 20 ms. And of the folder: a build
 * names it, so that a copied folder would read the files of the one it was copied from.
 */
function hashOf(files) {
  const hash = createHash('sha256').update(root);
  for (const file of files) {
    const full = path.join(root, file);
    hash.update(`\0${file}\0`).update(existsSync(full) ? readFileSync(full) : '');
  }
  return hash.digest('hex');
}

async function build() {
  const name = `sources-${randomUUID()}`;
  const built = path.join(builds, name);
  try {
    await mkdir(builds, { recursive: true });
    const made = await bundle({ outdir: built, entryPoints, placeOf: (file) => pathToFileURL(file).href });
    const own = made.filter((file) => !file.startsWith('node_modules/'));
    const inputs = [...[lockFile, here].map((file) => path.relative(root, file)), ...own];
    // Atomic: other processes may be starting at the same time.
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
 * Builds the files; returns the sources and library files that they contain, relative to the root. `placeOf` returns
 * the location that a source assumes for itself: a URL, from the root or relative to the built files.
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
    // Without a comment that names the map: `run.mjs` reads it when it shows an error.
    sourcemap: 'external',
    sourcesContent: false,
    // Each process keeps the text of what it has loaded; outside of ASCII, as comments are, a character takes two bytes.
    minifyWhitespace: true,
    // Node shows the line that threw an error which ends the process.
    lineLimit: 160,
    legalComments: 'none',
    charset: 'ascii',
    define: { 'import.meta.url': 'weirSourceUrl' },
    banner: {
      js: "import { createRequire as weirRequire } from 'node:module'; const weirBuiltUrl = import.meta.url; const require = weirRequire(weirBuiltUrl);",
    },
    plugins: [{ name: 'weir-sources', setup: (builder) => resolveSources(builder, placeOf) }],
  });
  // Its process would keep 300 MB for as long as the gateway runs.
  await esbuild.stop();
  const made = Object.keys(metafile.outputs).filter((file) => file.endsWith('.mjs'));
  await Promise.all(made.map((file) => writeAscii(path.join(root, file))));
  return Object.keys(metafile.inputs);
}

/** esbuild escapes every character outside of ASCII but those of regular expressions. */
async function writeAscii(file) {
  const text = await readFile(file, 'utf8');
  const escaped = text.replace(
    /[^\0-\x7f]/g,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  if (escaped !== text) await writeFile(file, escaped);
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

/** The imports of a bundled library are bundled too, unless they are Node's. */
function isPartOfBundled(importer) {
  const [, name] = importer.split(`${path.sep}node_modules${path.sep}`);
  return name !== undefined && bundled.test(name.replaceAll(path.sep, '/'));
}

/**
 * A source resolves its neighbours from its own location; children of the gateway are compiled as well, beside all
 * others.
 */
function withPlace(place, source) {
  if (!source.includes('import.meta.url')) return source;
  const text = source.replace(
    /new URL\('\.\/([a-z-]+)\.ts', import\.meta\.url\)/g,
    "new URL(import.meta.resolve('./$1.mjs'))",
  );
  // On the first line, so that line numbers stay correct.
  return `const weirSourceUrl = new URL(${JSON.stringify(place)}, weirBuiltUrl).href;${text}`;
}

async function prune() {
  const names = (await readdir(builds)).filter((name) => name.startsWith('sources-'));
  const found = await Promise.all(
    names.map(async (name) => ({ name, madeAt: (await stat(path.join(builds, name))).mtimeMs })),
  );
  const old = found.sort((a, b) => b.madeAt - a.madeAt).slice(keptBuilds);
  await Promise.all(old.map(({ name }) => rm(path.join(builds, name), { recursive: true, force: true })));
}
