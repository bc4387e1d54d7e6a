import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { startChdb, type EmbeddedChdb } from './start-chdb.ts';

/** The real clock, for tests that run real processes. */
export const testClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms).unref();
    return () => clearTimeout(timer);
  },
};

/** A log that keeps its lines for the test to read. */
export function recordingLog(): Log & { readonly lines: string[] } {
  const lines: string[] = [];
  const write = (message: string, fields?: Readonly<Record<string, unknown>>): void => {
    lines.push(fields === undefined ? message : `${message} ${JSON.stringify(fields)}`);
  };
  const log = { debug: write, info: write, warn: write, error: write, child: () => log, lines };
  return log;
}

/** Reason why tests that need the embedded engine cannot run here, or false when they can. */
export const chdbMissing: string | false = reasonWithoutChdb();

function reasonWithoutChdb(): string | false {
  try {
    import.meta.resolve('chdb');
  } catch {
    return 'the optional package chdb is not installed';
  }
  const report = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
  const supported = process.platform === 'linux' && report.header.glibcVersionRuntime !== undefined;
  return supported || process.platform === 'darwin' ? false : 'chdb needs Linux with glibc or macOS';
}

/** A temporary folder, removed with everything that belongs to it by `remove`. */
export async function temporaryFolder(): Promise<{ path: string; remove: () => Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), 'weir-test-'));
  return {
    path,
    async remove() {
      await rm(path, { recursive: true, force: true });
    },
  };
}

/** An embedded engine on a temporary folder that `close` removes; inserts may name files in `rowFolders`. */
export async function startTestChdb(
  rowFolders: readonly string[] = [],
): Promise<{ engine: EmbeddedChdb; close: () => Promise<void> }> {
  const folder = await temporaryFolder();
  const engine = await startChdb({
    directory: folder.path,
    log: recordingLog(),
    clock: testClock,
    rowFolders,
  });
  return {
    engine,
    async close() {
      await engine.close();
      await folder.remove();
    },
  };
}
