import type { BranchChoice } from '../branch-choice.ts';
import { leadingLeaf } from '../open-node.ts';
import type { PlanBranch } from '../plan-node.ts';

/** The cheapest child; those of unknown price come last, those of one price in file order. -1 when none may be picked. */
export function pickCheapest(choice: BranchChoice, branch: PlanBranch, taken: readonly number[]): number {
  let picked = -1;
  let least = Number.POSITIVE_INFINITY;
  for (let index = 0; index < branch.children.length; index++) {
    if (!choice.isEligible(branch, index, taken)) continue;
    const cost = costOfChild(choice, branch, index) ?? Number.POSITIVE_INFINITY;
    if (picked !== -1 && cost >= least) continue;
    picked = index;
    least = cost;
  }
  if (choice.traced && taken.length === 0)
    choice.reason = least === Number.POSITIVE_INFINITY ? 'no price is known' : 'lowest estimate';
  return picked;
}

/** US dollars of this request at the target that stands for a child. */
export function costOfChild(choice: BranchChoice, branch: PlanBranch, index: number): number | undefined {
  const child = branch.children[index];
  const leaf = child === undefined ? undefined : leadingLeaf(choice.environment, child);
  return leaf === undefined ? undefined : choice.environment.cost(leaf);
}
