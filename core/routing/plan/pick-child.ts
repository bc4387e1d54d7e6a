import type { BranchChoice } from './branch-choice.ts';
import type { PlanBranch } from './plan-node.ts';
import { pickCanary } from './strategies/canary.ts';
import { pickByCondition } from './strategies/conditional.ts';
import { pickCheapest } from './strategies/least-cost.ts';
import { pickFastest } from './strategies/least-latency.ts';
import { pickInTurn } from './strategies/round-robin.ts';
import { pickSticky } from './strategies/sticky.ts';
import { pickWeighted } from './strategies/weighted.ts';

/**
 * The index of the child that the strategy of a branch prefers among those not taken yet; -1 when it has none. Only for
 * strategies that pick one: a fallback goes through its children itself.
 */
export function pickChild(choice: BranchChoice, branch: PlanBranch, taken: readonly number[]): number {
  const { strategy } = branch;
  switch (strategy.mode) {
    case 'loadbalance':
      return strategy.sticky === undefined
        ? pickWeighted(choice, branch, taken)
        : pickSticky(choice, branch, strategy.sticky, taken);
    case 'conditional':
      return pickByCondition(choice, strategy);
    case 'least-latency':
      return pickFastest(choice, branch, taken);
    case 'least-cost':
      return pickCheapest(choice, branch, taken);
    case 'round-robin':
      return pickInTurn(choice, branch, taken);
    case 'canary':
      return pickCanary(choice, branch, strategy, taken);
    case 'single':
    case 'fallback':
      return 0;
  }
}
