import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Collects the garbage of the start: about 80 ms, before the first connection. A process without load collects nothing
 * by itself, and its young generation keeps the size that the start needed (64 MiB) until a first full collection,
 * after which V8 returns memory whenever the process is idle. Does nothing where the runtime has no such function.
 */
export function freeStartMemory(): void {
  try {
    setFlagsFromString('--expose-gc');
    const collect: unknown = runInNewContext('globalThis.gc');
    if (typeof collect === 'function') (collect as () => void)();
  } catch {
    // Optional.
  }
}
