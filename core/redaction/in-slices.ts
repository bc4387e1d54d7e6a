import type { Clock } from '../ports/clock.ts';

/** How long work may hold up requests at a time. */
const sliceMs = 5;

/** Does work to its end: at once when it is short, else with pauses in which requests go on. */
export function inSlices<T>(work: Generator<void, T>, clock: Pick<Clock, 'monotonic'>): T | Promise<T> {
  const until = clock.monotonic() + sliceMs;
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
    if (clock.monotonic() < until) continue;
    return new Promise((resolve, reject) => {
      setImmediate(() => {
        try {
          resolve(inSlices(work, clock));
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)));
        }
      });
    });
  }
}
