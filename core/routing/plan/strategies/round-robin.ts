import type { BranchChoice } from '../branch-choice.ts';
import type { PlanBranch } from '../plan-node.ts';

/** Turns of one period, as far as the number of targets allows. Weights that need more are rounded to it. */
const longestPeriod = 1000;
/** Weights with up to this many decimals keep their ratio exactly. */
const decimals = [1, 10, 100, 1000];

const schedules = new WeakMap<PlanBranch, Uint32Array>();

/**
 * The child whose turn it is, each as often as its weight says and spread evenly; one that may not be picked is passed
 * over for the next in the schedule. -1 when none may be picked.
 */
export function pickInTurn(choice: BranchChoice, branch: PlanBranch, taken: readonly number[]): number {
  const schedule = scheduleOf(branch);
  if (schedule.length === 0) return -1;
  // The second and third pick of a request go on from its turn and take none.
  if (taken.length === 0) choice.position = choice.environment.turn(branch) % schedule.length;
  if (choice.traced && taken.length === 0)
    choice.reason = `turn ${choice.position + 1} of ${schedule.length}`;
  for (let step = 0; step < schedule.length; step++) {
    const index = schedule[(choice.position + step) % schedule.length] ?? -1;
    if (choice.isEligible(branch, index, taken)) return index;
  }
  return -1;
}

function scheduleOf(branch: PlanBranch): Uint32Array {
  const known = schedules.get(branch);
  if (known !== undefined) return known;
  const made = smoothSchedule(branch.children.map(({ weight }) => weight));
  schedules.set(branch, made);
  return made;
}

/**
 * One period of smooth weighted round-robin: each index as often as its weight says, never bunched. Made once per
 * branch, so that a turn is one look-up.
 */
export function smoothSchedule(weights: readonly number[]): Uint32Array {
  const shares = integerShares(weights);
  const period = shares.reduce((sum, share) => sum + share, 0);
  const schedule = new Uint32Array(period);
  const credit = shares.map(() => 0);
  for (let turn = 0; turn < period; turn++) {
    let best = 0;
    for (const [index, share] of shares.entries()) {
      credit[index] = (credit[index] ?? 0) + share;
      if ((credit[index] ?? 0) > (credit[best] ?? 0)) best = index;
    }
    credit[best] = (credit[best] ?? 0) - period;
    schedule[turn] = best;
  }
  return schedule;
}

/** Whole numbers in the ratio of the weights whose sum is at most a period; nobody with a weight goes empty. */
function integerShares(weights: readonly number[]): readonly number[] {
  for (const factor of decimals) {
    const scaled = weights.map((weight) => Math.round(Math.max(weight, 0) * factor));
    const exact = weights.every(
      (weight, index) => Math.abs(Math.max(weight, 0) * factor - (scaled[index] ?? 0)) < 1e-9 * factor,
    );
    if (!exact) continue;
    const divisor = scaled.reduce(greatestCommonDivisor, 0);
    const shares = divisor === 0 ? scaled : scaled.map((share) => share / divisor);
    if (shares.reduce((sum, share) => sum + share, 0) <= longestPeriod) return shares;
  }
  const total = weights.reduce((sum, weight) => sum + Math.max(weight, 0), 0);
  return weights.map((weight) =>
    weight > 0 ? Math.max(1, Math.floor((weight / total) * longestPeriod)) : 0,
  );
}

function greatestCommonDivisor(left: number, right: number): number {
  return right === 0 ? left : greatestCommonDivisor(right, left % right);
}
