import { measured, median } from './cpu.ts';
import { load } from '../../main/bench-command/load.ts';
import type { WeirSubject } from './subject.ts';

/** Extra cost of one kind of request over another at the same gateway. */
interface Compared {
  /** Medians over the rounds, microseconds of CPU per request. */
  readonly plain_us: number;
  readonly other_us: number;
  /** Mean of the rounds' differences, the outermost left out. */
  readonly added_us: number;
  /** Its standard error. */
  readonly added_error_us: number;
}

const connections = 32;
const warmRequests = 20_000;
/** Share of the differences left out at either end: bursts that other work on the machine disturbed. */
const leftOut = 0.15;

/**
 * CPU of two kinds of requests, saturated, in turns so that both see the same machine. Each round reverses their
 * order: after-effects of a burst, and a machine that grows slower, would otherwise be charged to one of them.
 */
export async function compareKinds(
  weir: WeirSubject,
  quick: boolean,
  plain: Buffer,
  other: Buffer,
): Promise<Compared> {
  const rounds = quick ? 6 : 30;
  const requests = quick ? 8000 : 20_000;
  const kinds = [plain, other].map((request) => ({ request, costs: new Array<number>() }));
  for (let turn = 0; turn < 2; turn++)
    for (const { request } of kinds) await load(weir.port, request, warmRequests, connections);
  for (let round = 0; round < rounds; round++) {
    for (const { request, costs } of round % 2 === 0 ? kinds : kinds.toReversed()) {
      const one = await measured(weir, () => load(weir.port, request, requests, connections));
      costs.push(one.cpuMicroseconds / one.completed);
    }
  }
  const [plainCosts = [], otherCosts = []] = kinds.map(({ costs }) => costs);
  const { mean, error } = trimmed(otherCosts.map((cost, round) => cost - (plainCosts[round] ?? NaN)));
  return {
    plain_us: median(plainCosts),
    other_us: median(otherCosts),
    added_us: mean,
    added_error_us: error,
  };
}

/** Mean of the values that are not among the outermost, and the standard error of that mean. */
function trimmed(values: readonly number[]): { readonly mean: number; readonly error: number } {
  const out = Math.floor(values.length * leftOut);
  const kept = values.toSorted((a, b) => a - b).slice(out, values.length - out);
  const mean = kept.reduce((sum, value) => sum + value, 0) / kept.length;
  const squares = kept.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { mean, error: Math.sqrt(squares / (kept.length - 1) / kept.length) };
}
