import { measured, median } from './cpu.ts';
import { load } from './load.ts';
import type { WeirSubject } from './subject.ts';

/** What one kind of request costs more than another at the same gateway, medians over the rounds. */
export interface Compared {
  readonly plain_us: number;
  readonly other_us: number;
  /** The median of the rounds' differences. */
  readonly added_us: number;
}

const connections = 32;
const warmRequests = 20_000;

/** CPU of two kinds of requests, saturated, in turns so that both see the same machine. */
export async function compareKinds(
  weir: WeirSubject,
  quick: boolean,
  plain: Buffer,
  other: Buffer,
): Promise<Compared> {
  const rounds = quick ? 5 : 15;
  const requests = quick ? 8000 : 20_000;
  const plainCosts: number[] = [];
  const otherCosts: number[] = [];
  const kinds = [
    { request: plain, costs: plainCosts },
    { request: other, costs: otherCosts },
  ];
  for (const { request } of kinds) await load(weir.port, request, warmRequests, connections);
  for (let round = 0; round < rounds; round++) {
    for (const { request, costs } of kinds) {
      const one = await measured(weir, () => load(weir.port, request, requests, connections));
      costs.push(one.cpuMicroseconds / one.completed);
    }
  }
  return {
    plain_us: median(plainCosts),
    other_us: median(otherCosts),
    added_us: median(otherCosts.map((cost, round) => cost - (plainCosts[round] ?? NaN))),
  };
}
