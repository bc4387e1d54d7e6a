import type { BranchChoice } from '../branch-choice.ts';
import { hashFraction, hashOfFields, saltOf } from '../hash-fraction.ts';
import { isNodeOpen } from '../open-node.ts';
import type { PlanBranch, Strategy } from '../plan-node.ts';

const salts = new WeakMap<PlanBranch, number>();

/**
 * The second child for `percentage` of the requests, the first one for the others: by the hash of the hash fields, so
 * that whoever is among the canaries stays so while the percentage grows, or at random without any of them. A child
 * whose breaker is open gives way to the other one.
 */
export function pickCanary(
  choice: BranchChoice,
  branch: PlanBranch,
  strategy: Extract<Strategy, { readonly mode: 'canary' }>,
  taken: readonly number[],
): number {
  const [first] = taken;
  // A second pick can be the other child alone.
  if (first !== undefined) return taken.length === 1 && isFree(choice, branch, 1 - first) ? 1 - first : -1;
  const key = hashOfFields(strategy.hashFields, choice.field);
  const fraction = key === undefined ? choice.environment.random() : hashFraction(key, saltOfBranch(branch));
  const below = fraction * 100 < strategy.percentage;
  const wanted = below ? 1 : 0;
  const free = isFree(choice, branch, wanted);
  if (choice.traced)
    choice.reason =
      `${key === undefined ? 'random' : 'hash'} ${fraction.toFixed(3)} is ${below ? '' : 'not '}below ` +
      `${strategy.percentage} %${free ? '' : ', but its breaker is open'}`;
  return free ? wanted : 1 - wanted;
}

function isFree(choice: BranchChoice, branch: PlanBranch, index: number): boolean {
  const child = branch.children[index];
  return child !== undefined && (choice.bypass || !isNodeOpen(choice.environment, child));
}

/** Places differ, lest the canaries of one branch be those of the next; digests of texts do not, lest an edit move everybody. */
function saltOfBranch(branch: PlanBranch): number {
  let salt = salts.get(branch);
  if (salt === undefined) salts.set(branch, (salt = saltOf(branch.path)));
  return salt;
}
