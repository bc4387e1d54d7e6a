/** Runs targets in turns, for a time, and says what broke. */
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import { caseText, failureText, type FuzzTarget } from './target.ts';

/** Time of one turn of one target at most, in milliseconds: another seed biases its values differently. */
const longestTurnMs = 20_000;
/** More cases than this in one turn would all be of one seed. */
const casesPerTurn = 1_000_000;
/** Longest text of a case that is printed. */
const longestCase = 20_000;

/** How long, and with which values. */
export interface FuzzOptions {
  readonly minutes: number;
  /** Of the first turn of each target; each later round takes the next number. */
  readonly seed: number;
  /** Runs this one case of the one target; `minutes` has no effect then. */
  readonly path?: string | undefined;
  /** Receives each line of a failure. */
  readonly report: (line: string) => void;
}

/** Cases and time of one target. */
interface FuzzedRow {
  readonly name: string;
  cases: number;
  seconds: number;
}

interface Turn {
  readonly target: FuzzTarget;
  readonly row: FuzzedRow;
  readonly seed: number;
  readonly ms: number;
}

/**
 * Runs each target at least once, then all of them in turns until the time is over. The first failure is shrunk and
 * reported, and ends the run: `failed`.
 */
export async function runTargets(
  targets: readonly FuzzTarget[],
  options: FuzzOptions,
): Promise<{ readonly failed: boolean; readonly rows: readonly FuzzedRow[] }> {
  const rows = targets.map(({ name }): FuzzedRow => ({ name, cases: 0, seconds: 0 }));
  const watchdog = new Watchdog(rows.map(({ name }) => name));
  const turn = (index: number, seed: number, ms: number): Promise<boolean> => {
    const [target, row] = [targets[index], rows[index]];
    if (target === undefined || row === undefined) throw new Error(`There is no target ${index}.`);
    return runTurn({ target, row, seed, ms }, options, watchdog.watching(index, seed));
  };
  try {
    if (options.path !== undefined) return { failed: await turn(0, options.seed, longestTurnMs), rows };
    const end = performance.now() + options.minutes * 60_000;
    for (let round = 0; round === 0 || performance.now() < end; round++) {
      for (const at of rows.keys()) {
        const left = (end - performance.now()) / (rows.length - at);
        if (round > 0 && left < 50) break;
        if (await turn(at, options.seed + round, Math.min(longestTurnMs, Math.max(200, left))))
          return { failed: true, rows };
      }
    }
    return { failed: false, rows };
  } finally {
    await watchdog.end();
  }
}

async function runTurn(
  { target, row, seed, ms }: Turn,
  { path, report }: FuzzOptions,
  watch: { began(run: number): void; ended(): void },
): Promise<boolean> {
  const closers: (() => Promise<void>)[] = [];
  const started = performance.now();
  let runs = 0;
  try {
    // Anew for each turn: what a target keeps of its cases would grow for hours.
    const open = await target.open({ after: (close) => void closers.push(close) });
    const found = await fc.check(
      open.property(() => watch.began(runs++)),
      {
        seed,
        numRuns: path === undefined ? casesPerTurn : 1,
        ...(path === undefined
          ? { interruptAfterTimeLimit: Math.max(200, ms - (performance.now() - started)) }
          : { path }),
      },
    );
    if (!found.failed) return false;
    const { counterexample, counterexamplePath, errorInstance } = found;
    report(`FAILED ${target.name}: seed ${seed}, path ${counterexamplePath}`);
    report(`Case: ${caseText(counterexample?.[0]).slice(0, longestCase)}`);
    report(failureText(errorInstance));
    report(`Replay: npm run fuzz -- --only ${target.name} --seed ${seed} --path ${counterexamplePath}`);
    return true;
  } finally {
    watch.ended();
    row.cases += runs;
    row.seconds += (performance.now() - started) / 1000;
    for (const close of closers.reverse()) await close();
  }
}

/** A thread that ends this process, with a line for the replay, when one case blocks it for good. */
class Watchdog {
  /** Cases so far, the target that runs (or -1), its seed, and its cases. */
  readonly #shared = new Int32Array(new SharedArrayBuffer(16));
  readonly #worker: Worker;

  constructor(names: readonly string[]) {
    Atomics.store(this.#shared, 1, -1);
    this.#worker = new Worker(new URL('../../scripts/fuzz-watchdog.mjs', import.meta.url), {
      workerData: { shared: this.#shared, names },
    });
  }

  watching(target: number, seed: number): { began(run: number): void; ended(): void } {
    const shared = this.#shared;
    Atomics.store(shared, 2, seed);
    return {
      began(run) {
        Atomics.store(shared, 3, run);
        Atomics.add(shared, 0, 1);
        Atomics.store(shared, 1, target);
      },
      ended: () => void Atomics.store(shared, 1, -1),
    };
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }
}
