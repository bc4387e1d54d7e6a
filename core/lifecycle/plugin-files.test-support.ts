import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { PluginBundler } from './plugin-bundler.ts';
import { realClock, recordingLog, type Line } from './recording-services.test-support.ts';

/** A folder outside the project's tree, with a bundler whose bundles lie elsewhere. */
export interface PluginFolder {
  readonly folder: string;
  readonly bundles: string;
  readonly bundler: PluginBundler;
  readonly lines: Line[];
  /** Writes files by their names relative to the folder. */
  write(files: Readonly<Record<string, string>>): Promise<void>;
  path(name: string): string;
}

/** Makes one; it is deleted when the test ends. */
export async function pluginFolder(t: TestContext): Promise<PluginFolder> {
  const root = await mkdtemp(join(tmpdir(), 'weir-plugins-'));
  t.after(() => rm(root, { recursive: true, force: true }));
  const folder = join(root, 'their folder');
  const bundles = join(root, 'data', 'plugins');
  const lines: Line[] = [];
  const bundler = new PluginBundler({
    folder: bundles,
    clock: realClock,
    log: recordingLog(lines),
    importTimeoutMs: 500,
  });
  const path = (name: string): string => join(folder, name);
  await mkdir(folder, { recursive: true });
  return {
    folder,
    bundles,
    bundler,
    lines,
    path,
    async write(files) {
      for (const [name, text] of Object.entries(files)) {
        await mkdir(dirname(path(name)), { recursive: true });
        await writeFile(path(name), text);
      }
    },
  };
}

/** A package that exports `value`, for writing below `node_modules`. */
export function installedPackage(name: string, value: string): Record<string, string> {
  const manifest = { name, version: '1.0.0', type: 'module', exports: { import: './main.js' } };
  return {
    [`node_modules/${name}/package.json`]: JSON.stringify(manifest),
    [`node_modules/${name}/main.js`]: `export const value = ${JSON.stringify(value)};\nexport const place = import.meta.url;\n`,
  };
}
