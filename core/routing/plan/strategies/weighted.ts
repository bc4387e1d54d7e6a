import type { BranchChoice } from '../branch-choice.ts';
import type { PlanBranch } from '../plan-node.ts';

/** A random child, each with the chance of its weight; -1 when none may be picked. `besides` is left out as well. */
export function pickWeighted(
  choice: BranchChoice,
  branch: PlanBranch,
  taken: readonly number[],
  besides = -1,
): number {
  const { children } = branch;
  let total = 0;
  for (let index = 0; index < children.length; index++)
    if (index !== besides && choice.isEligible(branch, index, taken)) total += children[index]?.weight ?? 0;
  let left = choice.environment.random() * total;
  let picked = -1;
  for (let index = 0; index < children.length; index++) {
    if (index === besides || !choice.isEligible(branch, index, taken)) continue;
    picked = index;
    left -= children[index]?.weight ?? 0;
    // Rounding may leave a crumb behind the last one, which is then the pick.
    if (left < 0) break;
  }
  return picked;
}
