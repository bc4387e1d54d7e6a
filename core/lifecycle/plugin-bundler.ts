import { readdir, rm, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import { PluginOrigins } from './attribute-error.ts';
import { bounded } from './bounded.ts';
import {
  bundlePlugin,
  writeBundle,
  type BundleRequest,
  type BundleResult,
  type PluginBundle,
} from './bundle-plugin.ts';

/** What a `PluginBundler` needs to know. */
export interface PluginBundlerOptions {
  /** Where bundles are kept: `<data>/plugins`. */
  readonly folder: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Longest time for a module's top level to run, in milliseconds. Default 10000. */
  readonly importTimeoutMs?: number;
}

/** The module of a bundle and the file that it was loaded from. */
export interface LoadedModule {
  readonly file: string;
  readonly exports: Readonly<Record<string, unknown>>;
}

const keptUnused = 5;
const temporaryLifeMs = 60_000;

/**
 * Turns plugins' source files into modules of this process. Modules are never unloaded (about 0.5 MiB each), so
 * the same code is imported once however often it is bundled.
 */
export class PluginBundler {
  /** Which plugin a stack trace points to. */
  readonly origins = new PluginOrigins();
  readonly #options: PluginBundlerOptions;
  readonly #folder: string;
  readonly #modules = new Map<string, Promise<LoadedModule>>();
  readonly #failures = new Map<string, number>();

  constructor(options: PluginBundlerOptions) {
    this.#options = options;
    this.#folder = resolve(options.folder);
  }

  /** Bundles in memory: reports what is wrong with the code, and what to watch. Runs none of it. */
  bundle(request: BundleRequest): Promise<BundleResult> {
    return bundlePlugin(request);
  }

  /** Imports a bundle, or returns the module when the same code is loaded already. Rejects as its top level throws. */
  load(bundle: PluginBundle): Promise<LoadedModule> {
    const known = this.#modules.get(bundle.hash);
    if (known !== undefined) return known;
    const loading = this.#import(bundle);
    this.#modules.set(bundle.hash, loading);
    loading.catch(() => {
      this.#modules.delete(bundle.hash);
      this.#failures.set(bundle.hash, (this.#failures.get(bundle.hash) ?? 0) + 1);
    });
    return loading;
  }

  /** Deletes written bundles except those in use and a few of the newest. Never rejects. */
  async prune(inUse: ReadonlySet<string>): Promise<void> {
    try {
      const found = await this.#written();
      const unused = found.filter(
        ({ name }) => name.endsWith('.mjs') && !inUse.has(name.split('.')[0] ?? ''),
      );
      const old = unused.sort((a, b) => b.changedAt - a.changedAt).slice(keptUnused);
      const before = this.#options.clock.now() - temporaryLifeMs;
      const leftovers = found.filter(({ name, changedAt }) => name.endsWith('.tmp') && changedAt < before);
      await Promise.all(
        [...old, ...leftovers].map(({ name }) => rm(join(this.#folder, name), { force: true })),
      );
    } catch (error) {
      this.#options.log.warn('old plugin bundles could not be deleted', {
        folder: this.#folder,
        error: String(error),
      });
    }
  }

  async #import(bundle: PluginBundle): Promise<LoadedModule> {
    const failures = this.#failures.get(bundle.hash) ?? 0;
    // The runtime remembers a module that failed, also when what it missed is there now: try under another name.
    const name = failures === 0 ? `${bundle.hash}.mjs` : `${bundle.hash}.${failures}.mjs`;
    const file = await writeBundle(this.#folder, name, bundle.code);
    const { clock, importTimeoutMs: ms = 10_000 } = this.#options;
    const late = (): Error =>
      new Error(`its top level has not ended within ${ms} ms; move what waits into create()`);
    const load = (): Promise<Readonly<Record<string, unknown>>> => import(pathToFileURL(file).href);
    return { file, exports: await bounded(load, { clock, ms, late }) };
  }

  async #written(): Promise<{ name: string; changedAt: number }[]> {
    const names = await readdir(this.#folder).catch(() => []);
    return Promise.all(
      names.map(async (name) => ({ name, changedAt: (await stat(join(this.#folder, name))).mtimeMs })),
    );
  }
}
