// `npm pack` runs this (`prepack`): builds the package's generated files in `dist/`. The gateway and its entries for
// plugin authors as JavaScript, including the libraries of scripts/built-sources.mjs, the console's pages, the licences of
// both, the bills of materials, and the declarations that the entries' types need.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundle, entryPoints } from './built-sources.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const dist = path.join(root, 'dist');
const consoleApp = path.join(root, 'plugins', 'console', 'app');
/** Entries that other packages import from this one, by file name in `dist/`. */
const authorEntries = { plugin: 'core/pipeline/plugin.ts', testing: 'main/testing/index.ts' };

rmSync(dist, { recursive: true, force: true });
const made = await bundle({
  outdir: dist,
  entryPoints: { ...entryPoints, ...authorEntries },
  // The package does not contain the sources, but the files next to them (migrations, the first configuration) in their
  // places.
  placeOf: (file) => `../${path.relative(root, file).replaceAll(path.sep, '/')}`,
});
declare();
writeFileSync(path.join(dist, 'gateway.schema.json'), schema());
buildConsole();
writeFileSync(path.join(dist, 'LICENSES.txt'), licences([...bundledFolders(made), ...consoleFolders()]));
writeFileSync(path.join(dist, 'sbom.cdx.json'), billOfMaterials(root));
writeFileSync(path.join(dist, 'console-sbom.cdx.json'), billOfMaterials(consoleApp));

function buildConsole() {
  const { status } = spawnSync(process.execPath, [path.join(root, 'scripts', 'build-console.mjs')], {
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0) throw new Error('The console could not be built; the lines above say why.');
}

/** The JSON Schema of configurations, as the built gateway prints it. */
function schema() {
  const { status, stdout, stderr } = spawnSync(process.execPath, [path.join(dist, 'main.mjs'), 'schema'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 64_000_000,
  });
  if (status !== 0) throw new Error(`The schema cannot be printed: ${stderr}`);
  return stdout;
}

/** The folders of the libraries that these files belong to. */
function bundledFolders(files) {
  const names = files.flatMap((file) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1] ?? []);
  return [...new Set(names)].map((name) => path.join(root, 'node_modules', name));
}

/** The folders of the libraries that the console's pages may hold. */
function consoleFolders() {
  const { packages } = JSON.parse(readFileSync(path.join(consoleApp, 'package-lock.json'), 'utf8'));
  return Object.entries(packages)
    .filter(([place, { dev, os }]) => place !== '' && dev !== true && os === undefined)
    .map(([place]) => path.join(consoleApp, place));
}

/** The licences of the libraries in these folders. */
function licences(folders) {
  const texts = folders.map((folder) => {
    const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
    const { name, version, license } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
    const text = file === undefined ? `License: ${license}` : readFileSync(path.join(folder, file), 'utf8');
    return `${name} ${version}\n\n${text.trim()}\n`;
  });
  return [...new Set(texts)].sort().join(`\n${'-'.repeat(72)}\n\n`);
}

/** The dependencies of the package of this folder, in the format CycloneDX. */
function billOfMaterials(folder) {
  const { status, stdout, stderr } = spawnSync(
    'npm',
    ['sbom', '--sbom-format', 'cyclonedx', '--omit', 'dev', '--package-lock-only'],
    { cwd: folder, encoding: 'utf8', maxBuffer: 64_000_000 },
  );
  if (status !== 0) throw new Error(`npm could not list what is installed: ${stderr}`);
  const bill = JSON.parse(stdout);
  // npm names the package after its folder.
  bill.metadata.component.name = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')).name;
  return `${JSON.stringify(bill, null, 1)}\n`;
}

/** Writes the declarations of the entries, and of the modules that they reference, to `dist/types`. */
function declare() {
  const all = path.join(dist, 'all-types');
  const compiler = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const args = ['-p', path.join(root, 'tsconfig.package.json'), '--outDir', all];
  // The types have been checked before (`npm run check`). Declarations of other files may lack names; those are not taken.
  const { stdout } = spawnSync(process.execPath, [compiler, ...args, '--noCheck', '--pretty', 'false'], {
    cwd: root,
    encoding: 'utf8',
  });
  const wanted = Object.values(authorEntries).map((file) => file.replace(/\.ts$/, '.d.ts'));
  const seen = new Set(wanted);
  for (const file of wanted) {
    // A name with the ending .ts refers to a source, which is not in the package.
    const text = readFileSync(path.join(all, file), 'utf8').replace(
      /((?:from|import\()\s*)(['"])(\.[^'"]+)\.ts\2/g,
      (_, before, quote, name) => {
        const target = `${path.posix.join(path.posix.dirname(file), name)}.d.ts`;
        if (!seen.has(target)) wanted.push(target);
        seen.add(target);
        return `${before}${quote}${name}.js${quote}`;
      },
    );
    const target = path.join(dist, 'types', file);
    mkdirSync(path.dirname(target), { recursive: true });
    // Streams and buffers: compilers load these types only when they are referenced.
    writeFileSync(target, `/// <reference types="node" />\n${text}`);
  }
  rmSync(all, { recursive: true });
  const taken = new Set(wanted.map((file) => file.replace(/\.d\.ts$/, '.ts')));
  const wrong = stdout.split('\n').filter((line) => taken.has(line.split('(')[0]));
  if (wrong.length > 0) throw new Error(`The declarations could not be made:\n${wrong.join('\n')}`);
}
