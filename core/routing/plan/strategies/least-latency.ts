import type { BranchChoice } from '../branch-choice.ts';
import { leadingLeaf } from '../open-node.ts';
import type { PlanBranch } from '../plan-node.ts';
import { pickWeighted } from './weighted.ts';

/** Share of the requests that go anywhere, so that a target that was slow once is measured again. */
const exploring = 1 / 50;

/**
 * The quicker one of two that are drawn by weight: near to the best, and unlike the very best never everybody's choice
 * at the same moment. One that was never measured goes first.
 */
export function pickFastest(choice: BranchChoice, branch: PlanBranch, taken: readonly number[]): number {
  const one = pickWeighted(choice, branch, taken);
  const other = one === -1 ? -1 : pickWeighted(choice, branch, taken, one);
  if (other === -1) return one;
  if (choice.environment.random() < exploring) {
    if (choice.traced && taken.length === 0) choice.reason = 'random, to measure again';
    return one;
  }
  const latency = latencyOfChild(choice, branch, one);
  const otherLatency = latencyOfChild(choice, branch, other);
  const first = latency === undefined || (otherLatency !== undefined && latency <= otherLatency);
  if (choice.traced && taken.length === 0)
    choice.reason = first ? because(latency, otherLatency) : because(otherLatency, latency);
  return first ? one : other;
}

function because(picked: number | undefined, passed: number | undefined): string {
  if (picked === undefined || passed === undefined) return 'not measured yet';
  return `${picked.toFixed(0)} ms against ${passed.toFixed(0)} ms`;
}

/** Milliseconds to the first token of the target that stands for a child. */
export function latencyOfChild(choice: BranchChoice, branch: PlanBranch, index: number): number | undefined {
  const child = branch.children[index];
  const leaf = child === undefined ? undefined : leadingLeaf(choice.environment, child);
  return leaf === undefined ? undefined : choice.environment.latency(leaf);
}
