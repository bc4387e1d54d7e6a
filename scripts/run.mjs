// main.ts on Node: its build, or the source itself through tsx when the build failed.
import { existsSync, readFileSync } from 'node:fs';
import { findSourceMap, SourceMap } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';

showSources();
const source = new URL('../main.ts', import.meta.url);
if (existsSync(source)) {
  const { builtMain } = await import('./built-sources.mjs');
  const built = await builtMain();
  if (built === undefined) (await import('tsx/esm/api')).register();
  await import(built ?? source.href);
} else {
  // The package, which `scripts/build-package.mjs` has made.
  await import(new URL('../dist/main.mjs', import.meta.url).href);
}

/**
 * Makes stack traces name the lines of the sources. Node reads the maps of plugins, which stand in their code; a built
 * file has its map beside it, read when an error that it threw is shown: the maps take 5 MB in each process.
 */
function showSources() {
  process.setSourceMapsEnabled(true);
  const besides = new Map();
  const mapOf = (url) => {
    const known = findSourceMap(url);
    if (known !== undefined || !url.endsWith('.mjs')) return known;
    if (!besides.has(url)) besides.set(url, readMap(url));
    return besides.get(url);
  };
  Error.prepareStackTrace = (error, frames) => {
    const lines = frames.map((frame) => `\n    at ${inSource(frame, mapOf)}`);
    return `${titleOf(error)}${lines.join('')}`;
  };
}

function readMap(url) {
  try {
    return new SourceMap(JSON.parse(readFileSync(new URL(`${url}.map`), 'utf8')));
  } catch {
    return undefined;
  }
}

/** Never throws: a stack trace is shown while something fails. */
function inSource(frame, mapOf) {
  const shown = String(frame);
  try {
    const built = frame.getFileName();
    const [line, column] = [frame.getLineNumber(), frame.getColumnNumber()];
    const { originalSource, originalLine, originalColumn } =
      mapOf(built)?.findEntry(line - 1, column - 1) ?? {};
    if (originalSource === undefined) return shown;
    const place = new URL(originalSource, built.startsWith('/') ? pathToFileURL(built) : built);
    const file = place.protocol === 'file:' ? fileURLToPath(place) : originalSource;
    return shown.replace(`${built}:${line}:${column}`, `${file}:${originalLine + 1}:${originalColumn + 1}`);
  } catch {
    return shown;
  }
}

function titleOf(error) {
  try {
    return Error.prototype.toString.call(error);
  } catch {
    return 'Error';
  }
}
