import { setTimeout } from 'node:timers';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

type Collect = (options?: { readonly type: 'minor' }) => void;

let collect: Collect | undefined;

/**
 * Collects the garbage of this process at once, of its young generation alone with `minor`. A full collection of a
 * started gateway takes about 80 ms. Does nothing where the runtime offers no such function.
 */
export function collectGarbage(options?: Parameters<Collect>[0]): void {
  collect ??= findCollect();
  // Since Node 22 an argument of `undefined` collects the young generation alone.
  if (options === undefined) collect();
  else collect(options);
}

function findCollect(): Collect {
  try {
    setFlagsFromString('--expose-gc');
    const found: unknown = runInNewContext('globalThis.gc');
    if (typeof found === 'function') return found as Collect;
  } catch {
    // A runtime without this flag.
  }
  return () => undefined;
}

/** Share of one processor that an idle process uses at most. */
const idleShare = 0.1;

/**
 * Called once, at the end of the start: a process without load collects nothing by itself, and its young generation
 * keeps the size that the start needed (64 MiB). It is collected once more a minute later (`lookMs`), if it has been idle
 * since: only then does V8 make the young generation smaller. From then on V8 returns memory by itself, after five
 * minutes without load (`scripts/runtime-flags.mjs`).
 */
export function collectAfterStart(lookMs = 60_000): void {
  collectGarbage();
  const before = process.cpuUsage();
  setTimeout(() => {
    const { user, system } = process.cpuUsage(before);
    if (user + system < lookMs * 1000 * idleShare) collectGarbage();
  }, lookMs).unref();
}
